//! Columns, graphemes and lines of text.

mod fold;
mod width;
mod wrap;

pub use fold::folded;
pub(crate) use width::{clip, columns, graphemes};
pub(crate) use wrap::{soft_split, wrap};

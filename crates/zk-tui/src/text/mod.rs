//! Columns, graphemes and lines of text.

mod fold;
mod width;
mod wrap;

pub use fold::folded;
pub(crate) use width::{clip, columns, fitting_facts, graphemes};
pub(crate) use wrap::{soft_split, wrap, wrap_within};

//! Columns, graphemes and lines of text.

mod width;
mod wrap;

pub(crate) use width::{clip, columns, graphemes};
pub(crate) use wrap::{soft_split, wrap};

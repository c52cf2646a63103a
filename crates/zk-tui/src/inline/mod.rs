//! The inline screen: closed rows scroll away, live rows are redrawn below them.

mod paint;

pub use paint::{Abilities, Caret, InlineScreen, Size};

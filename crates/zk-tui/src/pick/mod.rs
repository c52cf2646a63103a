//! Choosing one of many by a few letters: models, sessions, files, commands.

mod fuzzy;
mod list;
mod picker;

pub(crate) use fuzzy::best as fuzzy_best;
pub use list::{Asked, Completer, Offered};
pub(crate) use list::{List, asked};
pub use picker::opens_picker;
pub(crate) use picker::{Picked, Picker, PickerKey, PickerKind};

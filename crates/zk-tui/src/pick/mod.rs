//! Choosing one of many by a few letters: models, sessions, files, commands.

mod fuzzy;
mod list;
mod menu;
mod picker;

pub use list::{Asked, Completer, Offered};
pub(crate) use list::{List, asked};
pub use menu::{Entry, EntryKey, Menu, MenuKey, MenuRow, message_rows};
pub use picker::opens_picker;
pub(crate) use picker::{Picked, Picker, PickerKey, PickerKind};

//! Fuzzy choice of one of many: models, sessions, files, commands.

mod entries;
mod fuzzy;
mod list;
mod menu;
mod picker;
mod picker_kind;

pub use list::{Asked, Completer, Offered};
pub(crate) use list::{List, completion_request};
pub use menu::{Entry, EntryKey, Menu, MenuKey, MenuRow, message_rows};
pub(crate) use picker::{Picked, Picker, PickerKey};
pub(crate) use picker_kind::PickerKind;
pub use picker_kind::opens_picker;

//! Questions to the person: drawing, and the keys that answer.

pub mod answer_keys;
mod approval;
mod asking;
mod card;
mod frame;
mod line_choice;
mod select;
mod select_rows;

pub use approval::CardLook;
pub(crate) use asking::Asking;
pub(crate) use card::{CardState, Outcome, press_buffer};
pub use frame::Frame;
pub use line_choice::LineChoice;

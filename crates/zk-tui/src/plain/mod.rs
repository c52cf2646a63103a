//! A conversation in plain lines: nothing that was written is written anew, so that it can be read out, and works on terminals
//! that cannot move their cursor. What a program reads is written by the same [`Screen`].

mod backlog;
mod flow;
mod help;
mod keyboard;
mod line_editor;
pub mod lines;
mod notices;
mod page;
mod painter;
mod piped_input;
mod run_report;
mod screen;
mod shared_screen;
mod status_line;
mod terminal_ui;

pub use crate::text::folded;
pub use backlog::Backlog;
pub use help::help;
pub use keyboard::{Keyboard, Waiting, Watching};
pub use line_editor::{LineEditor, OnChange, ReadLine};
pub use notices::Notices;
pub use painter::Painting;
pub use piped_input::{PipedInputError, piped_text};
pub use run_report::RunReport;
pub use screen::{Printed, Screen, Sink};
pub use shared_screen::SharedScreen;
pub use status_line::StatusLine;
pub use terminal_ui::{FOLLOW_UP_WAIT, TerminalUi, attend};

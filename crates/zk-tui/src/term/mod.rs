//! Access to the terminal: modes, input, capabilities, and the text that may be written to it.

mod abilities;
mod env;
mod error;
mod guard;
mod input;
mod known;
mod modes;
mod notice;
mod output;
mod redact;
mod safe;
pub mod secret;
mod suspend;
mod tty;
mod utf8;

pub use abilities::{abilities, queries, theme};
pub use env::TerminalEnv;
pub use error::TerminalError;
pub use guard::{Restored, TerminalGuard};
pub use input::{Input, Typed};
pub(crate) use known::KnownTerminal;
pub use modes::{Modes, Queries};
pub use notice::NoticeForm;
pub(crate) use notice::notice_sequence;
pub use output::{Output, WriteFailure};
pub use redact::{redact_with, redacted};
pub use safe::{Reader, SafeText, StdStream, print_stderr};
pub use suspend::stop_process;
pub(crate) use tty::KeyMode;
pub use tty::Tty;
pub use utf8::Utf8Decoder;

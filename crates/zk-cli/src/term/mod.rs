//! Everything a person sees on a terminal.

mod backlog;
mod notices;
mod redact;
mod safe;
pub(crate) mod screen;
pub(crate) mod secret;
mod utf8;

pub(crate) use backlog::Backlog;
pub(crate) use notices::Notices;
pub(crate) use redact::{redact_with, redacted};
pub(crate) use safe::{Place, SafeText, print_stderr};
pub(crate) use screen::{Screen, Sink, StatusId, Style, terminal_size};
pub(crate) use utf8::Utf8Decoder;
pub(crate) use zk_view::{Sanitiser, is_harmless, sanitise};

//! Everything a person sees on a terminal, and the one sanitiser before it.

mod notices;
mod redact;
pub(crate) mod sanitise;
pub(crate) mod screen;
pub(crate) mod secret;
mod utf8;

pub(crate) use notices::Notices;
pub(crate) use redact::{redact_with, redacted};
pub(crate) use sanitise::{Sanitiser, is_harmless, sanitise};
pub(crate) use screen::{Screen, StatusId, Style, print_stderr, terminal_size};
pub(crate) use utf8::Utf8Decoder;

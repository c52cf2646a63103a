//! Everything a person sees on a terminal, and the one sanitiser before it.

pub(crate) mod sanitise;
pub(crate) mod screen;
pub(crate) mod secret;

pub(crate) use sanitise::{Sanitiser, is_harmless, sanitise};
pub(crate) use screen::{Screen, StatusId, Style, print_stderr};

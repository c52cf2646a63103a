//! This process and its machine: environment, directories, signals, standard input, the end.

pub(crate) mod dirs;
pub(crate) mod env;
pub(crate) mod exit;
pub(crate) mod hardening;
#[cfg(feature = "otel")]
pub(crate) mod log;
pub(crate) mod signals;
pub(crate) mod stdin;

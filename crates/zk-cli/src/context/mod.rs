//! Context of a start, read from the command line and the settings.

pub(crate) mod app;
pub(crate) mod configure;
pub(crate) mod session_stores;

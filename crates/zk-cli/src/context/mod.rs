//! The command line as it was given, and the context that is read of it and of the settings.

pub(crate) mod app;
pub(crate) mod configure;
pub(crate) mod session_stores;

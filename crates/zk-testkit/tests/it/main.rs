//! The test kit, used as its users use it.

mod provider;
mod recorder;

//! Record of the commands in the shell: for the model, if it is asked.

mod capture;
mod exchange;
mod recorder;
mod render;

#[cfg(test)]
pub(crate) use capture::Capture;
pub(crate) use exchange::{Exchange, ExchangeEnd};
pub(crate) use recorder::{CaptureState, Recorder};
pub use render::render_output;

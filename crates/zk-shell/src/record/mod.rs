//! Record of the commands in the shell, which the model gets at the next prompt.

mod capture;
mod exchange;
mod hints;
mod live_screen;
mod recorder;
mod render;
mod secrets;

#[cfg(test)]
pub(crate) use capture::Capture;
pub(crate) use exchange::{Exchange, ExchangeEnd};
pub(crate) use hints::{HINT_NONCE, MAX_HINTS};
pub(crate) use live_screen::LiveScreen;
pub(crate) use recorder::{CaptureState, MAX_COMMANDS, MAX_OUTPUT_BYTES, RecordLimits, Recorder};
pub use render::render_output;
pub(crate) use secrets::redact_shell_text;

use std::io::Write;
use std::str::FromStr;
use std::sync::Mutex;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

/// Level of a log of lines.
///
/// ```
/// assert!("debug".parse::<zk_otel::LogLevel>().is_ok());
/// assert!("loud".parse::<zk_otel::LogLevel>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLevel(LevelFilter);

/// Error of a text that names no level.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no level `{0}`; it is error, warn, info, debug or trace")]
pub struct LogLevelError(String);

impl FromStr for LogLevel {
    type Err = LogLevelError;

    fn from_str(text: &str) -> Result<Self, LogLevelError> {
        Ok(Self(match text.trim().to_ascii_lowercase().as_str() {
            "error" => LevelFilter::ERROR,
            "warn" => LevelFilter::WARN,
            "info" => LevelFilter::INFO,
            "debug" => LevelFilter::DEBUG,
            "trace" => LevelFilter::TRACE,
            other => return Err(LogLevelError(other.to_owned())),
        }))
    }
}

impl LogLevel {
    /// Writes the events of `tracing` from this level on to `log`, for the rest of the process. Other libraries log
    /// contents of messages and typed text, so their level is limited to warnings.
    ///
    /// # Errors
    /// If the process has a subscriber already.
    pub fn write_to(self, log: impl Write + Send + 'static) -> Result<(), TryInitError> {
        let targets = Targets::new().with_default(self.0.min(LevelFilter::WARN)).with_target("zk", self.0);
        let lines = tracing_subscriber::fmt::layer().with_writer(Mutex::new(log));
        tracing_subscriber::registry().with(lines).with(targets).try_init()
    }
}

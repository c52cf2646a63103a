pub(crate) mod catch;
pub(crate) mod report;

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::Source;

/// An error of any type, as handlers return it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Effect of a failing handler on the emit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The choice of the host of the bus (by default [`OnError::Continue`]).
    #[default]
    Inherit,
    /// Report it and go on as if the handler had not answered.
    Continue,
    /// End the emit with the error: whoever emitted must read it as *no*.
    Throw,
}

/// Failure of a handler: whose, registered where, and why.
#[derive(Debug)]
pub struct HookError {
    /// The event's name.
    pub event: &'static str,
    /// Source that registered the handler.
    pub source: Source,
    /// Location of the registration. For developers: the message does not contain it.
    pub location: &'static Location<'static>,
    /// Cause of the failure.
    pub cause: Cause,
}

/// Cause of a handler's failure.
#[derive(Debug)]
pub enum Cause {
    /// Error that the handler returned.
    Failed(BoxError),
    /// Panic of the handler, with its message.
    Panicked(String),
    /// Time-out: the handler took longer than this limit.
    TimedOut(Duration),
    /// Removal by a reload whose replacement has not registered yet.
    Removed,
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (handler of `{}`): ", self.source, self.event)?;
        match &self.cause {
            Cause::Failed(error) => write!(f, "{error}"),
            Cause::Panicked(message) => write!(f, "panicked: {message}"),
            Cause::TimedOut(limit) => write!(f, "no answer within {limit:?}"),
            Cause::Removed => f.write_str("removed by a reload and not replaced yet"),
        }
    }
}

impl std::error::Error for HookError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            // The message is part of this one's, so the chain goes on with what is behind it.
            Cause::Failed(error) => error.source(),
            Cause::Panicked(_) | Cause::TimedOut(_) | Cause::Removed => None,
        }
    }
}

/// Failure of an emit.
#[derive(Debug)]
pub enum EmitError {
    /// A handler failed and the event's policy is [`OnError::Throw`].
    Hook(HookError),
    /// The run was stopped before all handlers had run.
    Cancelled {
        /// The event's name.
        event: &'static str,
    },
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hook(error) => error.fmt(f),
            Self::Cancelled { event } => write!(f, "the run was stopped during `{event}`"),
        }
    }
}

impl std::error::Error for EmitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Hook(error) => std::error::Error::source(error),
            Self::Cancelled { .. } => None,
        }
    }
}

pub(crate) mod catch;
pub(crate) mod report;

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use serde_core::ser::{Serialize, Serializer};

use crate::Source;

/// An error of any type, as returned by handlers.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Effect of a failing handler on the emission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnError {
    /// The policy of the bus, which its host sets (by default [`OnError::Continue`]).
    #[default]
    Inherit,
    /// The failure is reported, and the emission continues as if the handler had not answered.
    Continue,
    /// The emission ends with the error. Callers must take this as a refusal.
    Throw,
}

impl Serialize for OnError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Inherit => "inherit",
            Self::Continue => "continue",
            Self::Throw => "throw",
        })
    }
}

/// Failure of a handler, with its source and location.
#[derive(Debug)]
pub struct HookError {
    /// Name of the event.
    pub event: &'static str,
    /// Source that registered the handler.
    pub source: Source,
    /// Source location of the registration, for developers; not part of the message.
    pub location: &'static Location<'static>,
    /// Cause of the failure.
    pub cause: Cause,
}

/// Cause of a handler's failure.
#[derive(Debug)]
pub enum Cause {
    /// The handler returned this error.
    Failed(BoxError),
    /// The handler panicked with this message.
    Panicked(String),
    /// The handler exceeded this time limit.
    TimedOut(Duration),
    /// The handler was removed by a reload, and its replacement has not registered yet.
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
            // The error's own text is part of the message, so the chain continues with its source.
            Cause::Failed(error) => error.source(),
            Cause::Panicked(_) | Cause::TimedOut(_) | Cause::Removed => None,
        }
    }
}

/// Failure of an emission.
#[derive(Debug)]
pub enum EmitError {
    /// A handler failed, and the event's policy is [`OnError::Throw`].
    Hook(HookError),
    /// The run was stopped before all handlers had run.
    Cancelled {
        /// Name of the event.
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

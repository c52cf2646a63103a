use std::collections::BTreeMap;

use serde_core::de::DeserializeOwned;
use serde_json::Value;

use super::BoxError;

/// A reply that a program outside of this process can give as JSON. Such a program can answer events whose
/// reply implements this trait, and only observe all others.
///
/// A misread reply must not mean less than the program intended: unknown fields and values are errors, which
/// the event's [`OnError`](super::OnError) policy handles.
///
/// ```
/// use zk_kernel::{BoxError, WireReply};
///
/// /// How many there may be.
/// struct AtMost(u32);
///
/// impl WireReply for AtMost {
///     fn from_json(value: serde_json::Value) -> Result<Self, BoxError> {
///         Ok(Self(serde_json::from_value(value)?))
///     }
/// }
///
/// assert!(AtMost::from_json(3.into()).is_ok() && AtMost::from_json("many".into()).is_err());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be given by a program outside of this process",
    note = "implement `WireReply` for it: how it is read from JSON"
)]
pub trait WireReply: Sized + Send + 'static {
    /// Parses the reply from `value`, which is not `null` (`null` is no reply).
    ///
    /// # Errors
    /// A description of the invalid part.
    fn from_json(value: Value) -> Result<Self, BoxError>;
}

impl WireReply for Value {
    fn from_json(value: Value) -> Result<Self, BoxError> {
        Ok(value)
    }
}

/// Answers by name, such as the tools whose offer changes.
impl<T: DeserializeOwned + Send + 'static> WireReply for BTreeMap<String, T> {
    fn from_json(value: Value) -> Result<Self, BoxError> {
        Ok(serde_json::from_value(value)?)
    }
}

impl WireReply for () {
    fn from_json(value: Value) -> Result<Self, BoxError> {
        Err(format!("nobody can answer this event, but `{value}` came").into())
    }
}

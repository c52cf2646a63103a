use serde_json::Value;

use super::BoxError;

/// A reply that a program outside of this process can give as JSON. An event whose reply implements it can be asked
/// over a bridge; any other event such a program can only watch.
///
/// Replies of a program must not be read as something weaker than it means: an unknown field or value is an
/// error, and the event's [`OnError`](super::OnError) says what becomes of it.
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
    /// The reply in `value`, which is not `null`: that is no reply.
    ///
    /// # Errors
    /// What is wrong with it.
    fn from_json(value: Value) -> Result<Self, BoxError>;
}

impl WireReply for Value {
    fn from_json(value: Value) -> Result<Self, BoxError> {
        Ok(value)
    }
}

impl WireReply for () {
    fn from_json(value: Value) -> Result<Self, BoxError> {
        Err(format!("nobody can answer this event, but `{value}` came").into())
    }
}

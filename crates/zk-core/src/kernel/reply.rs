use super::{BoxError, Event};

/// What a handler gives back: a reply, nothing, or why it failed.
pub type Answer<E> = Result<Option<<E as Event>::Reply>, BoxError>;

/// What a closure may return as a handler of `E`.
#[diagnostic::on_unimplemented(
    message = "a handler of `{E}` cannot return `{Self}`",
    label = "wrong return type",
    note = "return `()`, `Option<Reply>` or a `Result` of either, where `Reply` is the event's reply type"
)]
pub trait IntoReply<E: Event> {
    /// The answer this value stands for.
    ///
    /// # Errors
    /// When the handler itself failed.
    fn into_answer(self) -> Answer<E>;
}

impl<E: Event> IntoReply<E> for () {
    fn into_answer(self) -> Answer<E> {
        Ok(None)
    }
}

impl<E: Event> IntoReply<E> for Option<E::Reply> {
    fn into_answer(self) -> Answer<E> {
        Ok(self)
    }
}

impl<E: Event, T: IntoReply<E>, X: Into<BoxError>> IntoReply<E> for Result<T, X> {
    fn into_answer(self) -> Answer<E> {
        match self {
            Ok(value) => value.into_answer(),
            Err(error) => Err(error.into()),
        }
    }
}

use std::future::Future;

use super::{BoxError, Cx, Event};

/// Handler with state, implemented as a struct: the usual form for crates.
///
/// ```
/// # use serde::Serialize;
/// # use std::sync::Arc;
/// use zk_kernel::{Answer, Bus, Cx, Event, First, Handler};
/// # #[derive(Debug, Serialize)] struct PickName;
/// # impl Event for PickName { const NAME: &'static str = "name:pick"; type Reply = String; type Mode = First; }
///
/// struct Fixed(String);
///
/// impl Handler<PickName> for Fixed {
///     async fn call(&self, _: &PickName, _: &Cx) -> Answer<PickName> {
///         Ok(Some(self.0.clone()))
///     }
/// }
///
/// let bus = Bus::new();
/// bus.scope("namer").handle::<PickName, _>(Arc::new(Fixed("zk".into())));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle `{E}`",
    note = "write `impl Handler<{E}> for {Self}`: `async fn call(&self, ev: &{E}, cx: &Cx) -> Answer<{E}>`"
)]
pub trait Handler<E: Event>: Send + Sync + 'static {
    /// Answers one event, or returns `None` for no answer.
    fn call(&self, event: &E, cx: &Cx) -> impl Future<Output = Answer<E>> + Send;
}

/// An `async fn(&E, &Cx)`, or an async closure without captures.
///
/// Helper trait of [`Scope::on_async`](super::Scope::on_async): the future borrows the event, so there is an
/// implementation for each lifetime. Use [`Scope::on_async_with`](super::Scope::on_async_with) for closures
/// with state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an async handler of `{E}`",
    note = "pass an `async fn(&{E}, &Cx)` or an async closure that captures nothing",
    note = "state goes through `on_async_with(state, async |state, ev, cx| …)`"
)]
pub trait AsyncHook<'a, E: Event>: Send + Sync + 'static {
    /// Future of one call.
    type Fut: Future<Output: IntoReply<E>> + Send + 'a;
    /// Starts one call.
    fn start(&self, event: &'a E, cx: &'a Cx) -> Self::Fut;
}

impl<'a, E, F, Fut> AsyncHook<'a, E> for F
where
    E: Event,
    F: Fn(&'a E, &'a Cx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoReply<E>> + Send + 'a,
{
    type Fut = Fut;

    fn start(&self, event: &'a E, cx: &'a Cx) -> Fut {
        self(event, cx)
    }
}

/// Like [`AsyncHook`], with the state as an explicit parameter.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an async handler of `{E}` with this state",
    note = "pass an `async fn(&State, &{E}, &Cx)` or an async closure that captures nothing"
)]
pub trait AsyncHookWith<'a, S, E: Event>: Send + Sync + 'static {
    /// Future of one call.
    type Fut: Future<Output: IntoReply<E>> + Send + 'a;
    /// Starts one call.
    fn start(&self, state: &'a S, event: &'a E, cx: &'a Cx) -> Self::Fut;
}

impl<'a, S, E, F, Fut> AsyncHookWith<'a, S, E> for F
where
    S: 'a,
    E: Event,
    F: Fn(&'a S, &'a E, &'a Cx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoReply<E>> + Send + 'a,
{
    type Fut = Fut;

    fn start(&self, state: &'a S, event: &'a E, cx: &'a Cx) -> Fut {
        self(state, event, cx)
    }
}

/// Result of a handler: a reply, `None` for no answer, or the cause of its failure.
pub type Answer<E> = Result<Option<<E as Event>::Reply>, BoxError>;

/// Return type of a closure that handles `E`, convertible to an answer.
#[diagnostic::on_unimplemented(
    message = "a handler of `{E}` cannot return `{Self}`",
    label = "wrong return type",
    note = "return `()`, `Option<Reply>` or a `Result` of either, where `Reply` is the event's reply type"
)]
pub trait IntoReply<E: Event> {
    /// Converts the value to an answer.
    ///
    /// # Errors
    /// The error that the handler returned.
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

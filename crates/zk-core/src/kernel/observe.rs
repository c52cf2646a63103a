use super::{AnyEvent, Cx};

/// An observer: sees every event once, as emitted, before its handlers, and cannot answer.
///
/// It is a plain call, so watching never makes an emit wait; an observer that needs to wait pushes into a
/// queue of its own.
pub(super) trait Observe: Send + Sync {
    fn see(&self, event: &dyn AnyEvent, cx: &Cx);
}

impl<F: Fn(&dyn AnyEvent, &Cx) + Send + Sync> Observe for F {
    fn see(&self, event: &dyn AnyEvent, cx: &Cx) {
        self(event, cx);
    }
}

use std::ops::ControlFlow;

use super::{Event, Mode, Source};

/// How a [`Fold`] event takes a reply in.
///
/// The event is the accumulator: it is changed here, between two handlers, so the next handler sees the
/// folded state and a handler that fails half-way leaves nothing half changed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has mode `Fold` but does not say how it takes a reply in",
    label = "`impl Absorb for {Self}` is missing",
    note = "write `fn absorb(&mut self, reply: Self::Reply, from: &Source) -> ControlFlow<()>`"
)]
pub trait Absorb: Event {
    /// Takes one reply in; `Break` ends the emit.
    fn absorb(&mut self, reply: Self::Reply, from: &Source) -> ControlFlow<()>;
}

/// Every reply is folded into the event, and the emit yields the event.
#[derive(Debug)]
pub enum Fold {}

impl<E: Absorb> Mode<E> for Fold {
    type Acc = ();
    type Output = E;

    fn absorb(event: &mut E, (): &mut (), reply: E::Reply, from: &Source) -> ControlFlow<()> {
        event.absorb(reply, from)
    }

    fn finish(event: E, (): ()) -> E {
        event
    }
}

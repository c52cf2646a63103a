use std::ops::ControlFlow;

use serde::Serialize;

use super::{Event, Source};

/// Combination of the answers of an event's handlers into one outcome.
///
/// All modes are one left fold over the replies; a new one is one impl of this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the mode of `{E}`",
    note = "`Notify` needs `type Reply = ()`",
    note = "`Fold` needs `impl Absorb for {E}`",
    note = "`Veto` and `LastOrStop` need a Reply that implements `Stops`"
)]
pub trait Mode<E: Event>: 'static {
    /// State carried from one reply to the next.
    type Acc: Default + Send;
    /// Outcome of the emit.
    type Output: Send;
    /// Folds one reply in; `Break` ends the emit, later handlers do not run.
    fn absorb(event: &mut E, acc: &mut Self::Acc, reply: E::Reply, from: &Source) -> ControlFlow<()>;
    /// Makes the outcome.
    fn finish(event: E, acc: Self::Acc) -> Self::Output;
}

/// Watched only: nobody can answer.
#[derive(Debug)]
pub enum Notify {}

impl<E: Event<Reply = ()>> Mode<E> for Notify {
    type Acc = ();
    type Output = ();

    fn absorb(_: &mut E, (): &mut (), (): (), _: &Source) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn finish(_: E, (): ()) {}
}

/// The first answer wins; later handlers are not asked.
#[derive(Debug)]
pub enum First {}

impl<E: Event> Mode<E> for First {
    type Acc = Option<E::Reply>;
    type Output = Option<E::Reply>;

    fn absorb(_: &mut E, acc: &mut Self::Acc, reply: E::Reply, _: &Source) -> ControlFlow<()> {
        *acc = Some(reply);
        ControlFlow::Break(())
    }

    fn finish(_: E, acc: Self::Acc) -> Self::Output {
        acc
    }
}

/// A reply that can end the emit.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stop an emit",
    note = "`Veto` and `LastOrStop` events need a Reply that implements `Stops`"
)]
pub trait Stops {
    /// Whether this reply settles the matter.
    fn stops(&self) -> bool;
}

/// The first *stopping* answer wins; answers that do not stop are dropped.
#[derive(Debug)]
pub enum Veto {}

impl<E: Event<Reply: Stops>> Mode<E> for Veto {
    type Acc = Option<E::Reply>;
    type Output = Option<E::Reply>;

    fn absorb(_: &mut E, acc: &mut Self::Acc, reply: E::Reply, _: &Source) -> ControlFlow<()> {
        if reply.stops() {
            *acc = Some(reply);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn finish(_: E, acc: Self::Acc) -> Self::Output {
        acc
    }
}

/// The last answer wins, unless one stops: that one wins at once.
#[derive(Debug)]
pub enum LastOrStop {}

impl<E: Event<Reply: Stops>> Mode<E> for LastOrStop {
    type Acc = Option<E::Reply>;
    type Output = Option<E::Reply>;

    fn absorb(_: &mut E, acc: &mut Self::Acc, reply: E::Reply, _: &Source) -> ControlFlow<()> {
        let stops = reply.stops();
        *acc = Some(reply);
        if stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn finish(_: E, acc: Self::Acc) -> Self::Output {
        acc
    }
}

/// Every answer, each with who gave it.
#[derive(Debug)]
pub enum Gather {}

/// One answer of a [`Gather`] event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gathered<R> {
    /// Source of the answer.
    pub from: Source,
    /// The answer, as its source gave it.
    pub reply: R,
}

impl<E: Event> Mode<E> for Gather {
    type Acc = Vec<Gathered<E::Reply>>;
    type Output = Vec<Gathered<E::Reply>>;

    fn absorb(_: &mut E, acc: &mut Self::Acc, reply: E::Reply, from: &Source) -> ControlFlow<()> {
        acc.push(Gathered { from: from.clone(), reply });
        ControlFlow::Continue(())
    }

    fn finish(_: E, acc: Self::Acc) -> Self::Output {
        acc
    }
}

/// Folds replies into a [`Fold`] event.
///
/// The event is the accumulator: it is changed here, between two handlers, so the next handler sees the
/// folded state and a handler that fails half-way leaves nothing half changed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has mode `Fold` but does not say how it takes a reply in",
    label = "`impl Absorb for {Self}` is missing",
    note = "write `fn absorb(&mut self, reply: Self::Reply, from: &Source) -> ControlFlow<()>`"
)]
pub trait Absorb: Event {
    /// Folds one reply in; `Break` ends the emit.
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

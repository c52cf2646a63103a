use std::ops::ControlFlow;

use serde_core::ser::{Serialize, SerializeStruct, Serializer};

use super::{Event, Source};

/// Rule that combines the answers of an event's handlers into one outcome.
///
/// Every mode is a left fold over the replies; a new mode is one implementation of this trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the mode of `{E}`",
    note = "`Notify` needs `type Reply = ()`",
    note = "`Fold` needs `impl Absorb for {E}`",
    note = "`Veto` and `LastOrStop` need a Reply that implements `Stops`"
)]
pub trait Mode<E: Event>: 'static {
    /// State of the fold.
    type Acc: Default + Send;
    /// Outcome of the emission.
    type Output: Send;
    /// Folds in one reply; `Break` ends the emission before later handlers run.
    fn absorb(event: &mut E, acc: &mut Self::Acc, reply: E::Reply, from: &Source) -> ControlFlow<()>;
    /// Computes the outcome.
    fn finish(event: E, acc: Self::Acc) -> Self::Output;
}

/// Mode of events that are observed only, without answers.
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

/// Mode in which the first answer wins and later handlers are not called.
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

/// A reply that can end the emission.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stop an emit",
    note = "`Veto` and `LastOrStop` events need a Reply that implements `Stops`"
)]
pub trait Stops {
    /// Whether this reply is final.
    fn stops(&self) -> bool;
}

/// Mode in which the first *stopping* answer wins, and all other answers are ignored.
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

/// Mode in which the last answer wins, except that a stopping answer wins at once.
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

/// Mode that collects every answer with its source.
#[derive(Debug)]
pub enum Gather {}

/// One answer to a [`Gather`] event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered<R> {
    /// Source of the answer.
    pub from: Source,
    /// The source's answer.
    pub reply: R,
}

impl<R: Serialize> Serialize for Gathered<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Gathered", 2)?;
        fields.serialize_field("from", &self.from)?;
        fields.serialize_field("reply", &self.reply)?;
        fields.end()
    }
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

/// Folds replies into an event of mode [`Fold`].
///
/// The event itself is the accumulator. It changes only between two handlers, so the next handler sees the
/// folded state, and a handler that fails half-way changes nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has mode `Fold` but does not say how it takes a reply in",
    label = "`impl Absorb for {Self}` is missing",
    note = "write `fn absorb(&mut self, reply: Self::Reply, from: &Source) -> ControlFlow<()>`"
)]
pub trait Absorb: Event {
    /// Folds in one reply; `Break` ends the emission.
    fn absorb(&mut self, reply: Self::Reply, from: &Source) -> ControlFlow<()>;
}

/// Mode that folds every reply into the event, and returns the event.
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

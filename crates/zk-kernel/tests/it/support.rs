use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use zk_kernel::{
    Absorb, Bus, Event, First, Fold, Gather, HookError, LastOrStop, Notify, OnError, Source, Stops, Veto,
};

/// Notes of a test, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, what: impl Display) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_string());
    }

    /// Notes since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A bus whose reported errors end in the log.
pub(crate) fn reporting_bus(policy: OnError) -> (Bus, Log) {
    let log = Log::default();
    let errors = log.clone();
    let bus = Bus::builder().policy(policy).on_error(move |error: &HookError| errors.note(error)).build();
    (bus, log)
}

/// Event without answers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ping(pub(crate) u32);

impl Event for Ping {
    const NAME: &'static str = "test:ping";
    type Reply = ();
    type Mode = Notify;
}

/// Event that is emitted even if the run is stopped.
#[derive(Debug, Serialize)]
pub(crate) struct Closing;

impl Event for Closing {
    const NAME: &'static str = "test:closing";
    const CANCELLABLE: bool = false;
    type Reply = ();
    type Mode = Notify;
}

/// Event to whose words each reply is appended.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Words(pub(crate) Vec<&'static str>);

impl Event for Words {
    const NAME: &'static str = "test:words";
    type Reply = &'static str;
    type Mode = Fold;
}

impl Absorb for Words {
    fn absorb(&mut self, word: &'static str, _: &Source) -> ControlFlow<()> {
        self.0.push(word);
        if word == "stop" { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Event whose first answer wins.
#[derive(Debug, Serialize)]
pub(crate) struct Pick;

impl Event for Pick {
    const NAME: &'static str = "test:pick";
    type Reply = u32;
    type Mode = First;
}

/// Event that collects every answer.
#[derive(Debug, Serialize)]
pub(crate) struct Where;

impl Event for Where {
    const NAME: &'static str = "test:where";
    type Reply = &'static str;
    type Mode = Gather;
}

/// Reply that may stop the emission.
#[derive(Debug, PartialEq)]
pub(crate) struct Say {
    pub(crate) stop: bool,
    pub(crate) why: &'static str,
}

impl Stops for Say {
    fn stops(&self) -> bool {
        self.stop
    }
}

/// Event whose last answer wins unless an answer stops it.
#[derive(Debug, Serialize)]
pub(crate) struct Before;

impl Event for Before {
    const NAME: &'static str = "test:before";
    type Reply = Say;
    type Mode = LastOrStop;
}

/// Gate that fails closed: a failing handler refuses.
#[derive(Debug, Serialize)]
pub(crate) struct May;

impl Event for May {
    const NAME: &'static str = "test:may";
    const ON_ERROR: OnError = OnError::Throw;
    const TIME_LIMIT: Option<Duration> = Some(Duration::from_secs(5));
    type Reply = Say;
    type Mode = Veto;
}

pub(crate) fn no(why: &'static str) -> Option<Say> {
    Some(Say { stop: true, why })
}

pub(crate) fn yes(why: &'static str) -> Option<Say> {
    Some(Say { stop: false, why })
}

//! Events of zk's bus about skills.

use std::ops::ControlFlow;

use serde::Serialize;
use zk_core::kernel::{Absorb, Event, Fold, Notify, Source};

/// The skills of a conversation were looked for, at its first run or because files changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillsResolved {
    /// Skills that can be used, by name.
    pub skills: Vec<String>,
    /// Skills of the project that nobody approved.
    pub untrusted: Vec<String>,
    /// Skills that cannot be used: their places, and why.
    pub broken: Vec<String>,
    /// Skills that are not used because another one has their name: the name, where they are, and where that is.
    pub shadowed: Vec<String>,
    /// Whether others were there before.
    pub reloaded: bool,
}

/// The section of the system prompt about the skills that were just found. A handler answers with the whole text to use
/// instead. The text stays the same until other skills are found, as every request begins with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillsCatalog {
    /// The skills that can be used, by name.
    pub skills: Vec<String>,
    /// The text so far; empty where no model is to be told of a skill.
    pub text: String,
}

impl Event for SkillsCatalog {
    const NAME: &'static str = "skills:catalog";
    type Reply = String;
    type Mode = Fold;
}

impl Absorb for SkillsCatalog {
    fn absorb(&mut self, reply: String, _: &Source) -> ControlFlow<()> {
        self.text = reply;
        ControlFlow::Continue(())
    }
}

/// A skill is used from here on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillActivated {
    /// Name of the skill.
    pub name: String,
    /// Source of the skill.
    pub source: String,
    /// Initiator of the use.
    pub via: ActivatedBy,
    /// Whether its text was given; it was in the conversation before otherwise.
    pub delivered: bool,
}

/// Initiator of a skill's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivatedBy {
    /// The model.
    Model,
    /// The person, or the host.
    Explicit,
    /// The conversation goes on in which it was used.
    Resume,
}

/// A skill is not used any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillDeactivated {
    /// Name of the skill.
    pub name: String,
    /// Reason of the end.
    pub reason: DeactivatedBecause,
}

/// Reason why a skill is not used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeactivatedBecause {
    /// The run of the skill ended.
    RunEnd,
    /// The host said so.
    Explicit,
    /// Another conversation began.
    Reset,
}

macro_rules! notify {
    ($($event:ty, $name:literal);+ $(;)?) => {
        $(impl Event for $event {
            const NAME: &'static str = $name;
            const CANCELLABLE: bool = false;
            type Reply = ();
            type Mode = Notify;
        })+
    };
}

notify! {
    SkillsResolved, "skills:resolved";
    SkillActivated, "skills:activated";
    SkillDeactivated, "skills:deactivated";
}

//! Events about skills.

use std::ops::ControlFlow;

use serde::Serialize;
use zk_core::kernel::{Absorb, Event, Fold, Notify, Source};

/// Skills of a conversation were searched: for its first run, or because files changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillsResolved {
    /// Names of the usable skills.
    pub skills: Vec<String>,
    /// Skills of the project that are not approved.
    pub untrusted: Vec<String>,
    /// Paths of skills that cannot be used, with the reason.
    pub broken: Vec<String>,
    /// Skills hidden by another one of the same name: name, path, and the other one's path.
    pub shadowed: Vec<String>,
    /// Whether an earlier search was replaced.
    pub reloaded: bool,
}

/// Section of the system prompt about the skills found. A handler can reply with a replacement for the whole
/// text. It is stable until other skills are found, since every request begins with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillsCatalog {
    /// Names of the usable skills.
    pub skills: Vec<String>,
    /// Text so far; empty if no skill is offered to models.
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

/// An agent begins to use a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillActivated {
    /// Name of the skill.
    pub name: String,
    /// Source of the skill.
    pub source: String,
    /// Cause of the use.
    pub via: ActivatedBy,
    /// Whether the text was delivered; otherwise it was already in the conversation.
    pub delivered: bool,
}

/// Cause of a skill's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivatedBy {
    /// The model's call.
    Model,
    /// The person, or the host.
    Explicit,
    /// Resume of a conversation that used it.
    Resume,
}

/// An agent stops using a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillDeactivated {
    /// Name of the skill.
    pub name: String,
    /// Cause of the end.
    pub reason: DeactivatedBecause,
}

/// Cause for the end of a skill's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeactivatedBecause {
    /// The run ended.
    RunEnd,
    /// The host ended it.
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

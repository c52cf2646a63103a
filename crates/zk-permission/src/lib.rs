//! The permissions of zk: a judge that asks nobody, and the gate that asks.
//!
//! | module | what is in it |
//! |---|---|
//! | `shell` | [`Script`]: the subset of bash that can be judged, and why a text is not in it |
//! | `program` | what well-known programs do, as data; what starts other programs |
//! | `rules` | [`Rules`]: allow, ask and deny, from all layers; [`CommandPattern`]; [`Rule::explain`] |
//! | `judge` | [`judge`](fn@judge): call, [`Mode`] and rules in, [`Verdict`] with every reason out |
//! | `connections` | which hosts a command connects to, by its words and by the remotes of its repository |
//! | `classifier` | [`PathClassifier`]: where names and paths lead; [`HostPathClassifier`] knows it of this machine |
//! | `mode` | [`ModeSwitch`]: the [`Mode`] of a conversation, which judge and gate share |
//! | `approvals` | [`Approvals`]: what a person allowed for good, in a file |
//! | `gate` | `PermissionGate`: asks before a call that changes something (feature `gate`, on by default) |
//! | `audit` | `Audit`: one line for each decision about a call, and for its end (feature `audit`) |
//! | `trust` | `FileTrust`: what a person approved of projects, in a file (feature `trust`) |
//!
//! [`PermissionJudge`] offers the judge to gates. A gate works without it, by what calls say of themselves; a host that has a
//! gate of its own, or needs verdicts alone, leaves the features out.
//!
//! The judge does not contain anything: a command that it allows does what its program does. It says what certainly
//! only reads, what a person already decided, and what has to be asked.
//!
//! # Example
//!
//! `cargo run -p zk-permission --example judge`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/judge.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No terminal, no model and no tool. It knows `zk-core` and no sibling. It prints nothing and starts nothing; the gate asks by
//! the service `Questions`, the judge asks nobody. It writes approvals, the record and the store of trust where its host says, by
//! the service `StateFiles`. Beside them it reads git's configuration, scripts that a call names, and the names in directories
//! that rules are about.

mod approvals;
#[cfg(feature = "audit")]
mod audit;
mod classifier;
mod connections;
#[cfg(feature = "gate")]
mod gate;
mod judge;
mod mode;
mod plugin;
mod program;
mod repository;
mod rules;
#[cfg(feature = "settings")]
pub mod settings;
mod shell;
#[cfg(feature = "trust")]
mod trust;

pub use approvals::{Approval, ApprovalError, ApprovalKind, Approvals};
#[cfg(feature = "audit")]
pub use audit::Audit;
pub use classifier::{
    HostPathClassifier, PathClassifier, PathPlace, PrivateFiles, ProgramPlace, TextPathClassifier, TreeWalk,
    by_name,
};
pub use connections::{GitCredentials, GitRewrite, GitRewrites};
#[cfg(feature = "gate")]
pub use gate::PermissionGate;
pub use judge::{Call, Circumstances, JudgedProgram, Reason, RuleRef, Verdict, judge};
pub use mode::{Mode, ModeError, ModeSwitch, NameError, UnknownMode};
pub use plugin::PermissionJudge;
pub use repository::starts_nothing;
pub use rules::{
    Access, CommandPattern, Decision, DeniedFiles, Explanation, HeldPaths, HideFiles, Layer, Rule, RuleBase,
    RuleError, Rules, UnknownDecision,
};
pub use shell::{
    Assignment, Command, Connector, MAX_COMMANDS, NotUnderstood, Obstacle, Redirect, Script, quote, quote_all,
};
#[cfg(feature = "trust")]
pub use trust::FileTrust;

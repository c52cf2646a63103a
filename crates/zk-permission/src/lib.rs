//! Permissions of zk: the judge, which decides without asking, and the gate, which asks the person.
//!
//! | module | content |
//! |---|---|
//! | `shell` | [`Script`]: the subset of bash that can be judged, and the reason why a text is outside of it |
//! | `program` | effects of well-known programs, as data; programs that start other programs |
//! | `rules` | [`Rules`]: allow, ask and deny rules of all layers; [`CommandPattern`]; [`Rule::explain`] |
//! | `judge` | [`judge`](fn@judge): from a call, a [`Mode`] and rules to a [`Verdict`] with all reasons |
//! | `connections` | hosts that a command connects to, found in its words and in the remotes of its repository |
//! | `classifier` | [`PathClassifier`]: kind of place that a program name or path leads to; [`HostPathClassifier`] looks at this machine |
//! | `mode` | [`ModeSwitch`]: the [`Mode`] of a conversation, which judge and gate share |
//! | `approvals` | [`Approvals`]: lasting approvals of a person, in a file |
//! | `gate` | `PermissionGate`: asks before a call with effects (feature `gate`, on by default) |
//! | `audit` | `Audit`: records each decision about a call, and the call's end (feature `audit`) |
//! | `trust` | `FileTrust`: a person's approvals of project files, in a file (feature `trust`) |
//!
//! [`PermissionJudge`] provides the judge to gates. A gate without a judge decides by the effects that calls
//! declare. A host with its own gate, or one that needs only verdicts, disables the features.
//!
//! The judge contains nothing: an allowed command does whatever its program does. The judge recognises calls
//! that certainly only read, calls that a person has approved, and calls that need a question.
//!
//! # Example
//!
//! `cargo run -p zk-harness-permission --example judge`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/judge.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No terminal, no model and no tool. It depends on `zk-core` and no sibling. It prints nothing and starts no
//! process; the gate asks through the service `Questions`, the judge never asks. It writes approvals, the
//! record and the trust store to paths of its host, through the service `StateFiles`. It also reads git's
//! configuration, scripts that a call names, and the names in directories to which rules apply.

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
    by_name, sounds_like_credentials,
};
pub use connections::{GitCredentials, GitRewrite, GitRewrites};
#[cfg(feature = "gate")]
pub use gate::{AskedCall, PermissionGate, allow_if};
pub use judge::{Call, Circumstances, JudgedProgram, Reason, RuleRef, Verdict, judge};
pub use mode::{Mode, ModeError, ModeSwitch, NameError, UnknownMode};
pub use plugin::PermissionJudge;
pub use repository::starts_nothing;
pub use rules::{
    Access, Bound, CommandPattern, Decision, DeniedFiles, Explanation, HeldPaths, HideFiles, KnownTools,
    Layer, Manifest, ProjectCode, Rule, RuleBase, RuleError, Rules, UnknownDecision,
};
pub use shell::{
    Assignment, Command, Connector, MAX_COMMANDS, NotUnderstood, Obstacle, Redirect, Script, quote, quote_all,
};
#[cfg(feature = "trust")]
pub use trust::FileTrust;

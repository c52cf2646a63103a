//! The permission judge of zk.
//!
//! | module | what is in it |
//! |---|---|
//! | `shell` | [`Script`]: the subset of bash that can be judged, and why a text is not in it |
//! | `program` | what well-known programs do, as data; what starts other programs |
//! | `rules` | [`Rules`]: allow, ask and deny, from all layers; [`CommandPattern`]; [`Rule::explain`] |
//! | `judge` | [`judge`](fn@judge): call, [`Mode`] and rules in, [`Verdict`] with every reason out |
//! | `connections` | which hosts a command connects to, by its words and by the remotes of its repository |
//! | `approvals` | [`Approvals`]: what a person allowed for good, in a file |
//!
//! [`PermissionJudge`] offers all of it to permission gates; [`HostPathClassifier`] knows where paths lead on this machine.
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
//! No terminal, no model and no tool. It knows `zk-core` and no sibling. It asks nobody, prints nothing and starts
//! nothing; the file of approvals is the only one that it writes. Beside it it reads a repository's configuration and the names
//! in directories that rules are about.

mod approvals;
mod classifier;
mod connections;
mod host;
mod judge;
mod mode;
mod offer;
mod plugin;
mod program;
mod repository;
mod rules;
#[cfg(feature = "settings")]
pub mod settings;
mod shell;

pub use approvals::{Approval, ApprovalError, ApprovalKind, Approvals};
pub use classifier::{PathClassifier, PathPlace, ProgramPlace, TextPathClassifier, TreeWalk, by_name};
pub use connections::{GitCredentials, GitRewrite, GitRewrites};
pub use host::HostPathClassifier;
pub use judge::{Call, Circumstances, JudgedProgram, Reason, RuleRef, Verdict, judge};
pub use mode::{Mode, UnknownMode};
pub use plugin::{PermissionJudge, date_of_day};
pub use repository::starts_nothing;
pub use rules::{
    Access, CommandPattern, Decision, DeniedFiles, Explanation, HeldPaths, HideFiles, Layer, Rule, RuleBase,
    RuleError, Rules, UnknownDecision,
};
pub use shell::{
    Assignment, Command, Connector, MAX_COMMANDS, NotUnderstood, Obstacle, Redirect, Script, quote, quote_all,
};

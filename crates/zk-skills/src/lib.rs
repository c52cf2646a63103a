//! Context of a model before the conversation: Agent Skills and project instructions.
//!
//! | module | what is in it |
//! |---|---|
//! | [`instructions`](fn@instructions) | `AGENTS.md` and its kin, from the project's root down to the working directory |
//! | [`discover`](fn@discover), [`Skill`] | directories with a `SKILL.md`: where they are, what their frontmatter says, who approved them |
//! | [`catalog`](fn@catalog) | the section of the system prompt that names them |
//! | [`SkillsPlugin`], [`Skills`] | which are in use; three tools to use one, read its files and run its scripts |
//! | [`InstructionsPlugin`] | instructions in the system prompt, and those of a subdirectory when the agent first works there |
//! | [`CommandFilesPlugin`] | slash commands that are files |
//! | [`SkillHost`] | skills that somebody else serves |
//! | [`ContextStreams`] | what stands before a prompt, and behind one request |
//! | [`scan`](fn@scan) | lines of a skill that speak to a model behind the back of the person |
//! | [`validate`] | the strict validator behind `zk skills check` |
//!
//! # Example
//!
//! `cargo run -p zk-skills --example instructions`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/instructions.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No model, no provider and no terminal. It knows `zk-core` and no sibling. It reads files by `dyn HostFiles` only,
//! and runs what it finds in them through the gates and `dyn Exec` only, once it was approved.

mod allowed;
mod arguments;
mod catalog;
mod commands;
mod context;
mod delivery;
mod discover;
mod events;
mod fields;
mod instructions;
mod interpolate;
mod left_out;
mod plugin;
mod prompt_command;
mod quarantine;
mod relevant;
mod scan;
mod served;
#[cfg(feature = "settings")]
pub mod settings;
mod skill;
mod skills;
mod tools;
mod watch;
mod workplace;

pub use catalog::catalog;
pub use commands::{
    CommandFile, CommandFilesFound, CommandFilesPlugin, TRUST_COMMAND, command_files, command_trust_name,
};
pub use context::{BudgetPart, ContextStreams, EnvironmentPart, GitPart, date};
pub use discover::{
    BrokenSkill, SkillApproval, SkillRoots, SkillSet, TRUST_FILES, TRUST_HEAD, discover, place, skill_at,
};
pub use events::{
    ActivatedBy, DeactivatedBecause, SkillActivated, SkillDeactivated, SkillsCatalog, SkillsResolved,
};
pub use fields::{MarkdownFields, tool_names};
pub use instructions::{
    Instruction, Instructions, InstructionsLoaded, InstructionsPlugin, MAX_BYTES, Project, Skipped,
    instructions, limit, project,
};
pub use left_out::{LeftOutSkill, left_out};
pub use plugin::{PREFIX, SkillsPlugin};
pub use quarantine::TRUST_SCANNED;
pub use scan::{Suspicion, scan};
pub use served::{Served, ServedSkill, SkillHost, TRUST_SERVED};
pub use skill::{
    BodyError, Bundle, BundleError, Diagnostic, DiagnosticLevel, MAX_DESCRIPTION, Manifest, SKILL_FILE,
    Skill, SkillSource, body, name_faults, validate,
};
pub use skills::{Skills, SkillsOptions};
pub use tools::NAMES;
pub use watch::SkillFiles;

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
//! | [`agent_files`](fn@agent_files), [`AgentFields`] | sub-agents that are files, or JSON |
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

mod active;
mod agent_files;
mod commands;
mod context;
mod discovery;
mod events;
mod instructions;
#[cfg(feature = "settings")]
pub mod settings;
mod skill;

pub use active::plugin::{PREFIX, SkillsPlugin};
pub use active::skills::{Skills, SkillsOptions};
pub use active::tools::NAMES;
pub use agent_files::{
    AgentFields, AgentFile, AgentFileError, AgentRoots, MAX_AGENT_FILE_BYTES, agent_files, parse_agents,
};
pub use commands::builtin::BUILTIN_COMMANDS;
pub use commands::command_files::{
    CommandFile, CommandFilesFound, CommandFilesPlugin, TRUST_COMMAND, command_files, command_trust_name,
};
pub use context::{BudgetPart, ContextStreams, EnvironmentPart, GitPart, date};
pub use discovery::catalog::catalog;
pub use discovery::discover::{BrokenSkill, SkillApproval, SkillRoots, SkillSet, discover, skill_at};
pub use discovery::left_out_skills::{LeftOutSkill, left_out};
pub use discovery::served_skills::{Served, ServedSkill, SkillHost};
pub use discovery::watch::SkillFiles;
pub use events::{
    ActivatedBy, DeactivatedBecause, SkillActivated, SkillDeactivated, SkillsCatalog, SkillsResolved,
};
pub use instructions::{
    Instruction, Instructions, InstructionsLoaded, InstructionsPlugin, MAX_BYTES, Project, Skipped,
    instructions, limit, project,
};
pub use skill::markdown_fields::{MarkdownFields, tool_names};
pub use skill::scan::{Suspicion, scan};
pub use skill::{
    Bundle, Diagnostic, DiagnosticLevel, MAX_DESCRIPTION, Manifest, SKILL_FILE, Skill, SkillSource, body,
    name_faults, place, validate,
};

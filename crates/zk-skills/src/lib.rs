//! Context for a model at the start of a conversation: Agent Skills and project instructions.
//!
//! | module | content |
//! |---|---|
//! | [`instructions`](fn@instructions) | `AGENTS.md` and similar files, from the project's root down to the working directory |
//! | [`discover`](fn@discover), [`Skill`] | directories with a `SKILL.md`: their location, frontmatter and approval |
//! | [`catalog`](fn@catalog) | section of the system prompt that lists the skills |
//! | [`SkillsPlugin`], [`Skills`] | skills in use; tools to use a skill, read its files and run its scripts |
//! | [`InstructionsPlugin`] | instructions in the system prompt, and those of a subdirectory once the agent works there |
//! | [`CommandFilesPlugin`] | slash commands in files |
//! | [`agent_files`](fn@agent_files), [`AgentFields`] | sub-agents in files or JSON |
//! | [`SkillHost`] | skills from a server, such as an MCP server |
//! | [`ContextStreams`] | context messages before a prompt, and at the end of a request |
//! | [`scan`](fn@scan) | lines of a skill that try to manipulate a model |
//! | [`validate`] | strict validator behind `zk skills check` |
//!
//! # Example
//!
//! `cargo run -p zk-harness-skills --example instructions`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/instructions.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No model, no provider and no terminal. It depends on `zk-core` and no sibling. It reads files only through
//! `dyn HostFiles`, and runs their commands only after approval, through the gates and `dyn Exec`.

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
mod trust_requests;

pub use active::plugin::{PREFIX, SkillsPlugin};
pub use active::skills::{Skills, SkillsOptions};
pub use active::tools::NAMES;
pub use agent_files::{
    AgentFields, AgentFile, AgentFileError, AgentRoots, MAX_AGENT_FILE_BYTES, agent_files, bundle_agent,
    parse_agents,
};
pub use commands::builtin::BUILTIN_COMMANDS;
pub use commands::command_files::{
    CommandFile, CommandFilesFound, CommandFilesPlugin, TRUST_COMMAND, command_files, command_trust_name,
};
pub use commands::prompt_command::{is_command_file, typed_command};
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
    Bundle, BundleCommand, BundlePlace, BundleSkill, Diagnostic, DiagnosticLevel, MAX_DESCRIPTION, Manifest,
    SKILL_FILE, Skill, SkillSource, body, name_faults, place, validate,
};
pub use trust_requests::{agents_request, skills_request, suspicions};

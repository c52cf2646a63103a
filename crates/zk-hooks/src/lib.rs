//! Commands as hooks: programs that run at a point of a conversation, with the JSON and the exit codes of Claude Code.
//!
//! [`CommandHooks`] is a plugin. It runs a command for each event, as configured in the `hooks` of settings: the event
//! is one JSON object on standard input, the answer an exit code or JSON on standard output. A command that fails at a
//! gate refuses. A program that keeps running and takes part in every event is an extension (`zk-extensions`).
//!
//! # What this crate must never know
//!
//! The location of settings, their trust, and terminals: the host passes all of that in.

mod command;

pub use command::{
    CommandHook, CommandHooks, FilePatternError, FileWatcher, HookConfigError, HookEvent, HookFailure,
    HookSet, HookSource, Matcher, Vocabulary, claude_arguments, claude_name, settings_schema, zk_name,
};

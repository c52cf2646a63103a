//! Skills and project instructions for zk.
//!
//! | module | what is in it |
//! |---|---|
//! | [`instructions`](fn@instructions) | `AGENTS.md` and its kin, from the project's root down to the working directory |
//!
//! # What this crate must never know
//!
//! No model, no provider and no terminal. It knows `zk-core` and no sibling. It reads files of a project, by
//! `dyn HostFiles` only, and runs nothing that it finds there.

mod instructions;

pub use instructions::{Instruction, Instructions, MAX_BYTES, Project, Skipped, instructions, project};

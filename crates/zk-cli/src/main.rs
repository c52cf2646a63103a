//! The `zk` program: it reads the command line, the settings and the environment, puts the crates of zk
//! together, and shows what happens.
//!
//! Only this crate reads the environment or settings files, prints, or exits.
//!
//! # What this crate must never know
//!
//! How a model is spoken to, how a tool does its work, how a turn goes, how a session is stored. It chooses,
//! composes and shows; `compose.rs` is the one list of plugins. No other crate knows it.

use std::process::ExitCode;

mod app;
mod args;
mod blobs;
mod commands;
mod compose;
mod credentials;
mod demo;
mod dirs;
mod doctor;
mod endpoint;
mod env;
mod exit;
mod hardening;
mod mode;
mod model_name;
mod output;
mod prompt;
mod sessions;
mod settings;
mod signals;
mod stdin;
mod suggest;
mod term;
mod trust;

fn main() -> ExitCode {
    hardening::forbid_memory_access();
    // First of all, while this process has one thread and has opened nothing.
    if zk_exec::Supervision::is_requested(std::env::args_os()) {
        return ExitCode::from(u8::from(zk_exec::run_supervisor().is_err()));
    }
    app::run().into()
}

//! The `zk` program: it reads the command line, the settings and the environment, puts the crates of zk
//! together, and shows what happens.
//!
//! Only this crate reads the environment or settings files, prints, or exits.

use std::process::ExitCode;

mod app;
mod args;
mod commands;
mod compose;
mod credentials;
mod demo;
mod dirs;
mod doctor;
mod endpoint;
mod env;
mod exit;
mod mode;
mod near;
mod output;
mod prompt;
mod sessions;
mod settings;
mod signals;
mod stdin;
mod term;

fn main() -> ExitCode {
    app::run().into()
}

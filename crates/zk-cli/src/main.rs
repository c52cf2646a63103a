//! The `zk` program: it reads the command line, the settings and the environment, puts the crates of zk
//! together, and shows what happens.
//!
//! Only this crate reads the environment or settings files, prints, or exits.

mod args;
mod dirs;
mod endpoint;
mod env;
mod exit;
mod near;
mod output;
mod settings;
mod term;

fn main() {}

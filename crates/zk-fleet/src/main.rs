//! The `zk-worker` program: zk with the engines of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    zk_cli::Zk::builder().run()
}

//! The `zk` program: the library with nothing added.

use std::process::ExitCode;

fn main() -> ExitCode {
    zk_cli::Zk::builder().run()
}

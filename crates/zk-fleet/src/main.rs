//! The `zk-worker` program: zk with the engines of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    let zk = zk_cli::Zk::builder();
    #[cfg(feature = "postgres")]
    let zk = zk.engine(zk_fleet::PostgresKind);
    zk.run()
}

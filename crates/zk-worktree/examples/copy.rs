//! Copies the repository of the present directory, changes it and takes the patch: `cargo run -p zk-harness-worktree --example copy`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;

use zk_core::kernel::Bus;
use zk_core::service::Isolation;
use zk_exec::{Environment, LocalStateFiles, ProcessExec};
use zk_worktree::Worktrees;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let exec = Arc::new(ProcessExec::new(Environment::filtered([("PATH", "/usr/bin:/bin")])));
    let state = std::env::temp_dir().join("zk-worktree-example");
    let files = Arc::new(LocalStateFiles::default());
    let bus = Bus::new();
    bus.install(&Worktrees::new(state, exec, files, |_| Ok(Vec::new())))?;
    let isolation = bus.service::<dyn Isolation>().ok_or("nothing makes copies")?;
    let copy = isolation.isolate("main.1", &std::env::current_dir()?, &bus.cx()).await?;
    std::fs::write(copy.cwd().join("note.txt"), "Hello.\n")?;
    println!("{:?}", copy.finish().await?);
    Ok(())
}

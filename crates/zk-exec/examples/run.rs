//! Runs a command the way zk runs all of them: `cargo run -p zk-harness-exec --example run`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, ExecRequest, OutputStream};
use zk_exec::{Environment, ProcessExec};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let exec = ProcessExec::new(Environment::filtered([("PATH", "/usr/bin:/bin"), ("LANG", "C.UTF-8")]));
    let mut sink = |stream: OutputStream, bytes: &[u8]| {
        print!("{stream:?}: {}", String::from_utf8_lossy(bytes));
    };
    let request = ExecRequest {
        timeout: Some(Duration::from_secs(10)),
        ..ExecRequest::shell("env; echo 'and an error' >&2; exit 3", std::env::current_dir()?)
    };
    let outcome = exec.run(request, &mut sink, &CancellationToken::new()).await?;
    println!("{:?} after {:?}", outcome.exit, outcome.elapsed);
    exec.close().await;
    Ok(())
}

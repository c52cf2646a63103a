//! Costs of a sandbox; prints, asserts nothing.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a program that measures"
)]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, ExecRequest, OutputStream};
use zk_exec::{Environment, ProcessExec, SandboxExec, SandboxPolicy, Supervision};

fn main() -> ExitCode {
    if Supervision::is_requested(std::env::args_os()) {
        return ExitCode::from(u8::from(zk_exec::run_supervisor().is_err()));
    }
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(measure());
    ExitCode::SUCCESS
}

fn environment() -> Environment {
    Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")])
}

async fn measure() {
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (work, state) = (base.path().join("work"), base.path().join("place/state"));
    std::fs::create_dir_all(&work).unwrap();
    std::fs::create_dir_all(&state).unwrap();
    let policy = SandboxPolicy::new(&work).state(&state);
    let sandbox = || SandboxExec::new(&policy, environment(), Supervision::of_this_program()).unwrap();
    let bare = ProcessExec::new(environment());
    let supervised = ProcessExec::supervised(environment(), Supervision::of_this_program());

    let began = Instant::now();
    let exec = sandbox();
    println!("{}", exec.start().unwrap());
    println!("set-up: {:?}", began.elapsed());
    let began = Instant::now();
    exec.self_test().await.unwrap();
    println!("self-test: {:?}", began.elapsed());
    let mut starts: Vec<Duration> = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        assert!(sandbox().self_test().await.unwrap().cached);
        starts.push(began.elapsed());
    }
    println!("start with the self-test cached: {:?}", median(starts));

    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..200 {
        // In turns, so that all run under the same load.
        let contexts: [&dyn Exec; 3] = [&bare, &supervised, &exec];
        for (exec, times) in contexts.into_iter().zip(&mut times) {
            times.push(run_true(exec, &work).await);
        }
    }
    let [bare, supervised, inside] = times.map(median);
    println!("/bin/true: {bare:?} as a child, {supervised:?} supervised, {inside:?} in the sandbox");
    println!("ratio {:.2}", inside.as_secs_f64() / bare.as_secs_f64());

    let before = peak();
    let mut bytes = 0_u64;
    let mut sink = |_: OutputStream, piece: &[u8]| bytes += piece.len() as u64;
    let request = ExecRequest::shell("head -c 1G /dev/zero", &work);
    exec.run(request, &mut sink, &CancellationToken::new()).await.unwrap();
    println!("{bytes} bytes of output: {before} of memory at most before, {} after", peak());
    exec.close().await;
}

async fn run_true(exec: &dyn Exec, work: &Path) -> Duration {
    let began = Instant::now();
    let mut sink = |_: OutputStream, _: &[u8]| ();
    exec.run(ExecRequest::new("/bin/true", work), &mut sink, &CancellationToken::new()).await.unwrap();
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The most memory this process had at a time.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or_default().trim().to_owned()
}

//! Keeping an unchanged workspace of tracked files, against `git status` on it: `cargo bench -p zk-harness-undo`. The
//! number of files is the variable `ZK_UNDO_FILES`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, ExecRequest, OutputStream};
use zk_exec::{Environment, LocalStateFiles, ProcessExec};
use zk_undo::{CallScope, Journal, TurnLabel, UndoSettings};

const FILES: usize = 100_000;
const FILES_PER_DIRECTORY: usize = 100;
const ROUNDS: usize = 5;

async fn git(root: &Path, line: &str) {
    let exec = ProcessExec::new(Environment::filtered([("PATH", "/usr/bin:/bin"), ("HOME", "/nonexistent")]));
    let request = ExecRequest::shell(line, root);
    let done = exec.run(request, &mut |_: OutputStream, _: &[u8]| {}, &CancellationToken::new()).await;
    assert!(done.is_ok(), "{line}");
}

#[tokio::main]
#[expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark prints"
)]
async fn main() {
    let files = std::env::var("ZK_UNDO_FILES").ok().and_then(|count| count.parse().ok()).unwrap_or(FILES);
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("project");
    for number in 0..files {
        let parent = root.join(format!("d{}", number / FILES_PER_DIRECTORY));
        if number % FILES_PER_DIRECTORY == 0 {
            std::fs::create_dir_all(&parent).unwrap();
        }
        std::fs::write(parent.join(format!("file{number}.rs")), format!("fn f{number}() {{}}\n")).unwrap();
    }
    let commit = "git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm one";
    git(&root, commit).await;
    // Git and the journal both read the content of files that are as new as the index.
    git(&root, "sleep 1.1; git update-index --refresh; touch .git/index").await;
    let measure_git = async {
        let mut best = f64::MAX;
        for _ in 0..ROUNDS {
            let began = Instant::now();
            git(&root, "git --no-optional-locks status --porcelain").await;
            best = best.min(began.elapsed().as_secs_f64());
        }
        best
    };
    let git_seconds = measure_git.await;
    let mut first = f64::MAX;
    let mut again = f64::MAX;
    for round in 0..ROUNDS {
        let private = dir.path().join(format!("undo{round}"));
        let settings = UndoSettings { max_seconds: 25, ..UndoSettings::default() };
        let journal = Journal::new(
            private,
            std::slice::from_ref(&root),
            settings,
            Arc::new(LocalStateFiles::default()),
        );
        let turn = TurnLabel { run: "r".into(), turn: "t".into(), prompt: String::new() };
        for (call, best) in [("one", &mut first), ("two", &mut again)] {
            let began = Instant::now();
            journal.begin(&turn, call, &CallScope::Workspace).unwrap();
            *best = best.min(began.elapsed().as_secs_f64());
            journal.end(call).unwrap();
        }
    }
    println!("{files} tracked files, best of {ROUNDS}");
    println!("git status           {:7.1} ms", git_seconds * 1e3);
    println!("first keep           {:7.1} ms  {:.2} x", first * 1e3, first / git_seconds);
    println!("keep of a later call {:7.1} ms  {:.2} x", again * 1e3, again / git_seconds);
}

//! Figures of the tools, as ratios within one run. Prints, asserts nothing: machines differ.
//!
//! `cargo bench -p zk-harness-tools` needs `rg` on the `PATH` for the comparisons with it, and says so where it is missing.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program that measures")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use zk_core::kernel::Bus;
use zk_core::service::{Tool, ToolCx};
use zk_exec::{Environment, LocalPlugin, Supervision, WorkspaceFiles, run_supervisor};
use zk_tools::{ToolsOptions, ToolsPlugin};

/// Number of runs, of which the fastest counts.
const RUNS: usize = 9;

/// Number of directories, and of files in each, of the searched tree.
const TREE: (usize, usize) = (200, 50);

struct Desk {
    bus: Bus,
    root: PathBuf,
    runtime: Runtime,
    _dir: tempfile::TempDir,
}

impl Desk {
    /// Runs commands below a supervisor, as in the program, or as children of this process, whose memory the
    /// kernel copies for each.
    fn new(is_supervised: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let bus = Bus::new();
        // As the program has it: one thread, and others for files.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let env = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LC_ALL", "C")]);
        let mut local = LocalPlugin::new(env, WorkspaceFiles::new([&root]).unwrap());
        if is_supervised {
            local = local.supervised(Supervision::of_this_program());
        }
        bus.install(&local).unwrap();
        bus.install(&ToolsPlugin::new(ToolsOptions { dedup_reads: false, ..ToolsOptions::default() }))
            .unwrap();
        Self { bus, root, runtime, _dir: dir }
    }

    async fn call(&self, tool: &str, args: Value) -> String {
        let cx = ToolCx::new(self.bus.cx(), &self.root);
        let tool: Arc<dyn Tool> = self.bus.item::<dyn Tool>(tool).unwrap();
        let approved = cx.approve(tool.clone(), args).await.unwrap();
        tool.call(&approved, &cx).await.unwrap().content.to_text()
    }

    /// The fastest of some runs of `work`.
    fn fastest<F: Future<Output = ()>>(&self, mut work: impl FnMut() -> F) -> Duration {
        (0..RUNS).map(|_| self.once(&mut work)).min().unwrap_or_default()
    }

    fn once<F: Future<Output = ()>>(&self, work: &mut impl FnMut() -> F) -> Duration {
        let begun = Instant::now();
        self.runtime.block_on(work());
        begun.elapsed()
    }

    /// Best times of `work` and of a command in alternating runs, so that other load affects both.
    fn by_turns<F: Future<Output = ()>>(
        &self,
        mut work: impl FnMut() -> F,
        (program, args, dir): (&str, &[&str], &Path),
    ) -> (Duration, Option<Duration>) {
        let runs: Vec<_> =
            (0..RUNS).map(|_| (self.once(&mut work), once_command(program, args, dir))).collect();
        let command = runs.iter().map(|(_, command)| *command).collect::<Option<Vec<_>>>();
        let own = runs.iter().map(|(own, _)| *own).min().unwrap_or_default();
        (own, command.and_then(|all| all.into_iter().min()))
    }
}

/// One run of a command, with its standard output read and dropped.
#[expect(clippy::disallowed_methods, reason = "what the tools are compared with runs as it is")]
fn once_command(program: &str, args: &[&str], dir: &Path) -> Option<Duration> {
    let begun = Instant::now();
    std::process::Command::new(program).args(args).current_dir(dir).output().ok()?;
    Some(begun.elapsed())
}

fn print(what: &str, took: Duration, bar: &str) {
    println!("{what:<44} {:>9.3} ms   {bar}", took.as_secs_f64() * 1e3);
}

fn compare(what: &str, (took, other): (Duration, Option<Duration>), bar: &str) {
    match other {
        Some(other) => {
            let ratio = took.as_secs_f64() / other.as_secs_f64();
            let bar = format!("{ratio:.2}× of rg ({:.3} ms), {bar}", other.as_secs_f64() * 1e3);
            print(what, took, &bar);
        }
        None => print(what, took, "not compared: there is no `rg` on the PATH"),
    }
}

fn main() {
    if Supervision::is_requested(std::env::args_os()) {
        run_supervisor().unwrap();
        return;
    }
    let desk = Desk::new(true);
    for dir in 0..TREE.0 {
        let path = desk.root.join(format!("tree/d{dir}"));
        std::fs::create_dir_all(&path).unwrap();
        for file in 0..TREE.1 {
            let mut text = "some line of text that has nothing to find in it\n".repeat(40);
            if file % 25 == 0 {
                text.push_str("here is the needle\n");
            }
            std::fs::write(path.join(format!("f{file}.txt")), text).unwrap();
        }
    }
    let tree = desk.root.join("tree");
    let grep = || async {
        desk.call("grep", json!({ "pattern": "the needle", "path": "tree", "head_limit": 0 })).await;
    };
    let took = desk.by_turns(grep, ("rg", &["-l", "the needle", "."], &tree));
    compare("grep in 10,000 files", took, "bar 1.2×");
    let glob = || async {
        desk.call("glob", json!({ "pattern": "**/f1*.txt", "path": "tree" })).await;
    };
    let took = desk.by_turns(glob, ("rg", &["--files", "."], &tree));
    compare("glob in 10,000 files", took, "bar 1.2×");

    let mut large = "a line of the large file\n".repeat(10 * 40_000);
    large.push_str("the one to be changed\n");
    let mut edits = Duration::MAX;
    for run in 0..RUNS {
        // A separate file for each: a file changed behind the tool's back is not edited.
        let path = format!("large{run}");
        std::fs::write(desk.root.join(&path), &large).unwrap();
        let begun = Instant::now();
        let args =
            json!({ "path": path, "old_string": "the one to be changed", "new_string": "the changed one" });
        desk.runtime.block_on(desk.call("edit", args));
        edits = edits.min(begun.elapsed());
    }
    print(&format!("edit of {} MB", large.len() >> 20), edits, "bar 20 ms");
    let bare = (0..RUNS).map(|run| {
        let begun = Instant::now();
        let mut file = std::fs::File::create(desk.root.join(format!("bare{run}"))).unwrap();
        file.write_all(large.as_bytes()).and_then(|()| file.sync_data()).unwrap();
        begun.elapsed()
    });
    print("  of which writing it to the disk, alone", bare.min().unwrap_or_default(), "");

    for n in 0..1_000 {
        std::fs::write(desk.root.join(format!("small{n}")), "0123456789abcde\n".repeat(128)).unwrap();
    }
    let reads = desk.fastest(|| async {
        for n in 0..1_000 {
            desk.call("read_file", json!({ "path": format!("small{n}") })).await;
        }
    });
    print("1,000 reads of 2 KB", reads, "bar 50 ms");
    let hops = desk.fastest(|| async {
        for _ in 0..1_000 {
            tokio::task::spawn_blocking(|| ()).await.unwrap();
        }
    });
    print("  of which going to another thread and back, alone", hops, "");
    let side_by_side = desk.fastest(|| async {
        let calls = (0..20).map(|n| desk.call("read_file", json!({ "path": format!("small{n}") })));
        futures(calls).await;
    });
    print("20 reads side by side", side_by_side, "bar 2 ms");

    for (desk, what, bar) in [
        (&desk, "a shell call over the bare command", "bar 1.5 ms"),
        (&Desk::new(false), "  the same without a supervisor", ""),
    ] {
        let shell = || async {
            desk.call("shell", json!({ "command": "true" })).await;
        };
        if let (shell, Some(bare)) = desk.by_turns(shell, ("bash", &["-c", "true"], &desk.root)) {
            print(what, shell.saturating_sub(bare), bar);
        }
    }
}

/// Awaits all futures, polling each when ready.
async fn futures(calls: impl Iterator<Item = impl Future<Output = String>>) {
    let mut calls: Vec<_> = calls.map(Box::pin).map(Some).collect();
    std::future::poll_fn(|cx| {
        for call in &mut calls {
            if call.as_mut().is_some_and(|call| call.as_mut().poll(cx).is_ready()) {
                *call = None;
            }
        }
        if calls.iter().all(Option::is_none) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

//! Commands and files behind a socket.

use std::io::Read;
use std::ops::{ControlFlow, Range};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use tokio_util::sync::CancellationToken;
use zk_core::service::{
    Exec, ExecError, ExecRequest, Exit, FileStat, FileWatch, Files, Input, KillSignal, OnChange, PathError,
    Process, ProcessEvent, Resolved, SearchFound, SearchQuery, TerminalSize, WalkEntry, WalkOptions,
    WalkReport, WriteReceipt,
};
use zk_exec::{ExecServer, Limits, ProcessExec, Remote, RemoteError, WorkspaceFiles};

use crate::support::{bash_in, environment, eventually, pid_in, runs};

/// File service that counts the entries of its walks.
struct Counting(WorkspaceFiles, Arc<AtomicUsize>);

impl Files for Counting {
    fn roots(&self) -> Vec<PathBuf> {
        self.0.roots()
    }
    fn resolve(&self, cwd: &Path, path: &str) -> Result<Resolved, PathError> {
        self.0.resolve(cwd, path)
    }
    fn open(&self, at: &Resolved, range: Option<Range<u64>>) -> Result<Box<dyn Read + Send>, PathError> {
        self.0.open(at, range)
    }
    fn stat(&self, at: &Resolved) -> Result<FileStat, PathError> {
        self.0.stat(at)
    }
    fn list(&self, at: &Resolved) -> Result<Vec<(String, FileStat)>, PathError> {
        self.0.list(at)
    }
    fn walk(
        &self,
        from: &Resolved,
        options: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> Result<WalkReport, PathError> {
        let mut visit = |entry| {
            self.1.fetch_add(1, Ordering::SeqCst);
            visit(entry)
        };
        // As large as a tree without an end.
        loop {
            let mut broken = false;
            let report = self.0.walk(from, options, &mut |entry| {
                let flow = visit(entry);
                broken = flow.is_break();
                flow
            })?;
            if broken || options.only.is_none() {
                self.1.fetch_add(1 << 32, Ordering::SeqCst);
                return Ok(report);
            }
        }
    }
    fn search(
        &self,
        from: &Resolved,
        query: &SearchQuery,
        stop: &CancellationToken,
    ) -> Result<SearchFound, PathError> {
        self.0.search(from, query, stop)
    }
    fn watch(&self, at: &Resolved, changed: OnChange) -> Result<Box<dyn FileWatch>, PathError> {
        self.0.watch(at, changed)
    }
    fn write(&self, at: &Resolved, bytes: &[u8]) -> Result<WriteReceipt, PathError> {
        self.0.write(at, bytes)
    }
}

/// Server of a directory, on its own runtime like another process.
struct Far {
    remote: Remote,
    root: PathBuf,
    visited: Arc<AtomicUsize>,
    runtime: Option<tokio::runtime::Runtime>,
    _dir: tempfile::TempDir,
}

impl Drop for Far {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Maximum output of the server's command, in bytes.
const MOST: usize = 40 << 20;

fn far() -> Far {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("work");
    std::fs::create_dir(&root).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let socket = dir.path().join("socket");
    let server = runtime.block_on(async { ExecServer::bind(&socket) }).unwrap();
    let visited = Arc::new(AtomicUsize::new(0));
    let files = Arc::new(Counting(WorkspaceFiles::new([&root]).unwrap(), visited.clone()));
    let own = Limits { output: Some(MOST as u64), ..Limits::default() };
    let exec = ProcessExec::new(environment()).limited(own);
    runtime.spawn(async move { server.serve(Arc::new(exec), files).await });
    let remote = Remote::connect(&socket).unwrap();
    Far { remote, root, visited, runtime: Some(runtime), _dir: dir }
}

#[test]
fn a_walk_comes_in_parts_and_ends_there_once_nobody_wants_it() {
    let far = far();
    for n in 0..500 {
        std::fs::write(far.root.join(format!("{n:03}")), "").unwrap();
    }
    let files = far.remote.files();
    let from = files.resolve(&far.root, ".").unwrap();
    let mut seen = Vec::new();
    files
        .walk(&from, &WalkOptions::default(), &mut |entry| {
            seen.push(entry.at.shown);
            ControlFlow::Continue(())
        })
        .unwrap();
    let wanted: Vec<String> = (0..500).map(|n| format!("{n:03}")).collect();
    assert_eq!(seen, wanted);
    // This one never ends by itself: the first entry must arrive before the end.
    let endless = WalkOptions { only: Some("*".into()), ..WalkOptions::default() };
    let mut first = None;
    files
        .walk(&from, &endless, &mut |entry| {
            first = Some(entry.at.shown);
            ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(first.as_deref(), Some("000"));
    eventually("the end of both walks", || far.visited.load(Ordering::SeqCst) >> 32 == 2);
}

#[test]
fn changes_are_told_until_the_watch_is_dropped() {
    let far = far();
    let files = far.remote.files();
    let at = files.resolve(&far.root, ".").unwrap();
    let (sender, changes) = mpsc::channel();
    let watch = files.watch(&at, Arc::new(move |at| drop(sender.send(at.shown.clone())))).unwrap();
    std::fs::write(far.root.join("new"), "x").unwrap();
    assert_eq!(changes.recv().unwrap(), "new");
    drop(watch);
    // The sender was dropped with the watch.
    while changes.recv().is_ok() {}
    let missing = files.resolve(&far.root, "missing").unwrap();
    assert!(files.watch(&missing, Arc::new(|_| ())).is_err());
}

#[test]
fn a_search_that_is_stopped_returns_at_once() {
    let far = far();
    std::fs::write(far.root.join("a"), "needle\n").unwrap();
    let files = far.remote.files();
    let from = files.resolve(&far.root, ".").unwrap();
    let query = SearchQuery {
        pattern: "needle".into(),
        ignore_case: false,
        mode: zk_core::service::SearchMode::Content,
        context: 0,
        walk: WalkOptions::default(),
        skip: 0,
        wanted: 10,
        max_bytes: 1000,
        line_bytes: 100,
    };
    let found = files.search(&from, &query, &CancellationToken::new()).unwrap();
    assert_eq!(found.results, ["a:1:needle"]);
    let stop = CancellationToken::new();
    stop.cancel();
    let endless =
        SearchQuery { walk: WalkOptions { only: Some("*".into()), ..WalkOptions::default() }, ..query };
    files.search(&from, &endless, &stop).unwrap();
}

#[tokio::test]
async fn a_command_has_input_outputs_a_terminal_and_an_end_as_here() {
    let far = tokio::task::spawn_blocking(far).await.unwrap();
    let exec = far.remote.exec();
    let (outcome, out) = bash_in(&exec, "pwd; exit 7", &far.root, None).await;
    assert_eq!((outcome.unwrap().exit, out), (Exit::Code(7), format!("{}\n", far.root.display())));
    let request = ExecRequest { input: Input::Piped, ..ExecRequest::shell("sort", &far.root) };
    let mut process = exec.spawn(request).await.unwrap();
    process.write(b"b\na\n").await.unwrap();
    process.close_input().await.unwrap();
    assert_eq!(printed(&mut *process).await, "a\nb\n");
    let size = Some(TerminalSize { rows: 20, columns: 70 });
    let request =
        ExecRequest { terminal: size, ..ExecRequest::shell("stty size; read x; stty size", &far.root) };
    let mut process = exec.spawn(request).await.unwrap();
    process.resize(TerminalSize { rows: 30, columns: 90 }).await.unwrap();
    process.write(b"go\n").await.unwrap();
    assert!(printed(&mut *process).await.contains("30 90"));
    let error = exec.spawn(ExecRequest::new("no-such-program", &far.root)).await.err().unwrap();
    assert!(error.to_string().contains("not installed or not in PATH"), "{error}");
}

async fn printed(process: &mut dyn Process) -> String {
    let mut out = Vec::new();
    while let Some(event) = process.next().await.unwrap() {
        if let ProcessEvent::Output(_, bytes) = event {
            out.extend(bytes);
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[tokio::test]
async fn output_that_nobody_takes_stays_with_the_command() {
    let far = tokio::task::spawn_blocking(far).await.unwrap();
    let request = ExecRequest::shell("yes | head -c 30000000; touch printed; echo end", &far.root);
    let mut process = far.remote.exec().spawn(request).await.unwrap();
    let first = process.next().await.unwrap();
    assert!(matches!(first, Some(ProcessEvent::Output(..))));
    // The answer arrives although nobody reads the output, part of which fills the window and the pipes.
    assert!(!process.members().await.unwrap().is_empty());
    assert!(!far.root.join("printed").exists(), "30 MB are more than may be on their way");
    let rest = printed(&mut *process).await;
    assert!(rest.ends_with("end\n") && rest.len() > 29_000_000, "{}", rest.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_ends_with_its_connection() {
    let far = tokio::task::spawn_blocking(far).await.unwrap();
    let command = "setsid sleep 300 & echo $! > inner; echo $$ > pid; wait";
    let process = far.remote.exec().spawn(ExecRequest::shell(command, &far.root)).await.unwrap();
    let pids = [pid_in(&far.root.join("pid")), pid_in(&far.root.join("inner"))];
    assert!(pids.iter().all(|pid| runs(*pid)));
    drop(process);
    eventually("the end of both", || !pids.iter().any(|pid| runs(*pid)));
    let mut process = far.remote.exec().spawn(ExecRequest::shell("sleep 300", &far.root)).await.unwrap();
    process.kill(KillSignal::Terminate).await.unwrap();
    assert_eq!(process.wait().await.unwrap(), Exit::Signal(15));
}

#[tokio::test]
async fn a_server_that_goes_away_is_told_of_by_every_way_to_it() {
    let mut far = tokio::task::spawn_blocking(far).await.unwrap();
    let (files, exec) = (far.remote.files(), far.remote.exec());
    let mut process = exec.spawn(ExecRequest::shell("sleep 300", &far.root)).await.unwrap();
    let runtime = far.runtime.take().unwrap();
    tokio::task::spawn_blocking(move || drop(runtime)).await.unwrap();
    let error = process.next().await.unwrap_err();
    assert!(
        matches!(error, ExecError::Watch { .. })
            && error.to_string().contains("connection to the exec-server broke")
    );
    let error = exec.spawn(ExecRequest::shell("true", &far.root)).await.err().unwrap();
    assert!(error.to_string().contains("does not answer"), "{error}");
    let error = files.resolve(&far.root, ".").unwrap_err();
    assert!(error.to_string().contains("the exec-server does not answer"), "{error}");
}

#[test]
fn a_socket_is_taken_over_only_from_a_server_that_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bind = || runtime.block_on(async { ExecServer::bind(&socket) });
    drop(UnixListener::bind(&socket).unwrap());
    let live = bind().unwrap();
    assert!(bind().unwrap_err().to_string().contains("another server answers there"));
    assert!(UnixStream::connect(&socket).is_ok());
    drop(live);
    assert!(!socket.exists());
    std::fs::write(&socket, "precious").unwrap();
    assert!(bind().unwrap_err().to_string().contains("a file of another kind"));
    let error = Remote::connect(dir.path().join("none")).unwrap_err();
    assert!(matches!(error, RemoteError::Unreachable { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_of_both_sides_hold_for_a_command_behind_a_socket() {
    let far = tokio::task::spawn_blocking(far).await.unwrap();
    let little = Limits { output: Some(10_000), memory: Some(40 << 20), ..Limits::default() };
    let exec = far.remote.exec().limited(little);
    let (outcome, out) = bash_in(&exec, "yes", &far.root, None).await;
    let outcome = outcome.unwrap();
    assert_eq!((outcome.exit, out.len()), (Exit::Signal(9), 10_000));
    assert_eq!(outcome.denials[0].to_string(), "stopped by a limit: output above 9 KiB (of one command)");
    let large = "exec 2>&1; x=$(head -c 60000000 /dev/zero | tr '\\0' x); echo ${#x}";
    let (outcome, out) = bash_in(&exec, large, &far.root, None).await;
    let told: Vec<String> = outcome.unwrap().denials.iter().map(ToString::to_string).collect();
    assert!(!out.contains("60000000"), "{out}");
    assert_eq!(told, ["stopped by a limit: memory above 40 MiB (of one command)"], "{out}");
    // The limits are of one client, and none exceeds the server's.
    let (outcome, out) = bash_in(&far.remote.exec(), "yes | head -c 20000", &far.root, None).await;
    assert_eq!((outcome.unwrap().exit, out.len()), (Exit::Code(0), 20_000));
    let much = far.remote.exec().limited(Limits { output: Some(1 << 30), ..Limits::default() });
    let (outcome, out) = bash_in(&much, "yes", &far.root, None).await;
    assert_eq!(outcome.unwrap().exit, Exit::Signal(9));
    // Output that is still in the pipe when the command is killed may be lost.
    assert!((MOST - (1 << 20)..=MOST).contains(&out.len()), "{}", out.len());
}

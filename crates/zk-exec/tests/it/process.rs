use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use zk_core::service::{
    EnvPolicy, Exec, ExecError, ExecRequest, Exit, Input, KillSignal, OutputSink, OutputStream, Process,
    ProcessEvent, TerminalSize,
};
use zk_exec::{Environment, ProcessExec};

use super::with;
use crate::support::{bash, environment, eventually, pid_in, runs};

fn exec() -> ProcessExec {
    with(environment())
}

#[tokio::test]
async fn the_exit_code_and_both_outputs_arrive() {
    let exec = exec();
    let mut pieces = Vec::new();
    let mut sink = |stream: OutputStream, bytes: &[u8]| pieces.push((stream, bytes.to_vec()));
    let request = ExecRequest::shell("echo out; echo err >&2; exit 3", "/");
    let outcome = exec.run(request, &mut sink, &CancellationToken::new()).await.unwrap();
    assert_eq!(outcome.exit, Exit::Code(3));
    assert!(outcome.survivors.is_empty() && !outcome.output_still_open);
    pieces.sort_by_key(|(stream, _)| *stream == OutputStream::Stderr);
    assert_eq!(
        pieces,
        [(OutputStream::Stdout, b"out\n".to_vec()), (OutputStream::Stderr, b"err\n".to_vec())]
    );
}

#[tokio::test]
async fn a_signal_is_not_an_exit_code() {
    let (outcome, _) = bash(&exec(), "kill -SEGV $$", Path::new("/"), None).await;
    assert_eq!(outcome.unwrap().exit, Exit::Signal(11));
}

#[tokio::test]
async fn a_command_that_reads_its_input_finds_it_empty() {
    let (outcome, out) =
        bash(&exec(), "read -r line; echo \"$?\"; cat; echo end", Path::new("/"), None).await;
    assert_eq!((outcome.unwrap().exit, out.as_str()), (Exit::Code(0), "1\nend\n"));
}

#[tokio::test]
async fn a_flood_of_output_arrives_whole() {
    let exec = exec();
    let mut bytes = 0_usize;
    let mut sink = |_: OutputStream, piece: &[u8]| bytes += piece.len();
    let request = ExecRequest::shell("yes | head -c 100000000", "/");
    let outcome = exec.run(request, &mut sink, &CancellationToken::new()).await.unwrap();
    assert_eq!((outcome.exit, bytes), (Exit::Code(0), 100_000_000));
}

#[tokio::test]
async fn children_see_the_allowed_variables_and_no_others() {
    let canaries = (0..50).map(|n| (format!("SECRET_{n}_API_KEY"), format!("canary-{n}")));
    let traps = ["LD_PRELOAD", "BASH_ENV", "ENV", "GIT_DIR", "PAGER", "PROMPT_COMMAND", "BASH_FUNC_ls%%"]
        .map(|name| (name.to_owned(), "canary-trap".to_owned()));
    let allowed = [("PATH", "/usr/bin:/bin"), ("LC_TIME", "C"), ("HOME", "/root")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let env = Environment::filtered(canaries.chain(traps).chain(allowed)).grant("GRANTED", "yes");
    let exec = with(env);
    let mut out = Vec::new();
    let mut sink = |_: OutputStream, bytes: &[u8]| out.extend_from_slice(bytes);
    let mut request = ExecRequest::shell("env; setsid env", "/");
    request.env.insert("ONCE".into(), "only here".into());
    exec.run(request, &mut sink, &CancellationToken::new()).await.unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(!out.contains("canary"), "{out}");
    for line in ["LC_TIME=C", "HOME=/root", "GRANTED=yes", "ONCE=only here"] {
        assert!(out.lines().any(|found| found == line), "{line} is not in {out}");
    }
}

#[tokio::test]
async fn children_inherit_no_descriptor() {
    use std::os::fd::AsRawFd;
    let file = tempfile::tempfile().unwrap();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(file.as_raw_fd() > 2 && socket.as_raw_fd() > 2);
    let (_, out) =
        bash(&exec(), "for fd in /proc/$$/fd/*; do [ -e $fd ] && echo ${fd##*/}; done", Path::new("/"), None)
            .await;
    let open: Vec<&str> = out.lines().filter(|fd| fd.parse::<u32>().is_ok_and(|fd| fd > 2)).collect();
    // 255 is bash's own.
    assert!(open.iter().all(|fd| *fd == "255"), "{open:?}");
}

#[tokio::test]
async fn a_command_that_ignores_term_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let command = "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done";
    let (outcome, _) = bash(&exec(), command, dir.path(), Some(Duration::from_millis(300))).await;
    let outcome = outcome.unwrap();
    assert_eq!(outcome.exit, Exit::TimedOut);
    assert!(outcome.survivors.is_empty());
    assert!(!runs(pid_in(&dir.path().join("pid"))));
}

#[tokio::test]
async fn a_time_out_lets_a_command_clean_up() {
    let command = "trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.05; done";
    let (outcome, out) = bash(&exec(), command, Path::new("/"), Some(Duration::from_millis(300))).await;
    assert_eq!(outcome.unwrap().exit, Exit::TimedOut);
    assert!(out.contains("cleaned\n"), "{out}");
}

#[tokio::test]
async fn a_time_out_ends_children_that_left_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let command = "setsid bash -c 'echo $$ > pid; sleep 100' & sleep 100";
    let (outcome, _) = bash(&exec(), command, dir.path(), Some(Duration::from_millis(500))).await;
    assert_eq!(outcome.unwrap().exit, Exit::TimedOut);
    assert!(!runs(pid_in(&dir.path().join("pid"))));
}

#[tokio::test]
async fn a_background_child_that_holds_the_output_delays_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let exec = exec();
    let (outcome, out) = bash(&exec, "sleep 100 & echo $! > pid; echo started", dir.path(), None).await;
    let outcome = outcome.unwrap();
    let pid = pid_in(&dir.path().join("pid"));
    assert_eq!((outcome.exit, out.as_str()), (Exit::Code(0), "started\n"));
    assert!(outcome.output_still_open);
    assert_eq!(outcome.survivors, [pid]);
    assert!(runs(pid), "what was left in the background goes on");
    exec.close().await;
    assert!(!runs(pid), "until the host closes");
}

#[tokio::test]
async fn a_background_child_may_go_on_printing() {
    let dir = tempfile::tempdir().unwrap();
    let exec = exec();
    let command = "(sleep 0.6; echo late; echo still here > proof) & echo started";
    let (outcome, _) = bash(&exec, command, dir.path(), None).await;
    assert!(outcome.unwrap().output_still_open);
    eventually("the background job", || dir.path().join("proof").exists());
}

#[tokio::test]
async fn dropping_the_executor_kills_what_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let exec = exec();
    let command = "setsid bash -c 'trap \"\" TERM; echo $$ > pid; sleep 100' > log 2>&1 & sleep 0.1";
    let (outcome, _) = bash(&exec, command, dir.path(), None).await;
    assert_eq!(outcome.unwrap().exit, Exit::Code(0));
    let pid = pid_in(&dir.path().join("pid"));
    assert!(runs(pid));
    drop(exec);
    eventually("the kill", || !runs(pid));
}

/// On the single thread of this runtime: the task cannot run while that thread waits.
#[tokio::test]
async fn dropping_the_executor_kills_a_command_that_a_task_still_follows() {
    let exec = exec();
    let mut process = exec.spawn(ExecRequest::shell("echo up; sleep 1000", "/")).await.unwrap();
    assert!(matches!(process.next().await.unwrap(), Some(ProcessEvent::Output(..))));
    let pids = process.members().await.unwrap();
    let task = tokio::spawn(async move { while let Ok(Some(_)) = process.next().await {} });
    tokio::task::yield_now().await;
    drop(exec);
    task.await.unwrap();
    assert!(!pids.is_empty() && !pids.iter().any(|pid| runs(*pid)), "{pids:?}");
}

#[tokio::test]
async fn a_stopped_run_gets_its_answer_before_the_command_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let exec = exec();
    let stop = CancellationToken::new();
    let request = ExecRequest::shell("trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done", dir.path());
    let mut sink = |_: OutputStream, _: &[u8]| {};
    let running = exec.run(request, &mut sink, &stop);
    let stopping = async {
        let file = dir.path().join("pid");
        let pid = tokio::task::spawn_blocking(move || pid_in(&file)).await.unwrap();
        stop.cancel();
        pid
    };
    let (outcome, pid) = tokio::join!(running, stopping);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.exit, Exit::Stopped);
    assert!(outcome.survivors.contains(&pid), "it is said that it still runs");
    eventually("the kill", || !runs(pid));
}

/// Takes some output, and no more.
#[derive(Clone, Default)]
struct Full(Arc<AtomicUsize>);

#[async_trait]
impl OutputSink for Full {
    fn write(&mut self, _: OutputStream, bytes: &[u8]) {
        self.0.fetch_add(bytes.len(), Ordering::Relaxed);
    }

    async fn ready(&mut self) {
        if self.0.load(Ordering::Relaxed) > 0 {
            std::future::pending().await
        }
    }
}

#[tokio::test]
async fn a_command_waits_while_nobody_takes_its_output_and_can_be_stopped_meanwhile() {
    let exec = exec();
    let (mut full, stop) = (Full::default(), CancellationToken::new());
    let taken = full.clone();
    let running = exec.run(ExecRequest::shell("exec yes", "/"), &mut full, &stop);
    let stopping = async {
        while taken.0.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let first = taken.0.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(taken.0.load(Ordering::Relaxed), first, "nothing more is read");
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(running, stopping);
    let outcome = outcome.unwrap();
    assert_eq!((outcome.exit, outcome.survivors), (Exit::Stopped, Vec::new()));
}

#[tokio::test]
async fn a_stopped_command_that_ends_at_once_has_no_survivors() {
    let exec = exec();
    let stop = CancellationToken::new();
    stop.cancel();
    let mut sink = |_: OutputStream, _: &[u8]| {};
    let outcome = exec.run(ExecRequest::shell("exec sleep 100", "/"), &mut sink, &stop).await.unwrap();
    assert_eq!(outcome.exit, Exit::Stopped);
    assert!(outcome.survivors.is_empty(), "{:?}", outcome.survivors);
}

#[tokio::test]
async fn a_dropped_future_ends_its_command_and_all_of_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let exec = exec();
    let command = "echo $$ > pid; sleep 100 & echo $! > child; setsid sleep 100 & echo $! > escaped; wait";
    let files = ["pid", "child", "escaped"].map(|name| dir.path().join(name));
    let waited = files.clone();
    tokio::select! {
        _ = bash(&exec, command, dir.path(), None) => panic!("it ended by itself"),
        _ = tokio::task::spawn_blocking(move || waited.iter().map(|file| pid_in(file)).max()) => {}
    }
    for file in files {
        let pid = pid_in(&file);
        eventually("the end", || !runs(pid));
    }
}

#[tokio::test]
async fn a_missing_program_and_a_missing_directory_are_told_apart() {
    let exec = exec();
    let mut sink = |_: OutputStream, _: &[u8]| {};
    let request = ExecRequest { program: "no-such-program".into(), ..ExecRequest::shell("", "/") };
    let error = exec.run(request, &mut sink, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, ExecError::Spawn { .. }));
    assert_eq!(error.to_string(), "cannot run `no-such-program` in /: it is not installed or not in PATH");
    let request = ExecRequest::shell("true", "/no/such/directory");
    let error = exec.run(request, &mut sink, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot run `bash` in /no/such/directory: that directory does not exist");
}

#[test]
fn commands_run_from_short_lived_threads() {
    let exec = Arc::new(exec());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    let running = std::thread::spawn(move || {
        handle.spawn(async move { bash(&exec, "sleep 0.3; echo done", Path::new("/"), None).await })
    });
    let (outcome, out) = runtime.block_on(running.join().unwrap()).unwrap();
    assert_eq!((outcome.unwrap().exit, out.as_str()), (Exit::Code(0), "done\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commands_run_at_once() {
    let exec = Arc::new(exec());
    let running: Vec<_> = (0..40)
        .map(|n| {
            let exec = exec.clone();
            tokio::spawn(async move { bash(&exec, &format!("echo {n}"), Path::new("/"), None).await.1 })
        })
        .collect();
    for (n, running) in running.into_iter().enumerate() {
        assert_eq!(running.await.unwrap(), format!("{n}\n"));
    }
}

/// However early the future is dropped: before the command is started, while it is, or after.
#[tokio::test]
async fn a_future_dropped_at_any_moment_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let exec = exec();
    for micros in (0..4_000).step_by(50) {
        // The child is not tied to the life of the supervisor.
        let command = "sleep 100 & echo $! >> pids; echo $$ >> pids; exec sleep 100";
        let running = bash(&exec, command, dir.path(), None);
        let _ = tokio::time::timeout(Duration::from_micros(micros), running).await;
        if micros % 1_000 == 0 {
            // The runtime is busy elsewhere, so the command has started and the wait has ended by its next
            // poll.
            let late = bash(&exec, command, dir.path(), None);
            tokio::select! {
                biased;
                () = async { tokio::task::yield_now().await; std::thread::sleep(Duration::from_millis(20)) } => {}
                _ = late => {}
            }
        }
    }
    // At least one has started, on a busy machine too.
    let begun = async {
        while !dir.path().join("pids").exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        () = begun => {}
        _ = bash(&exec, "sleep 100 & echo $! >> pids; echo $$ >> pids; exec sleep 100", dir.path(), None) => {}
    }
    let pids = std::fs::read_to_string(dir.path().join("pids")).unwrap();
    for pid in pids.lines().map(|pid| pid.parse().unwrap()) {
        eventually("the end", || !runs(pid));
    }
}

async fn printed(process: &mut dyn Process) -> (String, Option<Exit>) {
    let (mut text, mut exit) = (Vec::new(), None);
    while let Some(event) = process.next().await.unwrap() {
        match event {
            ProcessEvent::Output(_, bytes) => text.extend_from_slice(&bytes),
            ProcessEvent::Exited(how) => exit = Some(how),
            ProcessEvent::Closed(_) => {}
        }
    }
    (String::from_utf8_lossy(&text).into_owned(), exit)
}

#[tokio::test]
async fn a_process_reads_what_is_written_to_it_and_its_end() {
    {
        let exec = exec();
        let request = ExecRequest { input: Input::Piped, ..ExecRequest::shell("sort; exit 7", "/") };
        let mut process = exec.spawn(request).await.unwrap();
        process.write(b"b\na\n").await.unwrap();
        process.close_input().await.unwrap();
        assert_eq!(printed(&mut *process).await, ("a\nb\n".to_owned(), Some(Exit::Code(7))));
        assert!(matches!(process.write(b"x").await, Err(ExecError::Input { .. })));
        assert!(process.members().await.unwrap().is_empty());
        exec.close().await;
    }
}

#[tokio::test]
async fn a_process_on_a_terminal_has_its_size_and_is_typed_at() {
    {
        let exec = exec();
        let size = TerminalSize { rows: 31, columns: 91 };
        let command = "tty >/dev/null && echo on-a-terminal; stty size; read line; echo got $line; stty size";
        let request = ExecRequest { terminal: Some(size), ..ExecRequest::shell(command, "/") };
        let mut process = exec.spawn(request).await.unwrap();
        process.resize(TerminalSize { rows: 32, columns: 92 }).await.unwrap();
        process.write(b"typed\n").await.unwrap();
        let (text, exit) = printed(&mut *process).await;
        assert!(text.contains("on-a-terminal") && text.contains("got typed"), "{text}");
        assert!(text.ends_with("32 92\r\n"), "{text}");
        assert_eq!(exit, Some(Exit::Code(0)));
        exec.close().await;
    }
}

#[tokio::test]
async fn a_process_that_is_killed_or_dropped_is_gone_with_all_it_started() {
    {
        let exec = exec();
        let request =
            || ExecRequest::shell("sleep 1000 & trap '' TERM; echo up; while :; do sleep 0.1; done", "/");
        let mut process = exec.spawn(request()).await.unwrap();
        assert!(matches!(process.next().await.unwrap(), Some(ProcessEvent::Output(..))));
        assert!(process.members().await.unwrap().len() >= 2);
        process.kill(KillSignal::Kill).await.unwrap();
        assert_eq!(process.wait().await.unwrap(), Exit::Signal(9));
        let mut dropped = exec.spawn(request()).await.unwrap();
        assert!(matches!(dropped.next().await.unwrap(), Some(ProcessEvent::Output(..))));
        let pids = dropped.members().await.unwrap();
        drop(dropped);
        let is_there = |pid: &u32| Path::new(&format!("/proc/{pid}/stat")).exists();
        for _ in 0..1000 {
            if !pids.iter().any(is_there) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!pids.iter().any(is_there), "{pids:?}");
        exec.close().await;
    }
}

/// Ends on `TERM`, and leaves a process in another session that ignores it.
const LEAVES_DEAF: &str = "(trap '' TERM; exec setsid sleep 1000) & echo $! > inner; \
                           until grep -qs sleep /proc/$!/comm; do sleep 0.01; done; echo up; wait";

#[tokio::test]
async fn what_left_the_group_of_a_killed_command_counts_until_it_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let exec = exec();
    let mut process = exec.spawn(ExecRequest::shell(LEAVES_DEAF, dir.path())).await.unwrap();
    assert!(matches!(process.next().await.unwrap(), Some(ProcessEvent::Output(..))));
    process.kill(KillSignal::Terminate).await.unwrap();
    assert_eq!(process.wait().await.unwrap(), Exit::Signal(15));
    let inner = pid_in(&dir.path().join("inner"));
    assert_eq!(process.members().await.unwrap(), [inner]);
    process.kill(KillSignal::Kill).await.unwrap();
    while !process.members().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!runs(inner));
    exec.close().await;
}

#[tokio::test]
async fn a_stopped_run_ends_what_left_the_group_of_its_command() {
    let dir = tempfile::tempdir().unwrap();
    let exec = exec();
    let stop = CancellationToken::new();
    let mut sink = |_: OutputStream, _: &[u8]| stop.cancel();
    let outcome = exec.run(ExecRequest::shell(LEAVES_DEAF, dir.path()), &mut sink, &stop).await.unwrap();
    assert_eq!(outcome.exit, Exit::Stopped);
    let inner = pid_in(&dir.path().join("inner"));
    assert!(outcome.survivors == [inner], "{:?}", outcome.survivors);
    eventually("its end", || !runs(inner));
    exec.close().await;
}

#[tokio::test]
async fn an_environment_is_inherited_only_from_a_host_that_hands_it_over() {
    let request = || ExecRequest { environment: EnvPolicy::Inherit, ..ExecRequest::shell("echo $OWN", "/") };
    let exec = ProcessExec::new(environment());
    assert!(matches!(exec.spawn(request()).await.err().unwrap(), ExecError::Spawn { .. }));
    let exec = exec.inheriting(Environment::whole([("OWN", "mine"), ("PATH", "/usr/bin:/bin")]));
    let mut process = exec.spawn(request()).await.unwrap();
    assert_eq!(printed(&mut *process).await.0, "mine\n");
    let mut cleared = exec.spawn(ExecRequest::shell("echo $OWN", "/")).await.unwrap();
    assert_eq!(printed(&mut *cleared).await.0, "\n");
}

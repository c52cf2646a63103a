//! Processes that commands leave behind, in every way a process can get away from its parent.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use zk_core::service::Exit;

use crate::support::{bash, environment, eventually, runs, supervised};

/// Ways to run `sleep 300.TOKEN`, each found by its arguments, whatever its environment. The commands wait
/// for their children, or end at once and leave them.
const KINDS: [(&str, &str); 17] = [
    ("foreground", "sleep 300.TOKEN"),
    ("background", "sleep 300.TOKEN & wait"),
    ("left in the background", "sleep 300.TOKEN > /dev/null 2>&1 &"),
    ("nohup", "nohup sleep 300.TOKEN > /dev/null 2>&1 &"),
    ("disowned", "sleep 300.TOKEN > /dev/null 2>&1 & disown"),
    ("new session", "setsid sleep 300.TOKEN > /dev/null 2>&1 &"),
    ("new session, forked", "setsid --fork sleep 300.TOKEN > /dev/null 2>&1"),
    ("double fork", "(sleep 300.TOKEN > /dev/null 2>&1 &) &"),
    ("cleared environment", "env -i sleep 300.TOKEN > /dev/null 2>&1 &"),
    ("cleared environment and new session", "env -i setsid sleep 300.TOKEN > /dev/null 2>&1 &"),
    ("the same, forked twice", "(env -i setsid --fork setsid --fork sleep 300.TOKEN > /dev/null 2>&1 &) &"),
    ("deaf to TERM", "env -i setsid bash -c 'trap \"\" TERM HUP INT; while :; do sleep 300.TOKEN; done' &"),
    (
        "stopped",
        "env -i setsid bash -c 'kill -STOP $$; exec sleep 300.TOKEN' sleep 300.TOKEN > /dev/null 2>&1 &",
    ),
    ("pipeline", "sleep 300.TOKEN | sleep 300.TOKEN"),
    ("job control", "set -m; sleep 300.TOKEN > /dev/null 2>&1 & disown"),
    ("another name", "(exec -a init env -i setsid sleep 300.TOKEN) > /dev/null 2>&1 &"),
    ("output kept open", "env -i setsid sleep 300.TOKEN & sleep 300.TOKEN"),
];

/// Command of a kind with a unique token.
fn command(kind: usize, token: &str) -> String {
    KINDS[kind].1.replace("TOKEN", &format!("{token}{kind:02}"))
}

/// The processes with this in their arguments.
fn with_argument(argument: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let sleeps = line.split(|byte| *byte == 0).any(|arg| arg == argument.as_bytes());
        sleeps && runs(*pid)
    })
    .collect()
}

fn all_started(token: &str) {
    for (kind, (name, _)) in KINDS.iter().enumerate() {
        eventually(name, || !with_argument(&format!("300.{token}{kind:02}")).is_empty());
    }
}

fn none_left(token: &str) {
    for (kind, (name, _)) in KINDS.iter().enumerate() {
        let argument = format!("300.{token}{kind:02}");
        eventually(name, || with_argument(&argument).is_empty());
    }
}

fn fresh_token() -> String {
    format!("{}{}", std::process::id(), std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos())
}

/// Not a test: a host that starts one of each kind and waits for its end.
#[test]
#[ignore = "started by another test"]
fn host() {
    let token = std::fs::read_to_string("token").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let exec = std::sync::Arc::new(supervised(environment()));
    for kind in 0..KINDS.len() {
        let (exec, command) = (exec.clone(), command(kind, &token));
        runtime.spawn(async move { bash(&exec, &command, Path::new("/"), None).await.0 });
    }
    eventually("the word to go", || Path::new("go").exists());
}

/// Starts a host, waits for all commands, ends the host with `end`, and searches for survivors.
#[expect(clippy::disallowed_methods, reason = "a host to be killed has to be a process of its own")]
fn ended_by(end: impl Fn(&Path, rustix::process::Pid)) {
    let dir = tempfile::tempdir().unwrap();
    let token = fresh_token();
    std::fs::write(dir.path().join("token"), &token).unwrap();
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "orphans::host"])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    all_started(&token);
    end(dir.path(), rustix::process::Pid::from_child(&host));
    host.wait().unwrap();
    none_left(&token);
}

fn signalled(signal: rustix::process::Signal) {
    ended_by(|_, host| rustix::process::kill_process(host, signal).unwrap());
}

#[test]
fn nothing_of_17_kinds_survives_the_exit_of_the_host() {
    ended_by(|dir, _| std::fs::write(dir.join("go"), "").unwrap());
}

#[test]
fn nothing_of_17_kinds_survives_a_host_ended_by_term() {
    signalled(rustix::process::Signal::TERM);
}

#[test]
fn nothing_of_17_kinds_survives_a_host_ended_by_int() {
    signalled(rustix::process::Signal::INT);
}

#[test]
fn nothing_of_17_kinds_survives_a_host_ended_by_hup() {
    signalled(rustix::process::Signal::HUP);
}

/// The supervisor itself is killed: its children end with it, and the host continues.
#[test]
fn nothing_of_17_kinds_survives_the_kill_of_the_supervisor() {
    ended_by(|dir, host| {
        let supervisor = supervisor_of(host.as_raw_nonzero().get().unsigned_abs());
        let pid = rustix::process::Pid::from_raw(supervisor.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let token = std::fs::read_to_string(dir.join("token")).unwrap();
        // Checked while the host lives, so that its end is not the cause.
        none_left(&token);
        std::fs::write(dir.join("go"), "").unwrap();
    });
}

/// Supervisor of a host: its child process with this name.
fn supervisor_of(host: u32) -> u32 {
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut named = pids.filter(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let above = std::iter::successors(Some(*pid), |pid| parent(*pid));
        name.trim_end() == "cmd-supervisor" && above.take(4).any(|above| above == host)
    });
    named.next().unwrap()
}

#[test]
fn nothing_of_17_kinds_survives_a_host_that_is_killed() {
    signalled(rustix::process::Signal::KILL);
}

/// The command lasts beyond its time-out, so that each kind is timed out. On a slow machine the time-out
/// comes before all have started; then it is raised.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_17_kinds_survives_the_time_out_of_its_command() {
    let exec = std::sync::Arc::new(supervised(environment()));
    let other = format!("{}9", fresh_token());
    // Processes that another command left in the background are not touched.
    bash(&exec, &format!("env -i setsid sleep 300.{other} > /dev/null 2>&1 &"), Path::new("/"), None)
        .await
        .0
        .unwrap();
    let mut all_began = false;
    for seconds in [3, 15, 60] {
        all_began = time_out(&exec, Duration::from_secs(seconds)).await;
        if all_began {
            break;
        }
    }
    assert!(all_began, "not all of them began within a minute");
    assert_eq!(with_argument(&format!("300.{other}")).len(), 1);
    exec.close().await;
    assert_eq!(with_argument(&format!("300.{other}")).len(), 0, "until the host closes");
}

/// Runs one of each kind until it takes too long; whether all were seen to run before that.
async fn time_out(exec: &std::sync::Arc<zk_exec::ProcessExec>, limit: Duration) -> bool {
    let token = fresh_token();
    let running: Vec<_> = (0..KINDS.len())
        .map(|kind| {
            let (exec, command) = (exec.clone(), format!("{}\nsleep 100", command(kind, &token)));
            tokio::spawn(async move { bash(&exec, &command, Path::new("/"), Some(limit)).await.0 })
        })
        .collect();
    let started = token.clone();
    let all_began = tokio::task::spawn_blocking(move || {
        let until = std::time::Instant::now() + limit;
        (0..KINDS.len()).all(|kind| {
            let argument = format!("300.{started}{kind:02}");
            while with_argument(&argument).is_empty() {
                if std::time::Instant::now() > until {
                    return false;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            true
        })
    });
    let all_began = all_began.await.unwrap();
    for (running, (name, _)) in running.into_iter().zip(KINDS) {
        let outcome = running.await.unwrap().unwrap();
        assert_eq!(outcome.exit, Exit::TimedOut, "{name}");
        assert_eq!(outcome.survivors, Vec::<u32>::new(), "{name}");
    }
    none_left(&token);
    all_began
}

//! The self-test, what a denial looks like, and how far a command can go inside.

use std::fs;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use zk_core::service::{DeniedAct, Exec, ExecRequest, OutputStream};
use zk_exec::{Network, SandboxError, SandboxExec, SandboxPolicy};

use super::{run, sandboxed};
use crate::support::{environment, eventually};

struct Scene {
    #[expect(dead_code, reason = "removed with the scene")]
    base: tempfile::TempDir,
    work: PathBuf,
    state: PathBuf,
}

fn scene() -> Scene {
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (work, state) = (base.path().join("work"), base.path().join("place/state"));
    fs::create_dir(&work).unwrap();
    fs::create_dir_all(&state).unwrap();
    Scene { base, work, state }
}

#[tokio::test]
async fn the_self_test_proves_each_denial_and_is_not_repeated_for_the_same_sandbox() {
    let scene = scene();
    let policy = SandboxPolicy::new(&scene.work).state(&scene.state);
    let Some(exec) = sandboxed(&policy) else { return };
    let first = exec.self_test().await.unwrap();
    assert_eq!((first.held.len(), first.cached), (10, false), "{first:?}");
    let again = exec.self_test().await.unwrap();
    assert_eq!((again.held, again.cached), (first.held, true));
    let other = sandboxed(&policy.network(Network::Loopback)).unwrap();
    assert!(!other.self_test().await.unwrap().cached);
    let all = sandboxed(&SandboxPolicy::new(&scene.work).state(&scene.state).network(Network::All)).unwrap();
    assert_eq!(all.self_test().await.unwrap().held.len(), 7, "the network is open by the policy");
    let left: Vec<_> = fs::read_dir(scene.state.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["state"], "what the test planted is gone");
}

#[tokio::test]
async fn the_self_test_refuses_a_sandbox_with_a_hole() {
    let scene = scene();
    // The planted files are next to the state directory, which commands can write with this policy.
    let hole = scene.state.parent().unwrap();
    let policy = SandboxPolicy::new(&scene.work).state(&scene.state).writable(hole);
    let Some(exec) = sandboxed(&policy) else { return };
    match exec.self_test().await {
        Err(error @ SandboxError::SelfTest { .. }) => {
            assert!(error.to_string().contains("write a file outside"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!exec.self_test().await.is_ok_and(|test| test.cached), "a failed test is not remembered");
}

/// A repository is written as well as the workspace in it.
#[tokio::test]
async fn a_state_directory_where_commands_write_is_named_with_what_to_do() {
    let scene = scene();
    let (inner, state) = (scene.work.join("crates/a"), scene.work.join("own/state"));
    fs::create_dir_all(&inner).unwrap();
    fs::create_dir_all(&state).unwrap();
    fs::create_dir(scene.work.join(".git")).unwrap();
    fs::write(scene.work.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    for policy in [SandboxPolicy::new(&scene.work), SandboxPolicy::new(&inner).project(&scene.work)] {
        let Some(exec) = sandboxed(&policy.state(&state)) else { return };
        let error = exec.self_test().await.unwrap_err();
        assert!(matches!(error, SandboxError::StateWithin { .. }), "{error:?}");
        let told = error.to_string();
        let parts = [scene.work.display().to_string(), state.display().to_string()];
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        assert!(told.contains("keep it in a directory that commands do not write"), "{told}");
    }
}

#[tokio::test]
async fn a_failed_command_says_what_the_sandbox_denied_it() {
    let scene = scene();
    let Some(exec) = sandboxed(&SandboxPolicy::new(&scene.work).state(&scene.state)) else { return };
    // Not below the temporary directory, which is private to commands.
    let outside = Path::new("/usr/lib/zk-outside-of-the-sandbox");
    let told = async |command: String| {
        let mut sink = |_: OutputStream, _: &[u8]| ();
        let request = ExecRequest::shell(&command, &scene.work);
        exec.run(request, &mut sink, &CancellationToken::new()).await.unwrap().denials
    };
    let denials = told(format!("touch {}", outside.display())).await;
    assert_eq!(denials.len(), 1);
    assert_eq!((denials[0].act, denials[0].target.as_str()), (DeniedAct::Write, outside.to_str().unwrap()));
    let denials = told("mkdir .zk && echo x > .zk/settings.toml".to_owned()).await;
    assert!(denials[0].target.ends_with("work/.zk"), "{denials:?}");
    // The denial counts even if the command continues.
    let lines = "seq 20000";
    for command in [
        format!("touch {} || true", outside.display()),
        format!("touch {} 2>&1 | tail -1", outside.display()),
        format!("{lines}; touch {}; {lines} >&2", outside.display()),
        format!("touch {}; {lines} >&2", outside.display()),
    ] {
        let denials = told(command.clone()).await;
        assert_eq!(denials.len(), 1, "{command}: {denials:?}");
        assert_eq!(denials[0].target.as_str(), outside.to_str().unwrap(), "{command}");
    }
    // A message that a command only shows is no denial.
    let log = format!("touch: cannot touch '{}': Read-only file system\n", outside.display());
    fs::write(scene.work.join("build.log"), &log).unwrap();
    for command in [
        "cat build.log",
        "grep -n Read-only build.log | tail -1",
        "sed 's/^/64 | /' build.log >&2; true",
        "git diff --no-index /dev/null build.log || true",
        "test -w /usr || echo 'it is read-only'",
    ] {
        assert_eq!(told(command.to_owned()).await, [], "{command}");
    }
    assert_eq!(told("cat missing".to_owned()).await, []);
}

#[tokio::test]
async fn a_command_that_is_to_outlive_the_program_is_refused_in_one_sentence() {
    let scene = scene();
    let Some(exec) = sandboxed(&SandboxPolicy::new(&scene.work)) else { return };
    let request = ExecRequest::shell("touch ran", &scene.work);
    let error = exec.spawn_detached(request, &scene.work.join("output")).await.err().unwrap().to_string();
    assert!(
        error.ends_with("commands end with the sandbox; run it in the background without detaching it"),
        "{error}"
    );
    assert!(!scene.work.join("ran").exists());
}

#[tokio::test]
async fn the_number_of_processes_is_bounded() {
    let scene = scene();
    let Some(exec) = sandboxed(&SandboxPolicy::new(&scene.work).processes(301)) else { return };
    if !super::has("python3") {
        return;
    }
    let bomb = "python3 -c '
import os, time
made = 0
try:
    while made < 2000:
        if os.fork() == 0:
            time.sleep(100)
            os._exit(0)
        made += 1
except OSError as error:
    print(\"stopped\", made < 301, error.strerror, flush=True)
os.kill(0, 9)'";
    let (_, out) = run(&exec, bomb, &scene.work).await;
    assert!(out.contains("stopped True Resource temporarily unavailable"), "{out}");
    exec.close().await;
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
}

fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1)?.parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outlives_the_sandbox_whatever_it_did_to_stay() {
    let scene = scene();
    let find = |mark: &str| {
        pids().find(|pid| {
            fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(mark))
        })
    };
    let runs = |mark: &str| find(mark).is_some();
    for (mark, kill) in [("7771.25", false), ("7772.25", true)] {
        let Some(exec) = sandboxed(&SandboxPolicy::new(&scene.work)) else { return };
        let leave = format!(
            "(env -i setsid -f sleep {mark} > /dev/null 2>&1); env -i setsid nohup sleep {mark} > /dev/null 2>&1 &"
        );
        run(&exec, &leave, &scene.work).await;
        assert!(runs(mark));
        if kill {
            // The process outside that the first one inside hangs on.
            let above = std::iter::successors(find(mark), |pid| parent_of(*pid));
            let parent = above.take(20).find(|pid| name_of(*pid) == "sandbox-parent").unwrap();
            let parent = rustix::process::Pid::from_raw(parent.cast_signed()).unwrap();
            rustix::process::kill_process(parent, rustix::process::Signal::KILL).unwrap();
            eventually("the end of what was inside", || !runs(mark));
            let (code, out) = run(&exec, "echo again", &scene.work).await;
            assert_eq!((code, out.as_str()), (0, "again\n"), "another sandbox is started");
        }
        drop(exec);
        eventually("the end of what was inside", || !runs(mark));
    }
}

#[tokio::test]
async fn a_helper_that_cannot_set_the_sandbox_up_says_why_and_runs_nothing() {
    let scene = scene();
    let supervision = zk_exec::Supervision::with("/bin/true", ["x"]);
    let exec = SandboxExec::new(&SandboxPolicy::new(&scene.work), environment(), supervision).unwrap();
    let error = exec.start().unwrap_err().to_string();
    assert!(error.starts_with("the sandbox cannot be set up: "), "{error}");
    let mut sink = |_: OutputStream, _: &[u8]| ();
    let ran =
        exec.run(ExecRequest::shell("touch ran", &scene.work), &mut sink, &CancellationToken::new()).await;
    assert!(ran.is_err() && !scene.work.join("ran").exists());
}

//! Commands in a container, against an engine that speaks as Docker does.

mod engine;

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use zk_core::service::{
    EnvPolicy, Exec, ExecRequest, Exit, Input, KillSignal, OutputStream, ProcessEvent, TerminalSize,
};
use zk_exec::{DockerExec, DockerOptions, Limits};

use crate::support::{bash_in, eventually, pid_in, runs};
use engine::FakeEngine;

const IMAGE: &str = "debian:stable";

#[expect(clippy::disallowed_methods, reason = "the environment says which engine and image there are")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn docker(engine: &FakeEngine, workspace: &Path) -> DockerExec {
    let options = DockerOptions { socket: engine.socket(), ..DockerOptions::new(IMAGE, workspace) };
    DockerExec::new(options)
}

/// A command that writes to both streams and to a file, and fails.
async fn keeps_streams_apart(exec: &DockerExec, work: &Path) {
    let mut streams = Vec::new();
    let mut sink = |stream: OutputStream, bytes: &[u8]| streams.push((stream, bytes.to_vec()));
    let request = ExecRequest::shell("echo out; sleep 0.1; echo err >&2; pwd > here; exit 3", work);
    let outcome = exec.run(request, &mut sink, &CancellationToken::new()).await.unwrap();
    assert_eq!(outcome.exit, Exit::Code(3));
    assert_eq!(
        streams,
        [(OutputStream::Stdout, b"out\n".to_vec()), (OutputStream::Stderr, b"err\n".to_vec())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_in_one_container_with_their_streams_apart_and_their_exits() {
    let (engine, work) = (FakeEngine::start(IMAGE), tempfile::tempdir().unwrap());
    std::fs::create_dir_all(work.path().join(".git/hooks")).unwrap();
    let exec = docker(&engine, work.path());
    assert_eq!(engine.asked("POST /containers/create"), 0, "nothing is made before it is needed");
    keeps_streams_apart(&exec, work.path()).await;
    let (killed, _) = bash_in(&exec, "kill -9 $$", work.path(), None).await;
    assert_eq!(killed.unwrap().exit, Exit::Signal(9));
    assert_eq!(engine.asked("POST /containers/create"), 1);
    let made = engine.containers().remove(0);
    let host = &made["HostConfig"];
    assert_eq!(host["NetworkMode"], "none");
    assert_eq!(host["CapDrop"], json!(["ALL"]));
    assert_eq!(host["AutoRemove"], true);
    let work = work.path().to_str().unwrap();
    assert_eq!(host["Mounts"][0], json!({"Type": "bind", "Source": work, "Target": work, "ReadOnly": false}));
    assert_eq!(host["Mounts"][1]["ReadOnly"], true);
    assert_eq!(host["Mounts"][1]["Target"], format!("{work}/.git/hooks"));
    exec.close().await;
    assert_eq!(engine.containers().len(), 0, "it is removed with the context");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_in_a_container_reads_what_is_written_and_has_a_terminal() {
    let (engine, work) = (FakeEngine::start(IMAGE), tempfile::tempdir().unwrap());
    let exec = docker(&engine, work.path());
    let request = ExecRequest { input: Input::Piped, ..ExecRequest::shell("sort", work.path()) };
    let mut sorted = exec.spawn(request).await.unwrap();
    sorted.write(b"b\na\n").await.unwrap();
    sorted.close_input().await.unwrap();
    let mut out = Vec::new();
    let mut exit = None;
    while let Some(event) = sorted.next().await.unwrap() {
        match event {
            ProcessEvent::Output(_, bytes) => out.extend(bytes),
            ProcessEvent::Exited(how) => exit = Some(how),
            ProcessEvent::Closed(_) => {}
        }
    }
    assert_eq!((out.as_slice(), exit), (b"a\nb\n".as_slice(), Some(Exit::Code(0))));
    let terminal = Some(TerminalSize { rows: 33, columns: 77 });
    let waits = "read x; stty size; [ -t 0 ] && echo terminal";
    let mut shell =
        exec.spawn(ExecRequest { terminal, ..ExecRequest::shell(waits, work.path()) }).await.unwrap();
    shell.write(b"\n").await.unwrap();
    let mut shown = String::new();
    while let Some(event) = shell.next().await.unwrap() {
        if let ProcessEvent::Output(_, bytes) = event {
            shown.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    assert!(shown.contains("33 77") && shown.contains("terminal"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_or_late_command_in_a_container_ends_with_all_it_started() {
    let (engine, work) = (FakeEngine::start(IMAGE), tempfile::tempdir().unwrap());
    let exec = docker(&engine, work.path());
    let leave = "setsid sleep 500 & echo $! > pid; wait";
    let (late, _) = bash_in(&exec, leave, work.path(), Some(Duration::from_millis(500))).await;
    let late = late.unwrap();
    assert_eq!((late.exit, late.survivors), (Exit::TimedOut, vec![]));
    let left = pid_in(&work.path().join("pid"));
    eventually("the end of what it started", || !runs(left));

    std::fs::remove_file(work.path().join("pid")).unwrap();
    let mut process = exec.spawn(ExecRequest::shell(leave, work.path())).await.unwrap();
    let left = pid_in(&work.path().join("pid"));
    assert!(!process.members().await.unwrap().is_empty());
    process.kill(KillSignal::Kill).await.unwrap();
    assert_eq!(process.wait().await.unwrap(), Exit::Signal(9));
    eventually("the end of what it started", || !runs(left));

    std::fs::remove_file(work.path().join("pid")).unwrap();
    let process = exec.spawn(ExecRequest::shell(leave, work.path())).await.unwrap();
    let left = pid_in(&work.path().join("pid"));
    drop(process);
    eventually("the end of what a dropped one started", || !runs(left));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_ends_with_the_connection_of_the_program_and_a_lost_one_is_made_again() {
    let (engine, work) = (FakeEngine::start(IMAGE), tempfile::tempdir().unwrap());
    let exec = docker(&engine, work.path());
    let (_, out) = bash_in(&exec, "echo one", work.path(), None).await;
    assert_eq!(out, "one\n");
    engine.lose_containers();
    let (_, out) = bash_in(&exec, "echo two", work.path(), None).await;
    assert_eq!((out.as_str(), engine.asked("POST /containers/create")), ("two\n", 2));
    // As when the program is killed: nobody says goodbye.
    drop(exec);
    eventually("the end of the container", || engine.containers().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_container_cannot_do_is_said_before_anything_runs() {
    let (engine, work) = (FakeEngine::start(IMAGE), tempfile::tempdir().unwrap());
    let fails = async |exec: &DockerExec, request: ExecRequest| {
        exec.spawn(request).await.err().expect("it must not start").to_string()
    };
    let request = || ExecRequest::shell("touch ran", work.path());
    let options = DockerOptions { socket: engine.socket(), ..DockerOptions::new("missing", work.path()) };
    let told = fails(&DockerExec::new(options), request()).await;
    assert!(told.contains("refused to make a container: No such image: missing"), "{told}");
    let nowhere = work.path().join("nowhere.sock");
    let options = DockerOptions { socket: nowhere.clone(), ..DockerOptions::new(IMAGE, work.path()) };
    let nobody = DockerExec::new(options);
    assert!(nobody.check().unwrap_err().to_string().contains("is it running, and may you use it?"));
    let told = fails(&nobody, request()).await;
    assert!(told.contains(&format!("cannot reach the container engine at {}", nowhere.display())), "{told}");
    let socket = engine::garbage(work.path());
    let options = DockerOptions { socket, ..DockerOptions::new(IMAGE, work.path()) };
    let told = fails(&DockerExec::new(options), request()).await;
    assert!(told.contains("cannot reach the container engine"), "{told}");
    let exec = docker(&engine, work.path());
    let inherit = ExecRequest { environment: EnvPolicy::Inherit, ..request() };
    let told = fails(&exec, inherit).await;
    assert!(told.contains("a container has no environment of this machine to give"), "{told}");
    assert!(!work.path().join("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_of_a_container_are_the_engines_and_that_of_output_is_zks() {
    let (engine, work) = (FakeEngine::start(IMAGE), tempfile::tempdir().unwrap());
    let limits = Limits { memory: Some(64 << 20), processes: Some(50), output: Some(10_000) };
    let options = DockerOptions { socket: engine.socket(), limits, ..DockerOptions::new(IMAGE, work.path()) };
    let exec = DockerExec::new(options);
    let (outcome, out) = bash_in(&exec, "yes", work.path(), None).await;
    let outcome = outcome.unwrap();
    assert_eq!((outcome.exit, out.len()), (Exit::Signal(9), 10_000));
    assert_eq!(outcome.denials[0].to_string(), "stopped by a limit: output above 9 KiB (of one command)");
    let made = engine.containers().remove(0);
    assert_eq!(
        (&made["HostConfig"]["Memory"], &made["HostConfig"]["PidsLimit"]),
        (&json!(67_108_864), &json!(50))
    );
}

/// With the engine at the usual socket or the one of `DOCKER_HOST`, and the image with `bash` that `ZK_DOCKER_IMAGE`
/// names.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_engine_does_the_same() {
    let Some(image) = variable("ZK_DOCKER_IMAGE") else {
        println!("skipped: ZK_DOCKER_IMAGE names no image");
        return;
    };
    let socket = variable("DOCKER_HOST").and_then(|host| Some(host.strip_prefix("unix://")?.to_owned()));
    let work = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(work.path().join(".git/hooks")).unwrap();
    let options = DockerOptions::new(image, work.path());
    let socket = socket.map_or(options.socket.clone(), Into::into);
    let exec = DockerExec::new(DockerOptions { socket, ..options });
    exec.check().unwrap();

    keeps_streams_apart(&exec, work.path()).await;
    let here = std::fs::read_to_string(work.path().join("here")).unwrap();
    assert_eq!(Path::new(here.trim_end()), work.path());

    let hook = "touch .git/hooks/pre-commit || echo refused";
    let (_, out) = bash_in(&exec, hook, work.path(), None).await;
    assert!(out.contains("refused") && !work.path().join(".git/hooks/pre-commit").exists(), "{out}");
    let (_, out) = bash_in(&exec, "echo < /dev/tcp/127.0.0.1/1; ls /sys/class/net", work.path(), None).await;
    assert!(out.trim_end().ends_with("lo"), "only its own loopback: {out}");

    let request = ExecRequest { input: Input::Piped, ..ExecRequest::shell("sort", work.path()) };
    let mut sorted = exec.spawn(request).await.unwrap();
    sorted.write(b"b\na\n").await.unwrap();
    sorted.close_input().await.unwrap();
    let mut out = Vec::new();
    while let Some(event) = sorted.next().await.unwrap() {
        if let ProcessEvent::Output(_, bytes) = event {
            out.extend(bytes);
        }
    }
    assert_eq!(out, b"a\nb\n");

    let leave = "setsid sleep 543 & wait";
    let (late, _) = bash_in(&exec, leave, work.path(), Some(Duration::from_secs(1))).await;
    let late = late.unwrap();
    assert_eq!((late.exit, late.survivors), (Exit::TimedOut, vec![]));
    let left = "grep -l '^sleep' /proc/[0-9]*/cmdline";
    let (_, out) = bash_in(&exec, left, work.path(), None).await;
    assert_eq!(out, "", "what it started ended with it");
    exec.close().await;
}

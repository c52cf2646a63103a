//! Commands in a container, against an engine that speaks as Docker does.

mod engine;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
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
    let targets: Vec<&str> =
        host["Mounts"].as_array().unwrap().iter().map(|mount| mount["Target"].as_str().unwrap()).collect();
    assert!(targets.contains(&format!("{work}/.git/hooks").as_str()), "{targets:?}");
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
    // Dropped without `close`, like a killed program.
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

/// Mount of a path: its source, and whether it is read-only.
fn mount<'a>(made: &'a Value, path: &Path) -> Option<(&'a str, bool)> {
    let mounts = made["HostConfig"]["Mounts"].as_array().unwrap();
    let found = mounts.iter().find(|mount| mount["Target"] == path.to_str().unwrap())?;
    Some((found["Source"].as_str().unwrap_or("memory"), found["ReadOnly"] == true))
}

/// Makes a repository, with one below it, and credentials.
fn guarded(top: &Path) {
    for dir in [".git/hooks", ".git/objects", "member/sub/.git/hooks", "member/.ssh"] {
        std::fs::create_dir_all(top.join(dir)).unwrap();
    }
    for file in
        [".git/HEAD", ".git/config", "member/sub/.git/HEAD", "member/sub/.git/config", "member/.netrc"]
    {
        std::fs::write(top.join(file), "as it was").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_guarded_in_the_workspace_is_mounted_over_itself_and_looked_at_before_each_command() {
    let (engine, base) = (FakeEngine::start(IMAGE), tempfile::tempdir().unwrap());
    let base = base.path().canonicalize().unwrap();
    let (top, member) = (base.join("top"), base.join("top/member"));
    guarded(&top);
    let options = DockerOptions { socket: engine.socket(), ..DockerOptions::new(IMAGE, &member) };
    let (project, state) = (Some(top.clone()), Some(base.join("state")));
    let (added, plans) = (base.join("added"), base.join("added/plans"));
    std::fs::create_dir_all(&plans).unwrap();
    std::fs::write(added.join("note"), "x").unwrap();
    let (writable, hidden) =
        (vec![added.clone()], vec![plans.clone(), added.join("note"), base.join("elsewhere")]);
    let exec = DockerExec::new(DockerOptions { project, state, writable, hidden, ..options });
    bash_in(&exec, "true", &member, None).await.0.unwrap();
    let made = engine.containers().remove(0);
    let own = |path: &Path, read_only| Some((path.to_str().unwrap().to_owned(), read_only));
    for (path, read_only) in [
        ("", false),
        ("member", false),
        // As a mount point it is not moved away.
        (".git", false),
        (".git/config", true),
        (".git/hooks", true),
        (".git/commondir", true),
        (".bashrc", true),
        (".claude", true),
        ("member/.zk", true),
        ("member/sub", false),
        ("member/sub/.git/hooks", true),
    ] {
        let path = if path.is_empty() { top.clone() } else { top.join(path) };
        let found = mount(&made, &path).map(|(from, read_only)| (from.to_owned(), read_only));
        assert_eq!(found, own(&path, read_only), "{}", path.display());
    }
    assert_eq!(mount(&made, &added), Some((added.to_str().unwrap(), false)));
    assert_eq!(mount(&made, &plans), Some(("memory", false)));
    assert_eq!(mount(&made, &added.join("note")), Some(("/dev/null", true)));
    assert_eq!(mount(&made, &base.join("elsewhere")), None);
    assert_eq!(mount(&made, &member.join(".netrc")), Some(("/dev/null", true)));
    assert_eq!(mount(&made, &member.join(".ssh")), Some(("memory", false)));
    let mounts = made["HostConfig"]["Mounts"].as_array().unwrap();
    let targets: Vec<&str> = mounts.iter().map(|mount| mount["Target"].as_str().unwrap()).collect();
    assert!(targets.windows(2).all(|pair| Path::new(pair[0]) < Path::new(pair[1])), "{targets:?}");
    assert!(top.join(".bashrc").is_dir());

    bash_in(&exec, "true", &member, None).await.0.unwrap();
    assert_eq!(engine.asked("POST /containers/create"), 1);
    // As `git config` does it: the mount over the old file goes with it.
    std::fs::write(top.join(".git/config.lock"), "another").unwrap();
    std::fs::rename(top.join(".git/config.lock"), top.join(".git/config")).unwrap();
    bash_in(&exec, "true", &member, None).await.0.unwrap();
    assert_eq!(engine.asked("POST /containers/create"), 2, "the replaced file is protected again");
    exec.close().await;
    assert!(!top.join(".bashrc").exists() && !top.join(".git/commondir").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_mount_of_a_container_has_probably_denied_is_told() {
    let (engine, base) = (FakeEngine::start(IMAGE), tempfile::tempdir().unwrap());
    let base = base.path().canonicalize().unwrap();
    let top = base.join("top");
    guarded(&top);
    let exec = docker(&engine, &top);
    let denials = async |words: &str, code: i32| {
        let command = format!("echo \"{words}\" >&2; exit {code}");
        let (outcome, _) = bash_in(&exec, &command, &top, None).await;
        outcome.unwrap().denials.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let own = top.display();
    for (words, denied) in [
        ("touch: cannot touch '.git/hooks/x': Read-only file system", format!("write {own}/.git/hooks/x")),
        ("touch: cannot touch '/opt/x': Read-only file system", "write /opt/x".to_owned()),
        ("cat: member/.ssh/key: Permission denied", format!("read {own}/member/.ssh/key")),
        ("curl: (6) Could not resolve host: example.org", "connect to example.org".to_owned()),
    ] {
        let told = denials(words, 1).await;
        assert!(matches!(&*told, [only] if only.contains(&denied)), "{words}: {told:?}");
    }
    for words in ["cat: /etc/shadow: Permission denied", "touch: cannot touch 'a/b': Read-only file system"] {
        assert_eq!(denials(words, 1).await, [""; 0], "{words}");
    }
    assert_eq!(denials("Could not resolve host", 0).await, [""; 0], "it did without");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_the_program_is_told_in_one_sentence() {
    let (engine, work) = (FakeEngine::start(IMAGE), tempfile::tempdir().unwrap());
    let exec = docker(&engine, work.path());
    lacks_a_program(&exec, work.path(), IMAGE).await;
    // A command that prints the same text has run.
    let words = "echo 'OCI runtime exec failed: executable file not found in $PATH'";
    let (_, out) = bash_in(&exec, words, work.path(), None).await;
    assert!(out.starts_with("OCI runtime"), "{out}");
}

async fn lacks_a_program(exec: &DockerExec, work: &Path, image: &str) {
    let error = exec
        .run(
            ExecRequest::new("no-such-program", work),
            &mut |_: OutputStream, _: &[u8]| (),
            &CancellationToken::new(),
        )
        .await
        .unwrap_err()
        .to_string();
    let told =
        format!("the image {image} has no `no-such-program`; choose one that has it, or add it to this one");
    assert!(error.ends_with(&told), "{error}");
}

#[tokio::test]
async fn a_workspace_with_the_start_files_of_the_person_is_refused() {
    let (engine, home) = (FakeEngine::start(IMAGE), tempfile::tempdir().unwrap());
    let options = DockerOptions { socket: engine.socket(), ..DockerOptions::new(IMAGE, home.path()) };
    let exec = DockerExec::new(DockerOptions { home: Some(home.path().to_owned()), ..options });
    let error = exec.start().await.unwrap_err().to_string();
    assert!(error.contains("it contains the home directory"), "{error}");
}

/// Ways to make or to replace `$f`.
const WAYS: [&str; 5] = [
    "mkdir -p \"$(dirname \"$f\")\"; echo owned > \"$f\"",
    "rm -rf \"$f\"; echo owned > \"$f\"",
    "mv \"$f\" away; echo owned > \"$f\"",
    "d=$(dirname \"$f\"); mv \"$d\" away; mkdir -p \"$d\"; echo owned > \"$f\"",
    "umount \"$f\"; echo owned > \"$f\"",
];

/// With the engine and the image of the next test.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_real_container_nothing_is_made_or_replaced_that_runs_later() {
    let Some((image, socket)) = real_engine() else { return };
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let base = base.path().canonicalize().unwrap();
    let (top, member) = (base.join("top"), base.join("top/member"));
    guarded(&top);
    let options = DockerOptions { socket, ..DockerOptions::new(&image, &member) };
    let (project, state) = (Some(top.clone()), Some(base.join("state")));
    let exec = DockerExec::new(DockerOptions { project, state, ..options });
    for name in [
        "../.git/config",
        "../.git/hooks/pre-commit",
        "../.git/commondir",
        "../.git/info/attributes",
        "../.bashrc",
        "../.zk/settings.toml",
        "../.mcp.json",
        "../.claude/settings.json",
        ".bashrc",
        ".envrc",
        ".husky/pre-commit",
        "sub/.git/config",
        "sub/.git/hooks/x",
    ] {
        let before = std::fs::read_to_string(member.join(name)).ok();
        for way in WAYS {
            let (_, out) = bash_in(&exec, &format!("exec 2>&1; f={name}; {way}; true"), &member, None).await;
            let now = std::fs::read_to_string(member.join(name)).ok();
            assert_eq!(now, before, "{name} by {way}: {out}");
        }
    }
    let (_, out) = bash_in(&exec, "cat .netrc; ls .ssh; echo done", &member, None).await;
    assert_eq!(out, "done\n", "credentials are not read");
    // Files that git writes for a commit, and files around the directory.
    let work = "echo x > ../.git/index.lock && mv ../.git/index.lock ../.git/index && echo x > ../Cargo.lock && echo ok";
    assert_eq!(bash_in(&exec, work, &member, None).await.1, "ok\n");
    // A file that the person replaces is protected again.
    std::fs::write(top.join(".git/config.lock"), "another").unwrap();
    std::fs::rename(top.join(".git/config.lock"), top.join(".git/config")).unwrap();
    bash_in(&exec, "echo owned > ../.git/config", &member, None).await.0.unwrap();
    assert_eq!(std::fs::read_to_string(top.join(".git/config")).unwrap(), "another");
    lacks_a_program(&exec, &member, &image).await;
    exec.close().await;
    assert!(!top.join(".bashrc").exists() && !member.join(".envrc").exists());
}

/// The image with `bash` that `ZK_DOCKER_IMAGE` names, and the engine at the usual socket or the one of `DOCKER_HOST`.
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
fn real_engine() -> Option<(String, PathBuf)> {
    let Some(image) = variable("ZK_DOCKER_IMAGE") else {
        println!("skipped: ZK_DOCKER_IMAGE names no image");
        return None;
    };
    let socket = variable("DOCKER_HOST").and_then(|host| Some(host.strip_prefix("unix://")?.to_owned()));
    Some((image, socket.map_or_else(|| DockerOptions::new("", "/").socket, Into::into)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_engine_does_the_same() {
    let Some((image, socket)) = real_engine() else { return };
    let work = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(work.path().join(".git/hooks")).unwrap();
    let exec = DockerExec::new(DockerOptions { socket, ..DockerOptions::new(image, work.path()) });
    exec.check().unwrap();

    keeps_streams_apart(&exec, work.path()).await;
    let here = std::fs::read_to_string(work.path().join("here")).unwrap();
    assert_eq!(Path::new(here.trim_end()), work.path());

    let hook = "touch .git/hooks/pre-commit || echo refused";
    let (outcome, out) = bash_in(&exec, hook, work.path(), None).await;
    let told = outcome.unwrap().denials.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(
        matches!(&*told, [only] if only.contains("write /") && only.contains("/.git/hooks/pre-commit")),
        "{told:?}"
    );
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

//! Commands and files of a zk elsewhere.

use std::os::unix::net::UnixStream;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use zk_testkit::Script;

use crate::zk::{Person, program, server, until};

#[test]
fn a_conversation_works_where_an_exec_server_is() {
    let far = Person::new();
    far.write("far.txt", "needle in a far place\n");
    let socket = far.home().join("zk.sock");
    let listen = format!("unix:{}", socket.display());
    let mut serving = far.spawn(program(), &["exec-server", "--listen", &listen], Stdio::null());
    until("the server listening", || UnixStream::connect(&socket).is_ok());

    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "pwd; echo made > made.txt"})))
        .turn(|t| t.call("grep", json!({"pattern": "needle", "mode": "content"})))
        .turn(|t| t.call("shell", json!({"command": "seq 1 20000"})))
        .turn(|t| t.text("done"));
    let server = server(script);
    let near = Person::asking(&server);
    let context = format!("remote:{listen}");
    let ended = near.run(&["-p", "x", "--allow-all", "--context", &context]);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "done"), "{}", ended.stderr);
    let all = serde_json::to_string(&server.bodies()).unwrap();
    let pwd = far.project().display().to_string();
    for expected in [pwd.as_str(), "far.txt:1:needle in a far place", "all of it is in "] {
        assert!(all.contains(expected), "{expected}: {all}");
    }
    assert_eq!(std::fs::read_to_string(far.project().join("made.txt")).unwrap(), "made\n");
    assert!(!near.project().join("made.txt").exists());

    kill_process(Pid::from_child(&serving), Signal::TERM).unwrap();
    assert_eq!(serving.wait().unwrap().code(), Some(143));
    assert!(!socket.exists());
    let ended = near.run(&["-p", "x", "--allow-all", "--context", &context]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("cannot reach the exec-server at "), "{}", ended.stderr);
}

#[test]
fn a_context_that_cannot_be_used_is_refused_with_what_to_write() {
    let person = Person::new();
    let ended = person.run(&["-p", "x", "--context", "remote:tcp:127.0.0.1:1"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("unix:PATH with an absolute path"), "{}", ended.stderr);
    let ended = person.run(&["exec-server", "--listen", "unix:/x/y", "--context", "remote:unix:/z"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
}

/// A program in the place of `ssh`: it runs here what it was to run there, in the directory `far`.
fn with_ssh(far: &Person, script: &str) -> (tempfile::TempDir, String) {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let ssh = dir.path().join("ssh");
    let (zk, home) = (program().display(), far.home());
    let script = script.replace("ZK", &zk.to_string()).replace("HOME_THERE", &home.display().to_string());
    std::fs::write(&ssh, format!("#!/bin/bash\n{script}\n")).unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", dir.path().display());
    (dir, path)
}

#[test]
fn a_conversation_works_on_a_host_that_ssh_reaches_over_one_pair_of_pipes() {
    let far = Person::new();
    far.write("far.txt", "needle in a far place\n");
    let script = "while [ \"$1\" != zk ]; do echo \"$1\" >> HOME_THERE/args; shift; done; shift
        export HOME=HOME_THERE ZK_HOME=HOME_THERE ZK_CONTEXT=process; echo $$ > HOME_THERE/pid; exec ZK \"$@\"";
    let (_ssh, path) = with_ssh(&far, script);
    let script = Script::new()
        .turn(|t| {
            t.call(
                "shell",
                json!({"command": "pwd; echo made > made.txt; echo err >&2; sleep 600 & echo $! > left"}),
            )
        })
        .turn(|t| {
            t.call("grep", json!({"pattern": "needle", "mode": "content"}))
                .call("read_file", json!({"path": "far.txt"}))
                .call("glob", json!({"pattern": "*.txt"}))
        })
        .turn(|t| t.call("shell", json!({"command": "seq 1 200000"})))
        .turn(|t| t.call("write_file", json!({"path": "written.txt", "content": "from here"})))
        .turn(|t| t.text("done"));
    let server = server(script);
    let near = Person::asking(&server).with("PATH", &path);
    let context = format!("remote:ssh:me@far:{}", far.project().display());
    let ended = near.run(&["-p", "x", "--allow-all", "--context", &context]);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "done"), "{}", ended.stderr);
    let all = serde_json::Value::from(server.bodies()).to_string();
    let pwd = far.project().display().to_string();
    for expected in [pwd.as_str(), "far.txt:1:needle in a far place", "all of it is in ", "199999"] {
        assert!(all.contains(expected), "{expected}: {all}");
    }
    let read = |name: &str| std::fs::read_to_string(far.project().join(name)).unwrap();
    assert_eq!((read("made.txt").as_str(), read("written.txt").as_str()), ("made\n", "from here"));
    assert!(!near.project().join("made.txt").exists());
    let args = std::fs::read_to_string(far.home().join("args")).unwrap();
    assert_eq!(args, "-T\n-o\nBatchMode=yes\nme@far\n");
    let is_gone = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    };
    let pid = std::fs::read_to_string(far.home().join("pid")).unwrap();
    until("the end of the server", || is_gone(&pid));
    until("the end of what was left in the background", || is_gone(&read("left")));
}

#[test]
fn a_host_that_cannot_be_reached_is_told_in_the_words_of_ssh() {
    let far = Person::new();
    for (script, said) in [
        ("echo 'ssh: Could not resolve hostname far' >&2; exit 255", "Could not resolve hostname far"),
        ("echo 'Welcome to far!'; cat > /dev/null", "does the other side print something of its own?"),
        ("echo 'bash: zk: command not found' >&2; exit 127", "zk: command not found"),
    ] {
        let (_ssh, path) = with_ssh(&far, script);
        let server = server(Script::new().turn(|t| t.text("done")));
        let near = Person::asking(&server).with("PATH", &path);
        let ended = near.run(&["-p", "x", "--allow-all", "--context", "remote:ssh:far"]);
        assert_eq!(ended.code, 1, "{}", ended.stderr);
        assert!(ended.stderr.contains("cannot reach zk on far with ssh"), "{}", ended.stderr);
        assert!(ended.stderr.contains(said), "{said}: {}", ended.stderr);
    }
}

//! Commands and files on another machine, through `zk exec-server`.

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
    for expected in [pwd.as_str(), "far.txt:1:needle in a far place", "the whole of it is in "] {
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

/// Commands that a hook judges run there; the hook itself runs here, where nothing there can answer in its
/// place.
#[test]
fn hooks_run_on_this_machine_where_commands_run_elsewhere() {
    let far = Person::new();
    let socket = far.home().join("zk.sock");
    let listen = format!("unix:{}", socket.display());
    let mut serving = far.spawn(program(), &["exec-server", "--listen", &listen], Stdio::null());
    until("the server listening", || UnixStream::connect(&socket).is_ok());
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "touch made.txt"})))
        .turn(|t| t.text("done"));
    let server = server(script);
    let near = Person::asking(&server);
    near.settings("[[hooks.PreToolUse]]\ncommand = 'cat > seen; pwd > judged; echo not now >&2; exit 2'\n");
    let ended = near.run(&["-p", "x", "--allow-all", "--context", &format!("remote:{listen}")]);
    assert_eq!((ended.code, ended.stdout.trim()), (5, "done"), "{}", ended.stderr);
    let results = server.bodies().last().unwrap()["messages"].to_string();
    assert!(results.contains("not now"), "{results}");
    let here = near.project();
    assert_eq!(std::fs::read_to_string(here.join("judged")).unwrap().trim(), here.to_str().unwrap());
    let seen = std::fs::read_to_string(here.join("seen")).unwrap();
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["cwd"], here.to_str().unwrap());
    assert!(!far.project().join("judged").exists() && !far.project().join("made.txt").exists());
    kill_process(Pid::from_child(&serving), Signal::TERM).unwrap();
    serving.wait().unwrap();
}

#[test]
fn a_context_that_cannot_be_used_is_refused_with_what_to_write() {
    let person = Person::new();
    let ended = person.run(&["-p", "x", "--context", "remote:tcp:127.0.0.1:1"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("unix:PATH with an absolute path"), "{}", ended.stderr);
    let ended = person.run(&["exec-server", "--listen", "unix:/x/y", "--context", "remote:unix:/z"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    // Neither a name that nobody knows nor a part that is missing falls back to another context.
    for unknown in ["jail", "Sandbox", "docker", "remote", "remote:ssh:", "sandbox:x", ""] {
        let server = server(Script::new().turn(|t| t.text("done")));
        let person = Person::asking(&server);
        let ended = person.run(&["-p", "x", "--allow-all", "--context", unknown]);
        assert_eq!(ended.code, 2, "{unknown}: {}", ended.stderr);
        assert!(ended.stderr.contains("context"), "{unknown}: {}", ended.stderr);
        let in_settings = Person::asking(&server).with("ZK_CONTEXT", unknown);
        let ended = in_settings.run(&["-p", "x", "--allow-all"]);
        assert!(ended.code == 2 || unknown.is_empty(), "{unknown}: {}", ended.stderr);
        assert!(unknown.is_empty() || server.requests().is_empty(), "{unknown}: nothing was asked");
    }
}

/// Creates a program in place of `ssh`, which runs the remote command here, in the directory `far`.
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
    for expected in [pwd.as_str(), "far.txt:1:needle in a far place", "the whole of it is in ", "199999"] {
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

/// A directory with keys, an ssh daemon for this user that is started for each connection, and an `ssh` that knows it as `far`.
/// Nothing, with a printed line, where there is no such daemon or it does not start.
fn with_real_ssh(far: &Person) -> Option<(tempfile::TempDir, String)> {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    let (sshd, ssh, keygen) = ("/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/ssh-keygen");
    if let Some(missing) = [sshd, ssh, keygen].into_iter().find(|path| !Path::new(path).exists()) {
        println!("skipped: there is no {missing}");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let run = |program: &str, args: &[&str]| assert_cmd::Command::new(program).args(args).output().unwrap();
    for key in ["host", "me"] {
        assert!(run(keygen, &["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]).status.success());
    }
    let host = std::fs::read_to_string(at("host.pub")).unwrap();
    std::fs::write(at("known"), format!("far {host}")).unwrap();
    std::fs::create_dir(at("bin")).unwrap();
    symlink(program(), dir.path().join("bin/zk")).unwrap();
    let home = far.home().display().to_string();
    let config = format!(
        "HostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nPermitRootLogin yes\nLogLevel ERROR\n\
         SetEnv ZK_HOME={home} ZK_CONTEXT=process PATH={}:/usr/bin:/bin\n",
        at("host"),
        at("me.pub"),
        at("bin")
    );
    std::fs::write(at("sshd_config"), config).unwrap();
    let user = String::from_utf8(run("/usr/bin/id", &["-un"]).stdout).unwrap();
    let config = format!(
        "Host far\nHostKeyAlias far\nUser {}\nIdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\n\
         GlobalKnownHostsFile /dev/null\nProxyCommand {sshd} -i -f {}\n",
        user.trim(),
        at("me"),
        at("known"),
        at("sshd_config")
    );
    std::fs::write(at("ssh_config"), config).unwrap();
    // The client reads its settings from the home of the user database, whatever HOME says.
    std::fs::create_dir(at("near")).unwrap();
    let wrapper = format!("#!/bin/sh\nexec {ssh} -F {} \"$@\"\n", at("ssh_config"));
    std::fs::write(at("near/ssh"), wrapper).unwrap();
    std::fs::set_permissions(at("near/ssh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let tried = run(&at("near/ssh"), &["-T", "-o", "BatchMode=yes", "far", "command -v zk"]);
    let found = String::from_utf8_lossy(&tried.stdout).into_owned();
    if found.trim() != at("bin/zk") {
        let said = String::from_utf8_lossy(&tried.stderr).into_owned();
        println!("skipped: this machine's ssh daemon gives no session with a zk of its own: {found}{said}");
        return None;
    }
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", at("near"));
    Some((dir, path))
}

#[test]
fn a_conversation_works_through_a_real_ssh_daemon() {
    let far = Person::new();
    far.write("far.txt", "needle in a far place\n");
    let Some((_dir, path)) = with_real_ssh(&far) else { return };
    let script = Script::new()
        .turn(|t| {
            t.call("shell", json!({"command": "pwd; echo made > made.txt; sleep 600 & echo $! > left"}))
        })
        .turn(|t| {
            t.call("grep", json!({"pattern": "needle", "mode": "content"}))
                .call("write_file", json!({"path": "written.txt", "content": "from here"}))
        })
        .turn(|t| t.call("shell", json!({"command": "seq 1 200000"})))
        .turn(|t| t.text("done"));
    let server = server(script);
    let near = Person::asking(&server).with("PATH", &path);
    let context = format!("remote:ssh:far:{}", far.project().display());
    let ended = near.run(&["-p", "x", "--allow-all", "--context", &context]);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "done"), "{}", ended.stderr);
    let all = serde_json::Value::from(server.bodies()).to_string();
    let pwd = far.project().display().to_string();
    for expected in [pwd.as_str(), "far.txt:1:needle in a far place", "199999"] {
        assert!(all.contains(expected), "{expected}: {all}");
    }
    let read = |name: &str| std::fs::read_to_string(far.project().join(name)).unwrap();
    assert_eq!((read("made.txt").as_str(), read("written.txt").as_str()), ("made\n", "from here"));
    assert!(!near.project().join("made.txt").exists() && !near.project().join("written.txt").exists());
    let left = read("left");
    until("the end of what was left in the background", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", left.trim()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    });

    let refused = near.run(&["-p", "x", "--allow-all", "--context", "remote:ssh:far:/nonexistent"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    for part in ["cannot reach zk on far with ssh", "/nonexistent"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
}

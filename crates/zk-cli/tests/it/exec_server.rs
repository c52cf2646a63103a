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

//! A team's program has its plugin and its vendor, and fits on a page.

use assert_cmd::Command;

#[test]
fn it_takes_no_more_than_15_lines() {
    let main = include_str!("../src/main.rs").lines().filter(|line| !line.starts_with("//!")).count();
    assert!(main <= 15, "{main} lines");
}

#[test]
fn its_plugin_sees_the_turns_and_its_vendor_is_known() {
    let home = tempfile::tempdir().expect("a directory");
    let server = zk_testkit::FakeServer::raw("{\"say\":\"Hello\"}\n{\"done\":{}}\n", &[]).expect("a server");
    let run = |args: &[&str]| {
        let mut command = Command::cargo_bin("own-zk").expect("the program");
        command.env_clear().env("ZK_HOME", home.path()).env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
        command.current_dir(home.path()).args(args).write_stdin("").output().expect("it runs")
    };
    let ended = run(&["--provider", "aviary", "--base-url", &server.url(), "--api-key", "k", "-p", "hi"]);
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "Hello\n", "{stderr}");
    assert!(stderr.contains("turn 1 done"), "{stderr}");
    let ended = run(&["--provider", "nobody", "-p", "hi"]);
    assert!(String::from_utf8_lossy(&ended.stderr).contains("`aviary`"));
}

#[test]
fn a_provider_that_retries_by_itself_keeps_its_policy_and_another_gets_the_programs() {
    let home = tempfile::tempdir().expect("a directory");
    let run = |provider: &str| {
        let mut command = Command::cargo_bin("ready-providers").expect("the program");
        command.env_clear().env("ZK_HOME", home.path()).env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
        let args = ["--provider", provider, "--model", "m", "-p", "hi"];
        let ended = command.current_dir(home.path()).args(args).write_stdin("").output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (ended.status.code(), text(&ended.stdout), text(&ended.stderr))
    };
    let (code, answer, said) = run("patient");
    assert_eq!((code, answer.as_str()), (Some(0), "Here.\n"), "{said}");
    let (code, answer, said) = run("stubborn");
    assert_eq!((code, answer.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains("come back later"), "{said}");
}

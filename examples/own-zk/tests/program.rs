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

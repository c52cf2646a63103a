//! The sandbox of a machine that refuses namespaces: Landlock and seccomp alone.

use std::fs;

use zk_exec::{Layer, Network, SandboxError, SandboxExec, SandboxPolicy};

use super::{run, sandboxed};
use crate::support::{environment, supervision};

#[tokio::test]
async fn without_namespaces_nothing_outside_is_written_hidden_files_are_not_read_and_nothing_connects() {
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (work, state) = (base.path().join("work"), base.path().join("place/state"));
    fs::create_dir_all(work.join(".git/hooks")).unwrap();
    fs::create_dir_all(&state).unwrap();
    fs::write(base.path().join("place/readable"), "read").unwrap();
    let hidden = base.path().join("hidden");
    fs::create_dir(&hidden).unwrap();
    fs::write(hidden.join("key"), "secret").unwrap();
    let policy = SandboxPolicy::new(&work).state(&state).hidden(&hidden).landlock_only();
    let Some(exec) = sandboxed(&policy) else { return };
    let report = exec.start().unwrap();
    assert!(report.layer(Layer::Landlock).unwrap().present && !report.layer(Layer::Mounts).unwrap().present);
    let told = report.to_string();
    assert!(
        told.contains("no mounts (refused by the machine): protected files inside the project can be"),
        "{told}"
    );

    let test = exec.self_test().await.unwrap();
    assert_eq!((test.held.len(), test.unproven.len()), (8, 0), "{test:?}");

    let outside = base.path().join("outside");
    // Files that others keep in the temporary directory are hidden as well.
    let is_read = !base.path().starts_with("/tmp");
    for (command, works) in [
        ("echo x > here && cat here".to_owned(), true),
        ("f=$(mktemp) && echo x > $f && rm $f".to_owned(), true),
        (
            "git init -q . && echo x > a && git add a && git -c user.name=x -c user.email=x@y commit -qm x"
                .to_owned(),
            true,
        ),
        (format!("cat {}", base.path().join("place/readable").display()), is_read),
        (format!("echo x > {}", outside.display()), false),
        (format!("ln here {}", outside.display()), false),
        ("echo x > /dev/shm/zk-outside".to_owned(), false),
        (format!("cat {}/key", hidden.display()), false),
        ("cat /run/* /tmp/* 2>/dev/null | grep -q .".to_owned(), false),
        ("exec 3<>/dev/tcp/127.0.0.1/80".to_owned(), false),
    ] {
        let (code, out) = run(&exec, &command, &work).await;
        assert_eq!(code == 0, works, "{command}: {out}");
    }
    assert!(!outside.exists());
    exec.close().await;
}

#[tokio::test]
async fn without_namespaces_a_network_of_its_own_is_refused_with_the_reason() {
    let work = tempfile::tempdir().unwrap();
    let policy = SandboxPolicy::new(work.path()).network(Network::Loopback).landlock_only();
    match SandboxExec::new(&policy, environment(), supervision()) {
        Err(error @ SandboxError::Missing { .. }) => {
            assert!(error.to_string().contains("the network `loopback` needs namespaces"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

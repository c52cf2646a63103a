//! Commands that only read, in a sandbox that denies writes.

use std::fs;

use zk_exec::SandboxPolicy;

use super::{has, run, sandboxed};

#[tokio::test]
async fn a_policy_that_denies_writes_lets_commands_write_temporary_files_and_nothing_else() {
    let (project, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(project.path().join("kept"), "as it was").unwrap();
    let policy = SandboxPolicy::new(project.path()).state(state.path()).deny_writes();
    let Some(exec) = sandboxed(&policy) else { return };
    for denied in [
        "echo x > kept",
        "echo x > new",
        "mkdir new",
        "rm kept",
        "mv kept moved",
        "ln -s kept link",
        "chmod 777 kept",
        "truncate -s 0 kept",
        "test -w .",
    ] {
        let (code, out) = run(&exec, denied, project.path()).await;
        assert_ne!(code, 0, "{denied}: {out}");
    }
    for works in ["grep -q 'as it was' kept", "f=$(mktemp) && echo x > $f && cat $f", "ls | sort > /dev/null"]
    {
        let (code, out) = run(&exec, works, project.path()).await;
        assert_eq!(code, 0, "{works}: {out}");
    }
    exec.close().await;
    let names: Vec<_> =
        fs::read_dir(project.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["kept"]);
    assert_eq!(fs::read_to_string(project.path().join("kept")).unwrap(), "as it was");
}

#[tokio::test]
async fn a_policy_that_denies_writes_hides_credentials_in_the_project_too() {
    let (project, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(project.path().join("sub/.ssh")).unwrap();
    for secret in [".netrc", "sub/.netrc", "sub/.ssh/id_ed25519"] {
        fs::write(project.path().join(secret), "secret").unwrap();
    }
    let policy = SandboxPolicy::new(project.path()).state(state.path()).deny_writes();
    let Some(exec) = sandboxed(&policy) else { return };
    for secret in [".netrc", "sub/.netrc", "sub/.ssh/id_ed25519"] {
        let (_, out) = run(&exec, &format!("cat {secret}"), project.path()).await;
        assert!(!out.contains("secret"), "{secret}: {out}");
    }
    let (_, out) = run(&exec, "grep -rs secret . || true", project.path()).await;
    assert_eq!(out, "");
    exec.close().await;
}

#[tokio::test]
async fn credentials_of_the_project_are_hidden_only_where_writes_are_denied() {
    let (project, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(project.path().join("sub")).unwrap();
    let files = [".env", "sub/.env.local", "sub/id_rsa"];
    for file in files {
        fs::write(project.path().join(file), "secret").unwrap();
    }
    fs::write(project.path().join(".env.example"), "example").unwrap();
    let writable = SandboxPolicy::new(project.path()).state(state.path());
    for (policy, is_hidden) in [(writable.clone().deny_writes(), true), (writable, false)] {
        let Some(exec) = sandboxed(&policy) else { return };
        for file in files {
            let (_, out) = run(&exec, &format!("cat {file}"), project.path()).await;
            assert_eq!(!out.contains("secret"), is_hidden, "{file}: {out}");
        }
        let (_, out) = run(&exec, "grep -rls secret . || true", project.path()).await;
        assert_eq!(out.is_empty(), is_hidden, "{out}");
        assert_eq!(run(&exec, "cat .env.example", project.path()).await, (0, "example".to_owned()));
        exec.close().await;
    }
}

#[tokio::test]
async fn git_that_reads_starts_no_monitor_and_needs_no_lock_of_its_index() {
    if !has("git") {
        return;
    }
    let (project, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let policy = SandboxPolicy::new(project.path()).state(state.path()).deny_writes();
    let Some(exec) = sandboxed(&policy) else { return };
    super::escapes::repository(project.path());
    fs::write(project.path().join("file"), "x").unwrap();
    let config = project.path().join(".git/config");
    let text = fs::read_to_string(&config).unwrap() + "[core]\n\tfsmonitor = echo started >&2; false\n";
    fs::write(&config, text).unwrap();
    let (code, out) = run(&exec, "git status --short", project.path()).await;
    assert_eq!((code, out.as_str()), (0, "?? file\n"));
    exec.close().await;
}

#[tokio::test]
async fn a_sandbox_that_denies_writes_passes_its_self_test_in_a_directory_too_wide_to_be_written() {
    let (home, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let policy = SandboxPolicy::new(home.path()).home(home.path()).state(state.path()).deny_writes();
    let Some(exec) = sandboxed(&policy) else { return };
    let test = exec.self_test().await.unwrap();
    assert!(!test.held.is_empty());
    exec.close().await;
}

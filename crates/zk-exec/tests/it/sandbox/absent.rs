//! Protection of files that programs are started from, where they do not exist yet.

use std::fs;
use std::path::Path;

use zk_core::service::{DeniedAct, Exec, ExecRequest, Files, OutputStream, PathError};
use zk_exec::{SandboxPolicy, WorkspaceFiles};

use super::{run, sandboxed};

/// Start files, in a workspace without any of them.
const RUN_LATER: [&str; 45] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".pam_environment",
    ".gitconfig",
    ".zk/settings.toml",
    ".zk/settings.local.toml",
    ".zk/hooks/x",
    ".zk/agents/x.md",
    ".git",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/hooks/pre-commit",
    ".git/info/attributes",
    ".git/objects/info/alternates",
    ".git/modules/a/config",
    ".git/HEAD",
    "HEAD",
    "add/.bashrc",
    "add/.profile",
    "add/.gitconfig",
    "add/.zk/settings.toml",
    "add/.git/config",
    ".gitmodules",
    ".husky/pre-commit",
    ".claude/settings.json",
    ".claude/settings.local.json",
    "add/.claude/settings.json",
];

/// Ways to create `$f`, one of which suffices.
const WAYS: [&str; 7] = [
    "echo owned > \"$f\"",
    "mkdir -p \"$(dirname \"$f\")\"; echo owned > \"$f\"",
    "echo owned > made; mv -T made \"$f\"",
    "ln -s \"$PWD/made\" \"$f\"",
    "rm -rf \"$f\"; echo owned > \"$f\"",
    "mv \"$f\" away; echo owned > \"$f\"",
    "mkfifo \"$f\"",
];

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn what_is_run_later_cannot_be_made_where_it_is_absent() {
    let base = tempfile::tempdir().unwrap();
    let (work, add) = (base.path().join("work"), base.path().join("work/add"));
    fs::create_dir_all(&add).unwrap();
    let policy = SandboxPolicy::new(&work).writable(&add).state(base.path().join("state"));
    let Some(exec) = sandboxed(&policy) else { return };
    for name in RUN_LATER {
        for way in WAYS {
            let (_, out) = run(&exec, &format!("f={name}; {way}; true"), &work).await;
            let made = fs::symlink_metadata(work.join(name));
            assert!(made.is_err(), "{name} was made by {way}: {out}");
            let own = |name: &String| name != "made" && name != "away";
            let seen: Vec<_> = names(&work).into_iter().filter(own).collect();
            assert_eq!((seen, names(&add)), (vec!["add".to_owned()], Vec::new()), "{name}: {way}");
        }
    }
    exec.close().await;
}

/// Below a writable directory's top level, existing names are protected.
#[tokio::test]
async fn what_is_run_later_is_not_changed_deeper_below_where_it_exists() {
    let base = tempfile::tempdir().unwrap();
    let work = base.path().join("work");
    let names = [
        ".bashrc",
        ".zshrc",
        ".profile",
        ".gitconfig",
        ".zk/settings.toml",
        ".git/config",
        ".git/hooks/x",
        ".envrc",
        ".mcp.json",
        ".husky/pre-commit",
        ".vscode/tasks.json",
        ".claude/settings.json",
    ];
    let deep: Vec<_> =
        names.iter().flat_map(|name| [format!("a/{name}"), format!("a/b/c/d/{name}")]).collect();
    for name in &deep {
        fs::create_dir_all(work.join(name).parent().unwrap()).unwrap();
        fs::write(work.join(name), "own").unwrap();
    }
    for repository in ["a", "a/b/c/d"] {
        fs::write(work.join(repository).join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    }
    let policy = SandboxPolicy::new(&work).state(base.path().join("state"));
    let Some(exec) = sandboxed(&policy) else { return };
    for name in &deep {
        for way in WAYS {
            let (_, out) = run(&exec, &format!("f={name}; {way}; true"), &work).await;
            let now = fs::read_to_string(work.join(name));
            assert_eq!(now.ok().as_deref(), Some("own"), "{name} is another one by {way}: {out}");
        }
    }
    exec.close().await;
}

/// A directory of another program is written, but for the files that it runs something from.
#[tokio::test]
async fn of_a_directory_with_some_guarded_files_the_others_are_written() {
    let base = tempfile::tempdir().unwrap();
    let work = base.path().join("work");
    fs::create_dir_all(work.join(".claude/skills")).unwrap();
    let policy = SandboxPolicy::new(&work).state(base.path().join("state"));
    let Some(exec) = sandboxed(&policy) else { return };
    let (code, out) = run(&exec, "echo x > .claude/skills/new && echo x > .claude/notes.md", &work).await;
    assert_eq!(code, 0, "{out}");
    for way in WAYS {
        run(&exec, &format!("f=.claude/settings.json; {way}; true"), &work).await;
        assert!(!work.join(".claude/settings.json").is_file(), "{way}");
    }
    let (code, _) =
        run(&exec, "mv .claude other; mkdir .claude && echo x > .claude/settings.json", &work).await;
    assert_ne!(code, 0);
    exec.close().await;
    assert_eq!(names(&work.join(".claude")), ["notes.md", "skills"]);
}

/// A file tool with approval writes it; commands still do not.
#[tokio::test]
async fn what_a_person_approves_is_written_where_the_name_is_kept_free() {
    let base = tempfile::tempdir().unwrap();
    let work = base.path().join("work");
    fs::create_dir(&work).unwrap();
    let policy = SandboxPolicy::new(&work).state(base.path().join("state"));
    let Some(exec) = sandboxed(&policy) else { return };
    run(&exec, "true", &work).await;
    let files = WorkspaceFiles::new([&work]).unwrap();
    for name in [".mcp.json", ".husky/pre-commit", ".claude/settings.json"] {
        let at = files.resolve(&work, name).unwrap();
        assert!(matches!(files.stat(&at), Err(PathError::Missing { .. })), "{name}");
        assert!(matches!(files.open(&at, None), Err(PathError::Missing { .. })), "{name}");
        assert!(files.write(&at, b"approved").unwrap().created, "{name}");
        for way in WAYS {
            run(&exec, &format!("f={name}; {way}; true"), &work).await;
            assert_eq!(fs::read_to_string(work.join(name)).unwrap(), "approved", "{name} by {way}");
        }
    }
    let start = files.resolve(&work, ".bashrc").unwrap();
    assert!(matches!(files.write(&start, b"x"), Err(PathError::Protected { .. })));
    exec.close().await;
    let left: Vec<_> = names(&work).into_iter().filter(|name| name.starts_with('.')).collect();
    assert_eq!(left, [".claude", ".husky", ".mcp.json"]);
}

#[tokio::test]
async fn a_name_whose_program_asks_for_trust_is_not_taken_and_what_has_it_is_not_changed() {
    let base = tempfile::tempdir().unwrap();
    let work = base.path().join("work");
    fs::create_dir(&work).unwrap();
    let policy = SandboxPolicy::new(&work).state(base.path().join("state"));
    let Some(exec) = sandboxed(&policy) else { return };
    run(&exec, "true", &work).await;
    let asked = [".envrc", ".mcp.json", ".vscode"];
    let taken: Vec<_> = names(&work).into_iter().filter(|name| asked.contains(&name.as_str())).collect();
    assert_eq!(taken, [""; 0]);
    fs::write(work.join(".envrc"), "own").unwrap();
    for way in WAYS {
        run(&exec, &format!("f=.envrc; {way}; true"), &work).await;
        assert_eq!(fs::read_to_string(work.join(".envrc")).unwrap(), "own", "{way}");
    }
    exec.close().await;
}

#[tokio::test]
async fn a_conversation_that_runs_no_command_makes_nothing() {
    let base = tempfile::tempdir().unwrap();
    let work = base.path().join("work");
    fs::create_dir(&work).unwrap();
    let policy = SandboxPolicy::new(&work).state(base.path().join("state"));
    let (environment, supervision) = (crate::support::environment(), crate::support::supervision());
    let exec = zk_exec::SandboxExec::new(&policy, environment, supervision).unwrap();
    assert_eq!(names(&work), Vec::<String>::new());
    exec.close().await;
    assert_eq!(names(base.path()), ["work"]);
}

#[tokio::test]
async fn start_files_below_the_home_directory_are_protected_where_their_directory_is_writable() {
    let home = tempfile::tempdir().unwrap();
    let at = |path: &str| home.path().join(path);
    for dir in ["work", ".config/fish", ".cargo"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    fs::write(at(".config/fish/config.fish"), "as it was").unwrap();
    let policy =
        SandboxPolicy::new(at("work")).home(home.path()).writable(at(".config")).writable(at(".cargo"));
    let Some(exec) = sandboxed(&policy) else { return };
    assert_eq!(exec.start().unwrap().limits, [""; 0]);
    for name in [
        ".config/fish/config.fish",
        ".config/fish/conf.d/x.fish",
        ".config/git/config",
        ".config/systemd/user/x.service",
        ".config/autostart/x.desktop",
        ".config/environment.d/x.conf",
        ".config/nvim/init.lua",
        ".cargo/config.toml",
        ".cargo/config",
        ".cargo/env",
    ] {
        let was = fs::read_to_string(at(name)).ok();
        for way in WAYS {
            run(&exec, &format!("f={}; {way}; true", at(name).display()), &at("work")).await;
            let found = fs::read_to_string(at(name)).ok();
            assert_eq!(found, was, "{name}: {way}");
        }
    }
    let (code, out) = run(&exec, &format!("echo ok > {}", at(".config/other").display()), &at("work")).await;
    assert_eq!(code, 0, "{out}");
    exec.close().await;
    assert_eq!(names(&at(".config")), ["fish", "other"]);
    assert_eq!(names(&at(".cargo")), Vec::<String>::new());
}

#[tokio::test]
async fn a_repository_that_a_script_cannot_make_is_told_with_the_command_that_can() {
    let work = tempfile::tempdir().unwrap();
    let Some(exec) = sandboxed(&SandboxPolicy::new(work.path())) else { return };
    let stop = tokio_util::sync::CancellationToken::new();
    for command in ["git init; true", "git clone -q file:///nowhere . || true", "mkdir .git"] {
        let mut sink = |_: OutputStream, _: &[u8]| ();
        let request = ExecRequest::shell(command, work.path());
        let denials = exec.run(request, &mut sink, &stop).await.unwrap().denials;
        assert!(matches!(&*denials, [only] if only.target.ends_with("/.git")), "{command}: {denials:?}");
        assert!(
            denials[0].reason.ends_with("run `git init` or `git clone` as a command of its own"),
            "{denials:?}"
        );
    }
    assert_eq!(names(work.path()), [""; 0]);
}

#[tokio::test]
async fn a_command_that_wants_to_make_a_start_file_is_told_what_denied_it() {
    let work = tempfile::tempdir().unwrap();
    let Some(exec) = sandboxed(&SandboxPolicy::new(work.path())) else { return };
    let mut sink = |_: OutputStream, _: &[u8]| ();
    let request = ExecRequest::shell("echo owned >> .bashrc", work.path());
    let stop = tokio_util::sync::CancellationToken::new();
    let denials = exec.run(request, &mut sink, &stop).await.unwrap().denials;
    let target = work.path().canonicalize().unwrap().join(".bashrc");
    assert_eq!(denials.len(), 1);
    assert_eq!((denials[0].act, denials[0].target.as_str()), (DeniedAct::Write, target.to_str().unwrap()));
}

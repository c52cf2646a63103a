//! Repositories that commands make, and the git of a person who works with them afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use zk_core::service::{DeniedAct, Exec, ExecOutcome, ExecRequest};
use zk_exec::{SandboxExec, SandboxPolicy};

use super::escapes::{command, repository};
use super::{has, run, sandboxed};
use crate::support::{bash_in, eventually};

struct Project {
    exec: SandboxExec,
    tree: tempfile::TempDir,
    outside: tempfile::TempDir,
    _state: tempfile::TempDir,
}

impl Project {
    /// A repository in a sandbox, or an empty directory.
    fn new(is_repository: bool) -> Option<Self> {
        let [tree, outside, state] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        if is_repository {
            repository(tree.path());
        }
        let policy = SandboxPolicy::new(tree.path()).state(state.path()).readable(outside.path());
        let exec = if has("git") && has("python3") { sandboxed(&policy) } else { None }?;
        Some(Self { exec, tree, outside, _state: state })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.tree.path().canonicalize().unwrap().join(name)
    }

    /// Program that leaves a mark when it runs outside of the sandbox.
    fn mark(&self) -> PathBuf {
        self.outside.path().join("mark")
    }

    async fn bash(&self, script: &str) -> (ExecOutcome, String) {
        let mark = format!("touch {}", self.mark().display());
        let script = script.replace("MARK", &mark);
        let (outcome, out) = bash_in(&self.exec, &script, self.tree.path(), None).await;
        (outcome.unwrap(), out)
    }

    /// Runs git as the person whose project it is.
    fn git(&self, args: &[&str]) -> String {
        git(self.tree.path(), args)
    }
}

fn git(tree: &Path, args: &[&str]) -> String {
    let identity = ["-c", "user.name=x", "-c", "user.email=x@x"];
    let mut command = command("git");
    command.args(identity).args(args).current_dir(tree).stdout(Stdio::piped());
    String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
}

/// Has the person look at a project, and work in each repository in it.
fn look(tree: &Path) {
    for args in [&["status"][..], &["diff"], &["log", "-1", "-p"]] {
        git(tree, args);
    }
    for dir in ["sub", "other", "moved/sub", "bare", "w", "deep/a/b"].map(|dir| tree.join(dir)) {
        if !dir.is_dir() {
            continue;
        }
        let commit = ["commit", "-q", "--allow-empty", "-m", "x"];
        for args in [&["status"][..], &["log", "-1", "-p"], &["x"], &["fetch"], &["add", "-A"], &commit] {
            git(&dir, args);
        }
    }
}

/// Scripts that leave traps for a later git command of the person.
const HOSTILE: &[(&str, &str)] = &[
    ("monitor", "git init -q sub && git -C sub config core.fsmonitor 'MARK; false' && git add sub"),
    ("alias", "git init -q sub && git -C sub config alias.x '!MARK'"),
    (
        "hook",
        "git init -q sub && mkdir -p sub/.git/hooks && printf '#!/bin/sh\nMARK\n' > sub/.git/hooks/pre-commit && \
      chmod +x sub/.git/hooks/pre-commit",
    ),
    (
        "hook by a link",
        "git init -q sub && printf '#!/bin/sh\nMARK\n' > h && chmod +x h && mkdir -p sub/.git/hooks && \
      ln -s ../../../h sub/.git/hooks/pre-commit",
    ),
    (
        "hooks by a link",
        "git init -q sub && mkdir h && printf '#!/bin/sh\nMARK\n' > h/pre-commit && chmod +x h/pre-commit && \
      rm -rf sub/.git/hooks && ln -s ../../h sub/.git/hooks",
    ),
    (
        "hooks elsewhere",
        "git init -q sub && mkdir h && printf '#!/bin/sh\nMARK\n' > h/pre-commit && chmod +x h/pre-commit && \
      git -C sub config core.hooksPath $PWD/h",
    ),
    (
        "include",
        "git init -q sub && printf '[core]\nfsmonitor = MARK; false\n' > i && git -C sub config include.path $PWD/i",
    ),
    (
        "a section in one line",
        "git init -q sub && printf '[core] fsmonitor = \"MARK; false\"\n' >> sub/.git/config",
    ),
    (
        "filter",
        "git init -q sub && git -C sub config filter.f.clean 'MARK; cat' && echo '* filter=f' > sub/.gitattributes",
    ),
    (
        "text conversion",
        "git init -q sub && cd sub && git config diff.t.textconv 'MARK; cat' && echo '* diff=t' > .gitattributes \
      && git add . && git -c user.name=x -c user.email=x@x commit -qm x",
    ),
    (
        "settings of a worktree",
        "git init -q sub && git -C sub config extensions.worktreeConfig true && \
      printf '[core]\nfsmonitor = MARK; false\n' > sub/.git/config.worktree",
    ),
    (
        "file that names a directory",
        "git init -q sub && mv sub/.git store && echo 'gitdir: ../store' > sub/.git && \
      git -C sub config core.fsmonitor 'MARK; false' && git add sub",
    ),
    (
        "link to a directory",
        "git init -q sub && mv sub/.git store && ln -s ../store sub/.git && \
      git --git-dir store config core.fsmonitor 'MARK; false'",
    ),
    (
        "common directory",
        "git init -q sub && git init -q --bare store && git --git-dir store config core.fsmonitor 'MARK; false' \
      && git --git-dir store config core.bare false && echo ../../store > sub/.git/commondir",
    ),
    (
        "common directory without a HEAD",
        "git init -q sub && mkdir y && mv sub/.git/objects sub/.git/refs sub/.git/config y && \
      echo ../../y > sub/.git/commondir && git config -f y/config core.fsmonitor 'MARK; false'",
    ),
    (
        "common directory by a link",
        "git init -q sub && mkdir y && mv sub/.git/objects sub/.git/refs sub/.git/config y && echo ../../y > c && \
      ln -s ../../c sub/.git/commondir && git config -f y/config core.fsmonitor 'MARK; false'",
    ),
    (
        "common directory with a blank at its end",
        "git init -q sub && mkdir 'y ' && mv sub/.git/objects sub/.git/refs sub/.git/config 'y ' && mkdir -p y && \
      printf '../../y \n' > sub/.git/commondir && git config -f 'y /config' core.fsmonitor 'MARK; false'",
    ),
    (
        "made by mknod",
        "mkdir -p bare/objects bare/refs && printf '[alias]\nx = !MARK\n' > bare/config && \
      python3 -c 'import os; os.mknod(\"bare/HEAD\", 0o100644); open(\"bare/HEAD\", \"r+\").write(\"ref: refs/heads/main\")'",
    ),
    (
        "moved",
        "mkdir x && git init -q x/sub && git -C x/sub config core.fsmonitor 'MARK; false' && mv x moved",
    ),
    (
        "moved, with another in its place",
        "mkdir x && git init -q x/sub && git -C x/sub config core.fsmonitor 'MARK; false' && \
      mv x moved && git init -q x/sub",
    ),
    (
        "renamed to it",
        "git init -q --bare x && mkdir sub && git --git-dir x config core.bare false && \
      git --git-dir x config core.fsmonitor 'MARK; false' && mv x sub/.git",
    ),
    ("bare", "git init -q --bare bare && git --git-dir bare config alias.x '!MARK'"),
    (
        "bare, by hand",
        "mkdir -p bare/objects bare/refs && printf '[alias]\nx = !MARK\n' > bare/config && \
      echo 'ref: refs/heads/main' > bare/HEAD",
    ),
    (
        "settings that are a link",
        "git init -q sub && mv sub/.git/config s && ln -s ../../s sub/.git/config && \
      printf '[core]\nfsmonitor = MARK; false\n' >> s",
    ),
    (
        "closed directory",
        "git init -q sub && git -C sub config core.fsmonitor 'MARK; false' && chmod 500 sub/.git",
    ),
    (
        "deep",
        "mkdir -p deep/a && git init -q deep/a/b && git -C deep/a/b config core.fsmonitor 'MARK; false'",
    ),
    (
        "remote",
        "git init -q sub && git -C sub config remote.origin.url . && \
      git -C sub config remote.origin.uploadpack 'MARK; git-upload-pack'",
    ),
    (
        "worktree",
        "git worktree add -q -f w && git -C w rev-parse && mkdir h && printf '[core]\nfsmonitor = MARK; false\n' > \
      .git/worktrees/w/config.worktree; git config extensions.worktreeConfig true",
    ),
];

#[tokio::test]
async fn no_repository_that_a_command_made_starts_a_program_of_it_outside() {
    for (name, script) in HOSTILE {
        let Some(project) = Project::new(true) else { return };
        let plain = tempfile::tempdir().unwrap();
        repository(plain.path());
        let script_outside = script.replace("MARK", &format!("touch {}", project.mark().display()));
        command("bash").args(["-c", &script_outside]).current_dir(plain.path()).status().unwrap();
        look(plain.path());
        assert!(fs::remove_file(project.mark()).is_ok(), "{name} is harmless outside of a sandbox");
        let (outcome, out) = project.bash(script).await;
        look(project.tree.path());
        assert!(!project.mark().exists(), "{name}: {:?} {out}", outcome.denials);
        project.exec.close().await;
        look(project.tree.path());
        assert!(!project.mark().exists(), "{name}, afterwards");
    }
}

#[tokio::test]
async fn the_result_of_a_command_tells_of_what_was_set_aside() {
    let Some(project) = Project::new(true) else { return };
    let (outcome, _) = project
        .bash("git init -q sub && git -C sub config core.fsmonitor MARK && git -C sub config user.name me")
        .await;
    let told: Vec<_> = outcome.denials.iter().map(|denial| (denial.act, denial.to_string())).collect();
    let config = project.at("sub/.git/config");
    let begin =
        format!("set aside by the sandbox: {} (git may start programs by its settings", config.display());
    assert!(
        matches!(&*told, [(DeniedAct::SetAside, text)] if text.starts_with(&begin)
            && text.contains("core.fsmonitor") && text.contains("config.set-aside")),
        "{told:?}"
    );
    assert!(fs::read_to_string(config.with_extension("set-aside")).unwrap().contains("fsmonitor"));
    let kept = fs::read_to_string(&config).unwrap();
    assert!(kept.contains("name = me") && !kept.contains("fsmonitor"), "{kept}");
    // A repository without traps is unchanged.
    let (outcome, _) = project.bash("git init -q other && touch other/x && git -C other add x").await;
    assert_eq!((outcome.denials.len(), project.at("other/.git/config.set-aside").exists()), (0, false));
    project.exec.close().await;
}

/// The set-up does not search tool-made directories for repositories.
#[tokio::test]
async fn a_repository_among_the_files_of_tools_that_is_armed_and_added_to_the_index_is_disarmed() {
    let hook = |name: &str| {
        format!(
            "cd node_modules/a && mkdir -p .git/hooks && printf '#!/bin/sh\nMARK\n' > .git/hooks/{name} && \
             chmod +x .git/hooks/{name} && cd ../.."
        )
    };
    let settings = "printf '[core]\nfsmonitor = MARK; false\n' >";
    for armed in [
        "git -C node_modules/a config core.fsmonitor 'MARK; false'".to_owned(),
        hook("post-index-change"),
        "mkdir h && cd h && printf '#!/bin/sh\nMARK\n' > post-index-change && chmod +x post-index-change && cd .. && \
         rm -rf node_modules/a/.git/hooks && ln -s ../../../h node_modules/a/.git/hooks"
            .to_owned(),
        format!("mkdir y && cp -r node_modules/a/.git/objects node_modules/a/.git/refs y && {settings} y/config && \
                 echo ../../../y > node_modules/a/.git/commondir"),
    ] {
        disarms_among_the_files_of_tools(&armed).await;
    }
}

async fn disarms_among_the_files_of_tools(armed: &str) {
    let [tree, outside, state] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let inner = tree.path().join("node_modules/a");
    fs::create_dir_all(&inner).unwrap();
    repository(tree.path());
    repository(&inner);
    let policy = SandboxPolicy::new(tree.path()).state(state.path());
    let Some(exec) = sandboxed(&policy) else { return };
    let mark = outside.path().join("mark");
    let armed = armed.replace("MARK", &format!("touch {}", mark.display()));
    let (code, out) = run(&exec, &format!("{armed} && git add -f node_modules/a"), tree.path()).await;
    assert_eq!(code, 0, "{armed}: {out}");
    git(tree.path(), &["status"]);
    fs::write(inner.join("new"), "x").unwrap();
    git(&inner, &["add", "-A"]);
    assert!(!mark.exists(), "{armed}");
    exec.close().await;
}

#[tokio::test]
async fn a_command_in_the_background_leaves_nothing_behind_for_the_git_of_a_person() {
    let Some(project) = Project::new(true) else { return };
    let late = "(while [ ! -e go ]; do sleep 0.01; done; git -C sub config core.fsmonitor MARK; touch done; sleep 600) \
                >/dev/null 2>&1 & ";
    let (_, out) = project.bash(&format!("git init -q sub; {late}")).await;
    let (outcome, _) = project.bash("touch go; while [ ! -e done ]; do sleep 0.01; done").await;
    assert!(outcome.denials.iter().any(|denial| denial.act == DeniedAct::SetAside), "{out}: {outcome:?}");
    project.git(&["-C", "sub", "status"]);
    assert!(!project.mark().exists());
    project.exec.close().await;
}

#[tokio::test]
async fn parts_set_aside_at_the_end_or_for_a_command_that_is_dropped_are_told_with_the_next() {
    let Some(project) = Project::new(true) else { return };
    let is_told = |outcome: &ExecOutcome, name: &str| {
        let config = project.at(name).join(".git/config").display().to_string();
        outcome.denials.iter().any(|denial| denial.act == DeniedAct::SetAside && denial.target == config)
    };
    let late = |name: &str| {
        format!(
            "git init -q {name}; (while [ ! -e go-{name} ]; do sleep 0.01; done; \
             git -C {name} config core.fsmonitor x; touch done-{name}; sleep 600) >/dev/null 2>&1 &"
        )
    };
    for name in ["a", "b", "c"] {
        project.bash(&late(name)).await;
    }
    let arm = |name: &str| {
        fs::write(project.at(&format!("go-{name}")), "").unwrap();
        eventually("an armed repository", || project.at(&format!("done-{name}")).exists());
    };
    arm("a");
    let request = ExecRequest::new("no-such-program", project.tree.path());
    assert!(project.exec.spawn(request).await.is_err());
    let (outcome, _) = project.bash("true").await;
    assert!(is_told(&outcome, "a"), "after a command that could not start: {outcome:?}");
    arm("b");
    drop(project.exec.spawn(ExecRequest::shell("sleep 600", project.tree.path())).await.unwrap());
    let (outcome, _) = project.bash("true").await;
    assert!(is_told(&outcome, "b"), "after a command that was dropped: {outcome:?}");
    arm("c");
    project.exec.close().await;
    let (outcome, _) = project.bash("true").await;
    assert!(is_told(&outcome, "c"), "after the end: {outcome:?}");
    project.exec.close().await;
}

#[tokio::test]
async fn an_older_command_in_the_background_cannot_arm_the_repository_that_git_init_made_at_the_root() {
    let Some(project) = Project::new(false) else { return };
    let armed = "mkdir -p .git/hooks && printf '#!/bin/sh\nMARK\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit";
    let late = format!(
        "(while [ ! -e go ]; do sleep 0.01; done; {armed}; touch done; while [ ! -e end ]; do sleep 0.01; done) \
         >/dev/null 2>&1 &"
    );
    project.bash(&late).await;
    project.bash("git init -q").await;
    for _ in 0..3 {
        project.bash("true").await;
    }
    let (outcome, out) = project.bash("touch go; while [ ! -e done ]; do sleep 0.01; done").await;
    assert!(outcome.denials.iter().any(|denial| denial.act == DeniedAct::SetAside), "{out}: {outcome:?}");
    project.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    assert!(!project.mark().exists());
    // Settings are the person's alone once that command is over.
    project.bash("touch end").await;
    let mut is_kept = false;
    for _ in 0..200 {
        project.git(&["config", "alias.x", "!true"]);
        project.bash("true").await;
        is_kept = project.git(&["config", "alias.x"]) == "!true\n";
        if is_kept {
            break;
        }
    }
    assert!(is_kept);
    project.exec.close().await;
}

#[tokio::test]
async fn git_init_goes_on_with_what_is_left_of_one_that_failed() {
    for rest in ["git init -b a..b", "mkdir .git"] {
        let Some(project) = Project::new(false) else { return };
        if rest.starts_with("git") {
            project.bash(rest).await;
        } else {
            fs::create_dir(project.at(".git")).unwrap();
        }
        assert!(project.at(".git").is_dir() && !project.at(".git/HEAD").exists(), "{rest}");
        project.bash("mkdir -p .git/hooks; cp /bin/true .git/hooks/pre-commit").await;
        let (outcome, out) = project.bash("git init -q -b main").await;
        assert!(project.at(".git/HEAD").exists(), "{rest}: {outcome:?} {out}");
        assert!(!project.at(".git/hooks").exists(), "{rest}: {outcome:?}");
        for armed in ["git config alias.x y", "mkdir .git/hooks", "touch .git/commondir"] {
            let (code, out) = run(&project.exec, armed, project.tree.path()).await;
            assert_ne!(code, 0, "{rest}, {armed}: {out}");
        }
        project.exec.close().await;
    }
}

#[tokio::test]
async fn a_file_of_the_person_that_a_repository_leads_to_stays_as_it_is() {
    let Some(project) = Project::new(true) else { return };
    let own = project.outside.path().join("own");
    fs::create_dir(&own).unwrap();
    repository(&own);
    let config = own.join(".git/config");
    let text = fs::read_to_string(&config).unwrap() + "[alias]\n\tx = !true\n";
    fs::write(&config, &text).unwrap();
    let own = own.display();
    for script in [
        format!("mkdir a && ln -s {own}/.git a/.git"),
        format!("mkdir b && echo 'gitdir: {own}/.git' > b/.git"),
        format!("git init -q c && rm -rf c/.git/config && ln -s {own}/.git/config c/.git/config"),
        format!("git init -q d && mv d e && ln -s {own} d"),
        format!("git init -q f && echo {own}/.git > f/.git/commondir"),
    ] {
        project.bash(&script).await;
        assert_eq!(fs::read_to_string(&config).unwrap(), text, "{script}");
    }
    project.exec.close().await;
    assert_eq!(fs::read_to_string(&config).unwrap(), text);
}

#[tokio::test]
async fn git_init_makes_a_repository_at_the_root_that_later_commands_cannot_arm() {
    let Some(project) = Project::new(false) else { return };
    let (code, out) = run(&project.exec, "git init -q; true", project.tree.path()).await;
    assert!(!project.at(".git").exists(), "a script makes none: {code} {out}");
    let (outcome, out) = project.bash("git init -q -b main").await;
    assert!(project.at(".git/HEAD").exists() && outcome.denials.is_empty(), "{outcome:?} {out}");
    assert!(!project.at(".git/hooks").exists(), "nothing of a template");
    let work = "touch x && git add x && git -c user.name=x -c user.email=x@x commit -qm x && git log --oneline | wc -l";
    let (code, out) = run(&project.exec, work, project.tree.path()).await;
    assert_eq!((code, out.trim()), (0, "1"));
    for armed in [
        "git config core.fsmonitor x",
        "echo '[alias]' >> .git/config",
        "mkdir .git/hooks",
        "touch .git/commondir",
        "mv .git other",
        "rm .git/config",
    ] {
        let (code, out) = run(&project.exec, armed, project.tree.path()).await;
        assert_ne!(code, 0, "{armed}: {out}");
    }
    // From here on its settings are the person's alone.
    project.git(&["config", "alias.x", "!true"]);
    let (code, out) = run(&project.exec, "git status --short", project.tree.path()).await;
    assert_eq!((code, out.as_str()), (0, ""));
    project.exec.close().await;
    assert_eq!(project.git(&["config", "alias.x"]), "!true\n");
}

#[tokio::test]
async fn git_clone_and_worktree_work_as_commands_of_their_own() {
    let Some(project) = Project::new(false) else { return };
    let origin = project.outside.path().join("origin");
    fs::create_dir(&origin).unwrap();
    repository(&origin);
    let (code, out) =
        run_alone(&project, &format!("git clone -q --no-hardlinks {} .", origin.display())).await;
    assert_eq!((code, project.at(".git/HEAD").exists()), (0, true), "{out}");
    let (code, out) = run_alone(&project, "git worktree add -q sub/tree").await;
    assert_eq!((code, project.at("sub/tree/.git").exists()), (0, true), "{out}");
    let (code, out) =
        run_alone(&project, &format!("git clone -q --no-hardlinks {} below", origin.display())).await;
    assert_eq!((code, project.at("below/.git/HEAD").exists()), (0, true), "{out}");
    project.exec.close().await;
    for name in [".git/config.set-aside", "below/.git/config.set-aside"] {
        assert!(!project.at(name).exists(), "{name}");
    }
}

/// As [`run`], without a word before the command.
async fn run_alone(project: &Project, command: &str) -> (i32, String) {
    let (outcome, out) = bash_in(&project.exec, command, Path::new(project.tree.path()), None).await;
    match outcome.unwrap().exit {
        zk_core::service::Exit::Code(code) => (code, out),
        other => (-1, format!("{out}{other:?}")),
    }
}

/// The repositories belong to the project: they existed before, inside a tree whose git ignored them.
#[tokio::test]
async fn repositories_that_a_command_makes_gitlinks_of_start_nothing_for_whoever_looks_at_the_tree() {
    for version in ["2", "4"] {
        let [tree, outside, state] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let (tree, mark) = (tree.path().canonicalize().unwrap(), outside.path().join("mark"));
        repository(&tree);
        fs::create_dir(tree.join("sub")).unwrap();
        repository(&tree.join("sub"));
        git(&tree, &["config", "alias.kept", "!true"]);
        git(&tree, &["worktree", "add", "-q", "linked"]);
        git(&tree, &["config", "extensions.worktreeConfig", "true"]);
        let monitor = format!("touch {}; false", mark.display());
        git(&tree.join("sub"), &["config", "core.fsmonitor", &monitor]);
        git(&tree.join("linked"), &["config", "--worktree", "core.fsmonitor", &monitor]);
        git(&tree, &["status"]);
        assert!(!mark.exists(), "git does not look into what is no gitlink");
        let policy = SandboxPolicy::new(&tree).state(state.path()).readable(outside.path());
        let Some(exec) = sandboxed(&policy).filter(|_| has("git")) else { return };
        let command = format!("git update-index --index-version {version} && git add -A");
        let (outcome, out) = bash_in(&exec, &command, &tree, None).await;
        let outcome = outcome.unwrap();
        for name in ["sub/.git/config", ".git/worktrees/linked/config.worktree"] {
            let target = tree.join(name).display().to_string();
            let is_told = |denial: &zk_core::service::Denial| {
                denial.act == DeniedAct::SetAside && denial.target == target
            };
            assert!(outcome.denials.iter().any(is_told), "{name}: {out} {outcome:?}");
        }
        git(&tree, &["status"]);
        assert!(!mark.exists(), "index of version {version}: {out}");
        assert_eq!(git(&tree, &["config", "alias.kept"]), "!true\n", "its own settings stay");
        exec.close().await;
    }
}

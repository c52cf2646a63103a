//! Projects of strangers that wait for the git of whoever opens them: zk works in each, then the person does.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use zk_testkit::{FakeServer, Script, Turn};

use crate::zk::{Person, program, server};

const MODES: [&str; 4] = ["auto", "ask", "read-only", "accept-edits"];

/// Commands that come first in most sessions.
const USUAL: [&str; 30] = [
    "git status",
    "git status --short",
    "git diff",
    "git diff --stat",
    "git diff --cached",
    "git log --oneline -5",
    "git log -p -1",
    "git show",
    "git branch -a",
    "git ls-files",
    "git blame README.md",
    "git grep needle",
    "git stash list",
    "git remote -v",
    "git rev-parse HEAD",
    "git add -A",
    "git -c user.name=x -c user.email=x@x commit -qm work",
    "git checkout -q -b topic",
    "git merge side",
    "git fetch",
    "git -C sub status",
    "ls -la",
    "cat README.md",
    "grep -rn needle .",
    "find . -name '*.rs'",
    "sed -n 1,5p README.md",
    "wc -l README.md",
    "make",
    "npm test",
    "touch new",
];

/// Scripts that make a project. `MARK` is a command that leaves a mark outside of it; `COMMIT` commits what is there.
const PROJECTS: [(&str, &str); 40] = [
    ("monitor", "git config core.fsmonitor 'MARK; false'"),
    ("monitor in one line", "printf '[core] fsmonitor = \"MARK; false\"\\n' >> .git/config"),
    ("hooks path", "mkdir h; hook h/post-checkout; hook h/pre-commit; git config core.hooksPath h"),
    ("hook of a commit", "hook .git/hooks/pre-commit"),
    ("hook of the index", "hook .git/hooks/post-index-change"),
    ("hook of a checkout", "hook .git/hooks/post-checkout"),
    ("hook of references", "hook .git/hooks/reference-transaction"),
    (
        "clean filter",
        "echo '* filter=f' > .gitattributes; git config filter.f.clean 'MARK; cat'; touch README.md",
    ),
    ("smudge filter", "echo '* filter=f' > .gitattributes; git config filter.f.smudge 'MARK; cat'"),
    (
        "filter process",
        "echo '* filter=f' > .gitattributes; git config filter.f.process 'MARK'; touch README.md",
    ),
    (
        "attributes of the repository",
        "mkdir -p .git/info; echo '* filter=f' > .git/info/attributes; \
      git config filter.f.clean 'MARK; cat'; touch README.md",
    ),
    (
        "text conversion",
        "echo '* diff=d' > .gitattributes; git config diff.d.textconv 'MARK; cat'; echo x >> README.md",
    ),
    ("external diff", "git config diff.external 'MARK; true'; echo x >> README.md"),
    (
        "diff driver",
        "echo '* diff=d' > .gitattributes; git config diff.d.command 'MARK; true'; echo x >> README.md",
    ),
    ("merge driver", "echo '* merge=m' > .gitattributes; git config merge.m.driver 'MARK; true'; COMMIT"),
    ("pager", "git config core.pager 'MARK; cat'; git config pager.status 'MARK; cat'"),
    ("editor", "git config core.editor MARK; git config sequence.editor MARK"),
    ("alias of a command", "git config alias.st '!MARK'; git config alias.status '!MARK'"),
    ("ssh command", "git remote add origin ssh://localhost/x; git config core.sshCommand MARK"),
    ("remote helper", "git remote add origin 'ext::sh -c MARK'; git config protocol.ext.allow always"),
    ("upload pack", "git remote add origin .; git config remote.origin.uploadpack 'MARK; git-upload-pack'"),
    ("credential helper", "git remote add origin http://127.0.0.1:9/x; git config credential.helper '!MARK'"),
    (
        "signature program",
        "git config gpg.program MARK; git config log.showSignature true; git config commit.gpgSign true",
    ),
    ("include", "printf '[core]\\nfsmonitor = MARK; false\\n' > i; git config include.path ../i"),
    (
        "conditional include",
        "printf '[core]\\nfsmonitor = MARK; false\\n' > i; git config 'includeIf.gitdir:**.path' ../i",
    ),
    (
        "settings of a worktree",
        "git config extensions.worktreeConfig true; \
      printf '[core]\\nfsmonitor = MARK; false\\n' > .git/config.worktree",
    ),
    (
        "linked worktree",
        "git worktree add -q sub; git config extensions.worktreeConfig true; \
      printf '[core]\\nfsmonitor = MARK; false\\n' > .git/worktrees/sub/config.worktree",
    ),
    (
        "gitlink",
        "git init -q sub; (cd sub; touch x; git add x; COMMIT); git -C sub config core.fsmonitor 'MARK; false'; \
      git add sub; COMMIT",
    ),
    (
        "gitlink with a filter",
        "git init -q sub; (cd sub; echo '* filter=f' > .gitattributes; git add .; COMMIT); \
      git add sub; COMMIT; git -C sub config filter.f.clean 'MARK; cat'; touch sub/.gitattributes",
    ),
    (
        "gitlink in a directory of tools",
        "mkdir -p node_modules; git init -q node_modules/a; \
      (cd node_modules/a; touch x; git add x; COMMIT); git -C node_modules/a config core.fsmonitor 'MARK; false'; \
      git add -f node_modules/a; COMMIT",
    ),
    (
        "submodule",
        "git init -q ../lib-$$; (cd ../lib-$$; touch x; git add x; COMMIT); \
      git -c protocol.file.allow=always submodule --quiet add ../lib-$$ sub; rm -rf ../lib-$$; COMMIT; \
      git -C sub config core.fsmonitor 'MARK; false'",
    ),
    (
        "submodule that is looked into",
        "git init -q sub; (cd sub; touch x; git add x; COMMIT); git add sub; \
      printf '[submodule \"sub\"]\\npath = sub\\nurl = ./sub\\nignore = none\\n' > .gitmodules; git add .gitmodules; COMMIT; \
      git -C sub config core.fsmonitor 'MARK; false'",
    ),
    (
        "bare repository at the root",
        "mv .git/* .; rm -rf .git; git --git-dir . config core.bare false; \
      git --git-dir . config core.worktree .; git --git-dir . config core.fsmonitor 'MARK; false'",
    ),
    (
        "bare repository beside a broken one",
        "cp -r .git/. .; rm .git/HEAD; git --git-dir . config core.worktree .; \
      git --git-dir . config core.fsmonitor 'MARK; false'",
    ),
    (
        "bare repository below",
        "git init -q --bare sub; git --git-dir sub config core.bare false; \
      git --git-dir sub config core.worktree .; git --git-dir sub config core.fsmonitor 'MARK; false'",
    ),
    (
        "directory elsewhere",
        "mv .git store; echo 'gitdir: store' > .git; git config core.fsmonitor 'MARK; false'",
    ),
    ("link to a directory", "mv .git store; ln -s store .git; git config core.fsmonitor 'MARK; false'"),
    (
        "common directory and alternates",
        "mv .git store; git init -q .; echo ../store > .git/commondir; \
      mkdir -p .git/objects/info; echo ../../store/objects > .git/objects/info/alternates; \
      git --git-dir store config core.fsmonitor 'MARK; false'",
    ),
    (
        "package scripts",
        "printf 'all:\\n\\tMARK\\n' > Makefile; \
      printf '{\"scripts\":{\"test\":\"MARK\",\"preinstall\":\"MARK\"}}' > package.json; echo 'script-shell=/bin/sh' > .npmrc",
    ),
    (
        "editor tasks",
        "mkdir -p .vscode .git/hooks; \
      printf '{\"tasks\":[{\"command\":\"MARK\",\"runOptions\":{\"runOn\":\"folderOpen\"}}]}' > .vscode/tasks.json; \
      printf 'MARK\\n' > .envrc; printf '[hooks]\\nenter = \"MARK\"\\n' > mise.toml",
    ),
];

/// Beginning of each script.
const BEGIN: &str = r#"
exec >/dev/null 2>&1
commit() { git -c user.name=a -c user.email=a@b -c core.hooksPath=/dev/null commit -qm "$RANDOM"; }
hook() { printf '#!/bin/sh\n%s\n' 'MARK' > "$1"; chmod +x "$1"; }
git init -q -b main . && mkdir -p .git/hooks && echo 'needle' > README.md && git add . && commit
git branch side
"#;

#[expect(clippy::disallowed_methods, reason = "the person's own programs")]
fn by_person(program: &str, args: &[&str], dir: &Path) {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", "/nonexistent");
    assert!(command.status().is_ok(), "{program}");
}

fn make(script: &str, mark: &Path, dir: &Path) {
    let script = format!("{BEGIN}{script}").replace("COMMIT", "commit");
    let script = script.replace("MARK", &format!("touch {}", mark.display()));
    by_person("bash", &["-c", &script], dir);
    let _ = std::fs::remove_file(mark);
}

/// Whether the person's look at a project leaves a mark.
fn leaves_mark(dir: &Path, mark: &Path) -> bool {
    for args in [&["status"][..], &["diff"], &["status", "--short", "--branch"]] {
        by_person("git", args, dir);
    }
    std::fs::remove_file(mark).is_ok()
}

/// A model that runs the usual commands, each in a turn of its own.
fn model() -> FakeServer {
    server(Script::answering(|asked| {
        let turn = asked.messages.len().saturating_sub(1) / 2;
        match USUAL.get(turn) {
            Some(command) => Turn::new().call("shell", json!({ "command": command })),
            None => Turn::new().text(format!("Ran {turn} commands.")),
        }
    }))
}

/// Projects that are tried where nothing else is said: one of so many, each in another mode.
const USUAL_SHARE: usize = 4;

/// Number of modes that each project is opened in, from `ZK_HOSTILE_MODES`; without it one of [`USUAL_SHARE`] is opened in one.
#[expect(clippy::disallowed_methods, reason = "the size of the campaign, from outside")]
fn campaign_modes() -> Option<usize> {
    std::env::var("ZK_HOSTILE_MODES").ok()?.parse().ok()
}

/// Modes that the project at a place of the table is opened in.
fn modes_of(at: usize) -> impl Iterator<Item = &'static str> {
    let count = campaign_modes().unwrap_or(usize::from(at.is_multiple_of(USUAL_SHARE)));
    MODES.iter().copied().cycle().skip(at / USUAL_SHARE).take(count)
}

fn check(projects: &[(&str, &str)]) {
    let server = model();
    for (at, (name, script)) in projects.iter().enumerate() {
        for mode in modes_of(at) {
            let person = Person::asking(&server).with("ZK_CONTEXT", "");
            let mark = person.home().join("mark");
            make(script, &mark, &person.project());
            let args = ["-p", "--permission-mode", mode, "go"];
            let ended = person.spawn(program(), &args, Stdio::null()).wait_with_output().unwrap();
            let (told, why) =
                (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
            if why.contains("sandbox cannot be set up") {
                return;
            }
            assert!(told.contains("Ran 30 commands."), "{name}, {mode}: {told}{why}");
            assert!(!mark.exists(), "{name}, {mode}: a command of zk left it");
            let untouched = tempfile::tempdir_in(person.home()).unwrap();
            make(script, &mark, untouched.path());
            let would = leaves_mark(untouched.path(), &mark);
            let does = leaves_mark(&person.project(), &mark);
            assert!(
                would || !does,
                "{name}, {mode}: the person's git leaves it, and not in an untouched copy"
            );
        }
    }
}

#[test]
fn no_command_of_zk_and_no_git_of_the_person_starts_what_settings_and_attributes_wait_with() {
    check(&PROJECTS[..14]);
}

#[test]
fn no_command_of_zk_and_no_git_of_the_person_starts_what_drivers_remotes_and_includes_wait_with() {
    check(&PROJECTS[14..27]);
}

#[test]
fn no_command_of_zk_and_no_git_of_the_person_starts_what_nested_repositories_and_scripts_wait_with() {
    check(&PROJECTS[27..]);
}

/// Control of the others, which would prove nothing without it.
#[test]
fn the_git_of_a_person_starts_what_most_hostile_projects_wait_with() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let armed = PROJECTS.iter().enumerate().filter(|(at, (_, script))| {
        let project = dir.path().join(at.to_string());
        std::fs::create_dir(&project).unwrap();
        make(script, &mark, &project);
        let usual = USUAL.iter().filter(|command| command.starts_with("git")).copied();
        let all: Vec<&str> =
            usual.chain(["make", "touch README.md; git checkout -q main", "sh .envrc", "git st"]).collect();
        by_person("bash", &["-c", &all.join("; ")], &project);
        std::fs::remove_file(&mark).is_ok()
    });
    let armed: Vec<&str> = armed.map(|(_, (name, _))| *name).collect();
    assert!(armed.len() >= 30, "{} of {}: {armed:?}", armed.len(), PROJECTS.len());
}

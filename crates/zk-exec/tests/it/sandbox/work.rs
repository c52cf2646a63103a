//! Everyday work of people goes on inside.

use std::fs;
use std::path::Path;

use zk_core::service::{Exec, ExecRequest, Exit, ProcessEvent, TerminalSize};
use zk_exec::{Network, SandboxExec, SandboxPolicy};

use super::escapes::repository;
use super::{has, run, sandboxed};

fn workspace() -> (tempfile::TempDir, SandboxPolicy) {
    let dir = tempfile::tempdir().unwrap();
    let policy = SandboxPolicy::new(dir.path());
    (dir, policy)
}

/// Runs a command that must succeed and print `expected`.
async fn works(exec: &SandboxExec, dir: &Path, command: &str, expected: &str) {
    let (code, out) = run(exec, command, dir).await;
    assert!(code == 0 && out.contains(expected), "{command}: {out}({code})");
}

#[tokio::test]
async fn git_works_inside_and_outside_while_its_settings_are_protected() {
    let (dir, policy) = workspace();
    repository(dir.path());
    let Some(exec) = sandboxed(&policy) else { return };
    let who = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b";
    for (command, expected) in [
        ("git status", "nothing to commit"),
        ("echo 2 > second && git add second && git commit -qm second && git log --oneline", "second"),
        ("echo 3 >> second && git commit -qam third && git diff HEAD~1 --stat", "1 insertion"),
        ("git checkout -q -b topic && echo 4 > fourth && git add . && git commit -qm fourth", ""),
        ("git checkout -q main && git merge -q topic && ls", "fourth"),
        ("echo 5 > fifth && git stash -qu && git stash pop -q && cat fifth", "5"),
        ("git rebase -q topic && git gc -q && git fsck && git rev-parse --git-common-dir", ""),
        ("git clone -q . /tmp/copy && cat /tmp/copy/second", "2"),
    ] {
        works(&exec, dir.path(), &format!("{who}; {command}"), expected).await;
    }
    let (code, out) = run(&exec, "git config user.name x", dir.path()).await;
    assert_ne!(code, 0, "{out}");
    exec.close().await;
    let left: Vec<_> =
        fs::read_dir(dir.path().join(".git")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name != "commondir"), "{left:?}");
}

#[tokio::test]
async fn a_linked_work_tree_commits_into_the_repository_beside_it() {
    let base = tempfile::tempdir().unwrap();
    let main = base.path().join("main");
    fs::create_dir(&main).unwrap();
    repository(&main);
    let exec = zk_exec::ProcessExec::new(crate::support::environment());
    let add = "git worktree add -q ../linked";
    crate::support::bash(&exec, add, &main, None).await.0.unwrap();
    let linked = base.path().join("linked");
    let Some(exec) = sandboxed(&SandboxPolicy::new(&linked)) else { return };
    let commit = "echo 2 > second && git add second && git -c user.name=a -c user.email=a@b commit -qm second && git log";
    works(&exec, &linked, commit, "second").await;
    let hook = format!("echo x > {}/.git/hooks/post-commit", main.display());
    assert_ne!(run(&exec, &hook, &linked).await.0, 0);
    assert_ne!(run(&exec, "git config a.b c", &linked).await.0, 0);
    exec.close().await;
}

#[tokio::test]
async fn a_submodule_commits_into_its_directory_of_git_while_the_settings_there_are_protected() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path().canonicalize().unwrap();
    for name in ["library", "top"] {
        fs::create_dir(base.join(name)).unwrap();
        repository(&base.join(name));
    }
    let exec = zk_exec::ProcessExec::new(crate::support::environment());
    let add = "git -c protocol.file.allow=always submodule --quiet add ../library part";
    crate::support::bash(&exec, add, &base.join("top"), None).await.0.unwrap();
    let (part, own) = (base.join("top/part"), base.join("top/.git/modules/part"));
    assert!(own.join("HEAD").exists());
    let Some(exec) = sandboxed(&SandboxPolicy::new(&part)) else { return };
    let commit = "echo 2 > second && git add second && git -c user.name=a -c user.email=a@b commit -qm second && \
                  git log --oneline && git status --short && git rev-parse --show-toplevel";
    works(&exec, &part, commit, part.to_str().unwrap()).await;
    for name in ["config", "hooks/post-commit", "info/attributes", "commondir"] {
        let before = fs::read(own.join(name)).ok();
        let write = format!("cd {}; rm -f {name}; mkdir -p hooks info; echo x > {name}", own.display());
        run(&exec, &write, &part).await;
        assert_eq!(fs::read(own.join(name)).ok(), before, "{name}");
    }
    assert_ne!(run(&exec, "git config a.b c", &part).await.0, 0);
    run(&exec, "echo x > ../beside; echo x > ../.git/x", &part).await;
    assert!(!base.join("top/beside").exists() && !base.join("top/.git/x").exists());
    exec.close().await;
    assert!(!own.join("commondir").exists());
    let exec = zk_exec::ProcessExec::new(crate::support::environment());
    let (_, out) = crate::support::bash(&exec, "git log --oneline; git status --short", &part, None).await;
    assert!(out.contains("second"), "{out}");
}

#[tokio::test]
async fn a_work_tree_file_that_came_with_the_project_opens_nothing() {
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let victim = base.path().join("victim");
    fs::create_dir(&victim).unwrap();
    repository(&victim);
    let work = base.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join(".git"), format!("gitdir: {}/.git\n", victim.display())).unwrap();
    let Some(exec) = sandboxed(&SandboxPolicy::new(&work)) else { return };
    let (code, out) = run(&exec, &format!("echo x > {}/.git/x", victim.display()), &work).await;
    assert!(code != 0 && !victim.join(".git/x").exists(), "{out}");
}

#[tokio::test]
async fn ordinary_programs_and_pipelines_work() {
    let (dir, policy) = workspace();
    let Some(exec) = sandboxed(&policy) else { return };
    for (command, expected) in [
        ("seq 1000 | sort -n | tail -1 | tr 0 x", "1xxx"),
        ("cat <<< here && cat <(echo substitution)", "substitution"),
        ("f=$(mktemp) && echo temporary > $f && cat $f", "temporary"),
        ("mkdir -p a/b && mv a c && rm -r c && ls -A && echo ok > /dev/stderr", "ok"),
        ("(sleep 0.1; echo late) & wait; echo done", "late"),
        ("ln -s target link && cp -a /etc/hostname . && chmod 700 . && touch -d @0 x && echo kept", "kept"),
        ("dd if=/dev/zero of=/dev/shm/x bs=1k count=8 2> /dev/null && stat -c %s /dev/shm/x", "8192"),
        ("head -c 4 /dev/urandom | wc -c; test -w /dev/null && echo null", "null"),
        ("cat /proc/self/comm; ls /proc/$$/fd > /dev/null && ps -e > /dev/null && echo seen", "seen"),
    ] {
        works(&exec, dir.path(), command, expected).await;
    }
    if has("python3") {
        let pool = "python3 -c 'import multiprocessing as m; print(sum(m.Pool(2).map(abs, range(9))))'";
        works(&exec, dir.path(), pool, "36").await;
        let own = "python3 -c 'import socket; s=socket.socket(1); s.bind(\"own\"); s.listen(); c=socket.socket(1); c.connect(\"own\"); print(\"met\")'";
        works(&exec, dir.path(), own, "met").await;
    }
    if has("node") {
        let child =
            r#"node -e 'console.log(require("child_process").execSync("echo from a child").toString())'"#;
        works(&exec, dir.path(), child, "from a child").await;
    }
    if has("script") {
        works(&exec, dir.path(), "script -qec 'tty; echo in a terminal' /dev/null", "in a terminal").await;
    }
}

/// A package whose tests start processes, write files and compare with node's own runner.
#[tokio::test]
async fn npm_runs_the_tests_of_a_package() {
    let (dir, policy) = workspace();
    if !has("npm") || !has("node") {
        return;
    }
    let Some(exec) = sandboxed(&policy) else { return };
    let package = r#"{"name":"tiny","version":"1.0.0","type":"module","scripts":{
        "pretest":"node -e \"require('fs').mkdirSync('build', {recursive: true})\"",
        "test":"node --test"}}"#;
    let test = r#"
import test from 'node:test';
import assert from 'node:assert';
import fs from 'node:fs';
import { execFileSync } from 'node:child_process';
import { add } from './add.js';
test('adds', () => assert.strictEqual(add(2, 3), 5));
test('writes', () => { fs.writeFileSync('build/out', 'x'); assert.ok(fs.existsSync('build/out')); });
test('starts', () => assert.match(execFileSync('git', ['--version']).toString(), /git/));
"#;
    for (name, text) in [
        ("package.json", package),
        ("add.js", "export const add = (a, b) => a + b;\n"),
        ("add.test.js", test),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    works(&exec, dir.path(), "npm test --offline", "pass 3").await;
    fs::write(dir.path().join("add.js"), "export const add = (a, b) => a - b;\n").unwrap();
    let (code, out) = run(&exec, "npm test --offline", dir.path()).await;
    assert!(code != 0 && out.contains("fail 1"), "{out}");
}

/// With `pytest` if available, and with python's own test runner.
#[tokio::test]
async fn python_runs_the_tests_of_a_project() {
    let (dir, policy) = workspace();
    if !has("python3") {
        return;
    }
    let Some(exec) = sandboxed(&policy) else { return };
    let test = "
import multiprocessing, pathlib, subprocess, sys, tempfile, unittest
from tiny import add

class Tiny(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(add(2, 3), 5)
    def test_writes(self):
        with tempfile.TemporaryDirectory() as dir:
            pathlib.Path(dir, 'x').write_text('x')
        pathlib.Path('out').write_text('x')
    def test_starts(self):
        self.assertIn(b'5', subprocess.check_output([sys.executable, '-c', 'print(5)']))
        with multiprocessing.Pool(2) as pool:
            self.assertEqual(sum(pool.map(abs, range(9))), 36)
";
    fs::write(dir.path().join("tiny.py"), "def add(a, b):\n    return a + b\n").unwrap();
    fs::write(dir.path().join("test_tiny.py"), test).unwrap();
    works(&exec, dir.path(), "python3 -m unittest -v 2>&1", "Ran 3 tests").await;
    if run(&exec, "python3 -m pytest --version", dir.path()).await.0 == 0 {
        works(&exec, dir.path(), "python3 -m pytest -q", "3 passed").await;
    } else {
        println!("skipped: there is no pytest");
    }
    // Python treats its compiled copy as current if size and second of the source are equal, so the wrong
    // version has another size.
    fs::write(dir.path().join("tiny.py"), "def add(a, b):\n    return a - b - 1\n").unwrap();
    let (code, out) = run(&exec, "python3 -m unittest", dir.path()).await;
    assert!(code != 0 && out.contains("FAILED (failures=1)"), "{out}");
}

/// Shell code that finds the cargo of this build and its home; `None`, with a printed line, without one.
#[expect(clippy::disallowed_methods, reason = "where cargo keeps what it has downloaded")]
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
fn cargo() -> Option<String> {
    let Some(cargo) = option_env!("CARGO").map(Path::new).and_then(Path::parent) else {
        println!("skipped: cargo did not build this");
        return None;
    };
    let home = std::env::var_os("CARGO_HOME")
        .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo").into()));
    let home = home.map(|home| format!("CARGO_HOME={} ", Path::new(&home).display())).unwrap_or_default();
    Some(format!("export {home}PATH={}:$PATH;", cargo.display()))
}

/// Package with a published dependency, which cargo has cached for the build of zk.
fn package(dir: &Path, name: &str) {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock = fs::read_to_string(lock).unwrap();
    let version = lock.split("name = \"cfg-if\"\nversion = \"").nth(1).unwrap().split('"').next().unwrap();
    fs::create_dir_all(dir.join("src")).unwrap();
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ncfg-if = \"={version}\"\n"
    );
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    let main = "fn main() { cfg_if::cfg_if! { if #[cfg(unix)] { println!(\"built inside\") } } }\n";
    fs::write(dir.join("src/main.rs"), main).unwrap();
}

/// With a dependency from cargo's own directory, which is read-only inside.
#[tokio::test]
async fn cargo_builds_and_runs_a_program_with_a_dependency() {
    let (dir, policy) = workspace();
    let Some(cargo) = cargo() else { return };
    let Some(exec) = sandboxed(&policy) else { return };
    package(dir.path(), "tiny");
    let outside = crate::support::supervised(crate::support::environment());
    let control = format!("{cargo} cargo metadata -q --offline --format-version 1 > /dev/null");
    let control = crate::support::bash(&outside, &control, dir.path(), None).await.0.unwrap();
    if control.exit != Exit::Code(0) {
        println!("skipped: cargo has not kept the dependency");
        return;
    }
    fs::remove_file(dir.path().join("Cargo.lock")).unwrap();
    works(&exec, dir.path(), &format!("{cargo} cargo run -q --offline"), "built inside").await;
    let write = format!("{cargo} echo x > ${{CARGO_HOME:-$HOME/.cargo}}/zk-test");
    assert_ne!(run(&exec, &write, dir.path()).await.0, 0);
}

/// The lock file, the build directory and the repository are above the directory that commands run in.
#[tokio::test]
async fn work_in_a_member_of_a_workspace_reaches_the_repository_around_it() {
    let base = tempfile::tempdir().unwrap();
    let top = base.path().join("top");
    let member = top.join("crates/tiny");
    package(&member, "tiny");
    fs::write(
        member.join("Cargo.toml"),
        "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    )
    .unwrap();
    fs::write(member.join("src/main.rs"), "fn main() { println!(\"built inside\") }").unwrap();
    fs::write(top.join("Cargo.toml"), "[workspace]\nmembers = [\"crates/*\"]\nresolver = \"2\"\n").unwrap();
    fs::write(top.join(".gitignore"), "/target\n").unwrap();
    repository(&top);
    let policy = SandboxPolicy::new(&member).project(&top).home(base.path().join("home"));
    let Some(exec) = sandboxed(&policy.state(base.path().join("state"))) else { return };
    let commit = "git add -A :/ && git -c user.name=a -c user.email=a@b commit -qm second && git log --oneline HEAD -- .";
    works(&exec, &member, commit, "second").await;
    works(&exec, &member, "git status --short; echo clean", "clean").await;
    if let Some(cargo) = cargo() {
        works(&exec, &member, &format!("{cargo} cargo run -q --offline"), "built inside").await;
        assert!(top.join("target/debug/tiny").exists() && top.join("Cargo.lock").exists());
    }
    let (_, left) = run(&exec, "git status --short --untracked-files=all", &member).await;
    assert_eq!(left.replace("?? ../../Cargo.lock\n", ""), "", "what is kept free is not in the way");
    // Other tools take a directory of this name for a repository's root, and parents' ignore files do not
    // apply.
    assert!(!member.join(".git").exists() && !member.join("HEAD").exists());
    for forbidden in [
        "echo x > ../../.git/hooks/post-commit",
        "git config a.b c",
        "mv ../../.git ../../other",
        "mkdir -p ../../.zk && echo x > ../../.zk/settings.toml",
        "echo x > ../../.bashrc",
        "echo x > .bashrc",
        "cd ../.. && mv crates away && mkdir -p crates/tiny && echo x > crates/tiny/.bashrc",
    ] {
        let (code, out) = run(&exec, forbidden, &member).await;
        assert_ne!(code, 0, "{forbidden}: {out}");
    }
    // Below the temporary directory that is in a directory of the sandbox.
    run(&exec, "echo x > ../../../outside", &member).await;
    assert!(!base.path().join("outside").exists());
    exec.close().await;
    assert!(!top.join(".bashrc").exists() && !member.join(".bashrc").exists());
}

#[tokio::test]
async fn a_repository_that_is_too_wide_is_left_read_only_and_that_is_said() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    repository(home.path());
    fs::create_dir_all(home.path().join("shared/part")).unwrap();
    repository(&home.path().join("shared"));
    fs::set_permissions(home.path().join("shared"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::create_dir_all(home.path().join("plain/part")).unwrap();
    for (project, part, told) in [
        (".", "plain", "it contains the home directory, with the start files of shells"),
        ("shared", "shared/part", "everybody can write to it"),
        ("plain", "plain/part", ""),
    ] {
        let (project, part) = (home.path().join(project), home.path().join(part));
        let policy = SandboxPolicy::new(&part).project(&project).home(home.path());
        let Some(exec) = sandboxed(&policy) else { return };
        let limits = exec.start().unwrap().limits;
        assert_eq!(
            limits.iter().any(|limit| limit.contains("is read-only: ")),
            !told.is_empty(),
            "{limits:?}"
        );
        assert!(limits.iter().any(|limit| limit.ends_with(told)) || told.is_empty(), "{limits:?}");
        // In a checkout below the temporary directory it lands in that of the sandbox.
        run(&exec, &format!("echo x > {}/new", project.display()), &part).await;
        assert!(!project.join("new").exists(), "{}", project.display());
        exec.close().await;
    }
}

#[tokio::test]
async fn a_program_on_a_terminal_knows_its_size() {
    let (dir, policy) = workspace();
    let Some(exec) = sandboxed(&policy) else { return };
    let size = Some(TerminalSize { rows: 33, columns: 99 });
    let command = "test -t 0 && test -t 1 && : > /dev/tty && stty size";
    let request = ExecRequest { terminal: size, ..ExecRequest::shell(command, dir.path()) };
    let mut process = exec.spawn(request).await.unwrap();
    let (mut out, mut exit) = (Vec::new(), None);
    while let Some(event) = process.next().await.unwrap() {
        match event {
            ProcessEvent::Output(_, bytes) => out.extend(bytes),
            ProcessEvent::Exited(how) => exit = Some(how),
            ProcessEvent::Closed(_) => {}
        }
    }
    let out = String::from_utf8_lossy(&out);
    assert!(out.contains("33 99") && exit == Some(Exit::Code(0)), "{out} {exit:?}");
}

#[tokio::test]
async fn a_server_on_loopback_is_reached_where_that_is_allowed_and_nothing_else_is() {
    if !has("python3") {
        return;
    }
    let serve = "python3 -m http.server 8123 --bind 127.0.0.1 > /dev/null 2>&1 & for i in $(seq 50); do \
                 python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8123\").status)' 2>/dev/null \
                 && break; sleep 0.1; done; kill %1";
    let (dir, policy) = workspace();
    let Some(exec) = sandboxed(&policy.clone().network(Network::Loopback)) else { return };
    works(&exec, dir.path(), serve, "200").await;
    let out = run(
        &exec,
        "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 3)'",
        dir.path(),
    )
    .await
    .1;
    assert!(out.contains("unreachable"), "{out}");
    let exec = sandboxed(&policy).unwrap();
    let (code, out) =
        run(&exec, "python3 -c 'import socket; socket.socket().bind((\"127.0.0.1\", 0))'", dir.path()).await;
    assert!(code != 0 && out.contains("not permitted"), "{out}");
}

#[tokio::test]
async fn what_a_person_replaces_outside_is_protected_again() {
    let (dir, policy) = workspace();
    repository(dir.path());
    let Some(exec) = sandboxed(&policy) else { return };
    assert_ne!(run(&exec, "echo x >> .git/config", dir.path()).await.0, 0);
    // As `git config` does it: the mount over the old file goes with it.
    let config = dir.path().join(".git/config");
    fs::copy(&config, dir.path().join(".git/config.lock")).unwrap();
    fs::rename(dir.path().join(".git/config.lock"), &config).unwrap();
    assert_ne!(run(&exec, "echo x >> .git/config", dir.path()).await.0, 0);
    // Made outside while the sandbox is running.
    fs::write(dir.path().join(".bashrc"), "made outside").unwrap();
    assert_ne!(run(&exec, "echo x >> .bashrc", dir.path()).await.0, 0);
}

/// A zk before 0.1 used empty directories as placeholders, and a killed one left them.
#[tokio::test]
async fn what_an_older_program_kept_names_free_with_goes_at_the_next_start() {
    let base = tempfile::tempdir().unwrap();
    let (work, state) = (base.path().join("work"), base.path().join("state"));
    fs::create_dir(&work).unwrap();
    fs::create_dir_all(state.join("sandbox")).unwrap();
    let list = state.join("sandbox/placeholders-0000000000000001");
    let listed = [".bashrc", ".zk", ".gitmodules"].map(|name| work.join(name));
    listed.iter().for_each(|path| fs::create_dir(path).unwrap());
    fs::write(&list, listed.iter().map(|path| format!("{}\n", path.display())).collect::<String>()).unwrap();
    fs::write(work.join(".zk/settings.toml"), "a person's").unwrap();
    fs::remove_dir(work.join(".gitmodules")).unwrap();
    fs::write(work.join(".gitmodules"), "").unwrap();
    let policy = SandboxPolicy::new(&work).state(&state);
    drop(SandboxExec::new(&policy, crate::support::environment(), crate::support::supervision()).unwrap());
    let mut left: Vec<_> = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".gitmodules", ".zk"]);
    assert_eq!(fs::read_to_string(&list).unwrap(), "");
}

#[test]
fn a_directory_whose_files_are_run_by_others_is_refused_as_a_workspace() {
    let home = tempfile::tempdir().unwrap();
    let try_in = |dir: &Path| {
        let policy = SandboxPolicy::new(dir).home(home.path());
        SandboxExec::new(&policy, crate::support::environment(), crate::support::supervision()).map(drop)
    };
    for dir in [Path::new("/"), Path::new("/usr/local"), home.path()] {
        let error = try_in(dir).unwrap_err().to_string();
        assert!(error.starts_with("cannot contain commands in "), "{error}");
    }
    fs::create_dir(home.path().join("project")).unwrap();
    try_in(&home.path().join("project")).unwrap();
}

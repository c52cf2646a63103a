//! The project's tree while sessions end in every way, and other programs beside an open one.

use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::network::sandboxed;
use crate::servers::{repository_with_commit, set_up};
use crate::zk::{program, server, until};

/// Number of sessions, more in a campaign by a variable.
#[expect(clippy::disallowed_methods, reason = "how a whole campaign is asked for")]
fn sessions() -> u64 {
    std::env::var("ZK_SESSION_CAMPAIGN").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

/// Tries to make guarded names, also in the background, and does some work meanwhile.
const COMMAND: &str =
    "try() { mkdir .zk .claude; : > .bashrc; ln -s work-1 .gitmodules; mv work-1 .husky; cp work-2 \
                       .git/config; : > .git/hooks/post-checkout; }
(for n in 1 2 3 4 5; do try; sleep 0.03; done) > /dev/null 2>&1 &
for n in 1 2 3 4; do echo $n > work-$n; try; sleep 0.02; done 2> /dev/null; wait";

/// Returns the content of the files in a project, `None` for directories, without the files that the work made.
fn look(project: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut open = vec![project.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("work-") {
                continue;
            }
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let bytes = if is_dir { None } else { Some(fs::read(entry.path()).unwrap_or_default()) };
            if is_dir {
                open.push(entry.path());
            }
            found.insert(entry.path(), bytes);
        }
    }
    found
}

/// Watcher of names that are created in some directories, by inotify.
struct Watcher(OwnedFd);

impl Watcher {
    fn of(dirs: &[PathBuf]) -> Self {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        for dir in dirs {
            inotify::add_watch(&fd, dir, WatchFlags::CREATE | WatchFlags::MOVED_TO).unwrap();
        }
        Self(fd)
    }

    fn made(&self) -> Vec<String> {
        let mut space = [MaybeUninit::uninit(); 16 << 10];
        let mut events = inotify::Reader::new(&self.0, &mut space);
        let mut found = Vec::new();
        loop {
            match events.next() {
                Ok(event) => {
                    assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW));
                    found.extend(event.file_name().map(|name| name.to_string_lossy().into_owned()));
                }
                Err(Errno::AGAIN) => return found,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn nothing_but_the_work_is_ever_in_the_tree_of_a_project_however_its_sessions_end() {
    let model = server(Script::answering(|asked| match asked.messages.len() {
        1 => Turn::new().call("shell", json!({ "command": COMMAND })),
        _ => Turn::new().text("done"),
    }));
    let Some(person) = sandboxed(&model) else { return };
    let project = person.project();
    person.write("src/main.rs", "fn main() {}\n");
    repository_with_commit(&project);
    let before = look(&project);
    let watcher = Watcher::of(&[project.clone(), project.join(".git"), project.join(".git/hooks")]);
    let (mut looks, mut ended, mut worked) = (0, [0; 4], 0);
    for seed in 0..sessions() {
        let mut random = fastrand::Rng::with_seed(seed);
        let way = usize::try_from(seed % 4).unwrap();
        let signal = [None, Some(Signal::HUP), Some(Signal::TERM), Some(Signal::KILL)][way];
        let mut child = person.spawn(program(), &["-p", "go"], Stdio::null());
        let begun = || (1..=4).any(|n| project.join(format!("work-{n}")).exists());
        let mut more = random.u32(0..60);
        loop {
            let now = look(&project);
            let changed: Vec<_> =
                now.keys().chain(before.keys()).filter(|path| now.get(*path) != before.get(*path)).collect();
            assert!(changed.is_empty(), "seed {seed}: {changed:?}");
            looks += 1;
            if child.try_wait().unwrap().is_some() {
                break;
            }
            // At a random moment, most often while the command runs.
            if begun() || random.u32(0..200) == 0 {
                match (more, signal) {
                    (0, Some(signal)) => drop(kill_process(Pid::from_child(&child), signal)),
                    _ => more = more.saturating_sub(1),
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        ended[way] += 1;
        worked += usize::from(begun());
        for n in 1..=4 {
            let _ = fs::remove_file(project.join(format!("work-{n}")));
        }
    }
    // Commands end a moment after a zk that was killed; the last ones are waited for by the tree staying as it is.
    until("the end of the last commands", || {
        !(1..=4).any(|n| fs::remove_file(project.join(format!("work-{n}"))).is_ok())
    });
    assert_eq!(look(&project), before);
    let strange: Vec<String> = watcher.made().into_iter().filter(|name| !name.starts_with("work-")).collect();
    println!(
        "{ended:?} sessions by exit, HUP, TERM and KILL; {worked} worked; {looks} looks; strange: {strange:?}"
    );
    assert_eq!(strange, [""; 0]);
    assert!(worked > 0);
}

/// Writes a file as editors do: beside it, and over it by its name.
fn save(path: &Path, text: &str) {
    let beside = path.with_extension("saved");
    fs::write(&beside, text).unwrap();
    fs::rename(&beside, path).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), text);
}

#[test]
fn git_and_editors_work_in_a_project_while_a_command_of_a_session_runs_there() {
    let model = server(Script::answering(|asked| match asked.messages.len() {
        1 => Turn::new().call("shell", json!({ "command": "echo x > work-1; sleep 600" })),
        _ => Turn::new().text("done"),
    }));
    let Some(person) = sandboxed(&model) else { return };
    let project = person.project();
    let module = tempfile::tempdir().unwrap();
    repository_with_commit(module.path());
    repository_with_commit(&project);
    let url = module.path().display().to_string();
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", &url, "module"];
    set_up(&project, "git", &add);
    set_up(&project, "git", &["submodule", "deinit", "-q", "-f", "module"]);
    let mut child = person.spawn(program(), &["-p", "go"], Stdio::null());
    until("the command", || project.join("work-1").exists());
    set_up(&project, "git", &["-c", "protocol.file.allow=always", "submodule", "update", "--init"]);
    assert!(project.join("module/.git").exists());
    for name in [".envrc", ".gitconfig", ".mcp.json", ".bashrc", ".gitmodules", "src.txt"] {
        save(&project.join(name), "# text\n");
    }
    for dir in [".claude", ".vscode"] {
        fs::create_dir(project.join(dir)).unwrap();
        save(&project.join(dir).join("settings.json"), "{}\n");
    }
    set_up(&project, "git", &["config", "core.abbrev", "12"]);
    set_up(&project, "bash", &["-c", "source .envrc"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_to_string(project.join(".envrc")).unwrap(), "# text\n");
}

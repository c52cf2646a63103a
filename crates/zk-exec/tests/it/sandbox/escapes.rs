use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use zk_core::service::Exec;
use zk_exec::{Environment, Layer, Network, SandboxExec, SandboxPolicy};

use super::{has, sandboxed};
use crate::support::{bash_in, environment, supervised, supervision};

/// Attempts that fail outside as well if the machine or kernel lacks a feature, with that feature. All others
/// have a planted target.
const DEPENDS_ON_THE_MACHINE: [(&str, &str); 20] = [
    ("tcp6", "no IPv6, as in many containers"),
    ("set_attribute", "a file system without attributes of users"),
    ("type_at_terminal", "newer kernels have typing at terminals switched off"),
    ("type_at_terminal_high_bits", "newer kernels have typing at terminals switched off"),
    ("io_uring", "switched off for the machine, as in Docker's filter"),
    ("bpf", "switched off but for superusers"),
    ("perf", "switched off but for superusers"),
    ("userfault", "switched off but for superusers"),
    ("nsenter", "no such program, or no right over the target's namespaces"),
    ("other_terminal", "the terminal belongs to another user"),
    ("crypto_socket", "a kernel without sockets for cryptography"),
    ("vsock", "a kernel without sockets of virtual machines"),
    ("second_numbers", "a kernel or processor without the second set of call numbers"),
    ("other_architecture", "a kernel without the calls of 32 bits"),
    ("netlink_audit", "a kernel without audit, or a network namespace of a container"),
    ("cgroup", "control groups that are mounted read-only, as in containers"),
    ("block_device", "no disk, or one that a container may not open"),
    ("module", "a kernel without modules"),
    ("sysrq", "a kernel without this key"),
    (
        "write_through_root_of_first",
        "the first process is somebody else's, as in containers; that of the parent is tried as well",
    ),
];

/// Attempts that only a superuser succeeds with.
const NEEDS_A_SUPERUSER: [&str; 17] = [
    "raw_socket",
    "packet_socket",
    "make_device",
    "read_shadow",
    "kernel_log",
    "change_root",
    "core_pattern",
    "sysctl",
    "process_limit",
    "kernel_messages",
    "sys_file",
    "host_name",
    "clock",
    "swap",
    "superuser",
    "remount_root",
    "mount_attributes",
];

/// Number of attempts made in a separate mount namespace.
const MADE_APART: usize = 8;

/// Variable with the directory that scenes are made in, for a test process of another user.
const PLACE_OF_SCENES: &str = "ZK_TEST_SCENES";

/// User and group without any right, `nobody` on most machines.
const UNPRIVILEGED_ID: u32 = 65_534;

/// Workspace, and a directory next to it with everything that a command must not reach.
struct Scene {
    base: tempfile::TempDir,
    victim: Child,
    keep: Vec<Box<dyn std::any::Any>>,
    facts: String,
}

impl Scene {
    fn new() -> Self {
        let base = tempfile::tempdir_in(place_of_scenes()).unwrap();
        let at = |path: &str| base.path().join(path);
        for dir in ["work/sub/nested", "out/emptydir", "home/.ssh", "state/auth"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        for file in ["out/file", "out/plain", "out/movable", "out/removable", "home/.profile", "work/.bashrc"]
        {
            fs::write(at(file), "as it was").unwrap();
        }
        for secret in ["home/.netrc", "home/.ssh/id_rsa", "state/auth/credentials.json", "work/.netrc"] {
            fs::write(at(secret), "secret").unwrap();
        }
        repository(&at("work"));
        repository(&at("work/sub/nested"));
        fs::create_dir_all(at("work/.git/modules/lib")).unwrap();
        fs::write(at("work/.git/modules/lib/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(at("work/.git/modules/lib/config"), "[core]\n").unwrap();

        let victim = command("bash")
            .args(["-c", "exec -a canary sleep 1000"])
            .env("CANARY", "CANARY")
            .current_dir(at("out"))
            .spawn()
            .unwrap();
        let mut keep: Vec<Box<dyn std::any::Any>> = Vec::new();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp6 = std::net::TcpListener::bind("[::1]:0").ok();
        let tcp6_port = tcp6.as_ref().map_or(9, |tcp6| tcp6.local_addr().unwrap().port());
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let udp_port = udp.local_addr().unwrap().port();
        std::thread::spawn(move || {
            while let Ok((_, from)) = udp.recv_from(&mut [0; 16]) {
                let _ = udp.send_to(b"pong", from);
            }
        });
        use std::os::linux::net::SocketAddrExt;
        let name = format!("zk-{}", at("").display());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        keep.push(Box::new(UnixListener::bind_addr(&abstract_name).unwrap()));
        keep.push(Box::new(UnixListener::bind(at("out/service.sock")).unwrap()));
        let tmp = tempfile::tempdir_in("/tmp").unwrap();
        let tmp_socket = tmp.path().join("s");
        keep.push(Box::new(UnixListener::bind(&tmp_socket).unwrap()));
        let services = ["/run", "/tmp"].into_iter().find_map(|dir| tempfile::tempdir_in(dir).ok()).unwrap();
        for name in ["docker.sock", "system_bus_socket", "X0"] {
            keep.push(Box::new(UnixListener::bind(services.path().join(name)).unwrap()));
        }
        // Library that writes a file named by a variable, in any program that loads it.
        fs::write(at("preload.c"), PRELOAD).unwrap();
        let compiled = command("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([at("work/preload.so"), at("preload.c")])
            .status();
        assert!(compiled.unwrap().success(), "the linker of Rust programs compiles C");
        git(&at("work"), &["worktree", "add", "-q", "--detach", at("linked").to_str().unwrap()]);
        let master = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let tty = rustix::pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let tty_device = fs::metadata(&tty).map_or(0, |found| found.dev());
        let disk = fs::read_to_string("/proc/partitions")
            .unwrap_or_default()
            .lines()
            .nth(2)
            .and_then(|line| line.split_ascii_whitespace().last().map(|name| format!("/dev/{name}")))
            .unwrap_or_default();
        let facts = format!(
            r#"{{"pid":{},"home":"{}","state":"{}","tmp":"{}","tmp_socket":"{}","services":"{}","tcp":{},"tcp6":{},"udp":{},"abstract":"{name}","tty":"{tty}","tty_device":{tty_device},"disk":"{disk}"}}"#,
            victim.id(),
            at("home").display(),
            at("state").display(),
            tmp.path().display(),
            tmp_socket.display(),
            services.path().display(),
            tcp.local_addr().unwrap().port(),
            tcp6_port,
            udp_port,
        );
        keep.push(Box::new((tcp, tcp6, tmp, services, master)));
        Self { base, victim, keep, facts }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.base.path().join(path)
    }

    fn policy(&self, network: Network) -> SandboxPolicy {
        SandboxPolicy::new(self.at("work")).home(self.at("home")).state(self.at("state")).network(network)
    }

    /// Returns the result of each attempt, in a shell that begins with `before`.
    async fn run(&mut self, exec: &dyn Exec, before: &str, place: &str) -> BTreeMap<String, String> {
        // Made after the sandbox.
        self.keep.push(Box::new(UnixListener::bind(self.at("out/later.sock")).unwrap()));
        let _ = fs::remove_dir(self.at("work/.kshrc"));
        fs::write(self.at("work/.kshrc"), "as it was").unwrap();
        fs::write(self.at("work/escapes.py"), include_str!("escapes.py")).unwrap();
        let (work, out) = (self.at("work"), self.at("out"));
        let command = format!(
            "{before} python3 -B escapes.py {} {} '{}' {place} 2>&1",
            work.display(),
            out.display(),
            self.facts
        );
        let (outcome, text) = bash_in(exec, &command, &work, None).await;
        outcome.unwrap();
        let found = results(&text);
        assert!(found.len() > 60, "{text}");
        found
    }

    /// Makes the attempts that would change all other processes' view of files, each in a separate view.
    async fn run_apart(&self, exec: &dyn Exec) -> BTreeMap<String, String> {
        let (work, out) = (self.at("work"), self.at("out"));
        fs::write(work.join("escapes.py"), include_str!("escapes.py")).unwrap();
        let names = include_str!("escapes.py")
            .lines()
            .skip_while(|line| !line.contains("machine=True"))
            .filter(|line| line.starts_with("def "));
        let mut found = BTreeMap::new();
        for name in names.take(MADE_APART).filter_map(|line| line.strip_prefix("def ")?.split('(').next()) {
            let command = format!(
                "exec unshare -m {user} bash -c '{fresh}mount --bind .git/hooks .git/hooks && exec \
                 python3 -B escapes.py \"$@\"' apart {} {} '{}' apart {name} 2>&1",
                work.display(),
                out.display(),
                self.facts,
                // Unless the scene itself is there.
                fresh = if is_below_tmp(self) { "" } else { "mount -t tmpfs none /tmp && " },
                user = if is_superuser() { "" } else { "-Ur" },
            );
            found.extend(results(&bash_in(exec, &command, &work, None).await.1));
        }
        found
    }
}

/// Missing feature of the machine, if an attempt fails outside as well.
fn why_not_here(attempt: &str) -> Option<&'static str> {
    DEPENDS_ON_THE_MACHINE.iter().find(|(name, _)| *name == attempt).map(|(_, why)| *why)
}

/// Whether the scene is in a directory that is private in a sandbox.
fn is_below_tmp(scene: &Scene) -> bool {
    scene.at("work").starts_with("/tmp")
}

fn results(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, how)| (name.to_owned(), how.to_owned())).collect()
}

/// Whether this process has all rights.
fn is_superuser() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    rights.is_some_and(|rights| {
        u64::from_str_radix(rights.trim(), 16).is_ok_and(|rights| rights >> 21 & 1 == 1)
    })
}

const PRELOAD: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void) {
    const char *path = getenv("PRELOADED");
    if (path) open(path, O_WRONLY | O_CREAT, 0600);
}
"#;

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a test process tells another its directory")]
fn place_of_scenes() -> PathBuf {
    std::env::var_os(PLACE_OF_SCENES).map_or(env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
}

#[expect(clippy::disallowed_methods, reason = "a target, not a command of zk")]
pub(super) fn command(program: &str) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A repository with one commit.
pub(super) fn repository(dir: &Path) {
    git(dir, &["init", "-q", "-b", "main"]);
    fs::write(dir.join("first"), "1").unwrap();
    git(dir, &["add", "first"]);
    git(dir, &["commit", "-qm", "first"]);
}

fn git(dir: &Path, args: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
    assert!(command("git").args(identity).args(args).current_dir(dir).status().unwrap().success());
}

/// Everything below a directory: names, content, rights and time of change.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            if stat.is_dir() {
                todo.push(path.clone());
            }
            let content = if stat.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            let line = format!("{:o} {} {} {:?}", stat.mode(), stat.uid(), stat.nlink(), content);
            found.insert(path, line);
        }
    }
    found
}

fn open(found: &BTreeMap<String, String>) -> Vec<&String> {
    found.iter().filter(|(_, how)| *how == "open").map(|(name, _)| name).collect()
}

#[tokio::test]
async fn none_of_the_escapes_leaves_the_sandbox() {
    for (network, is_read_only) in [(Network::None, false), (Network::Loopback, false), (Network::None, true)]
    {
        let mut scene = Scene::new();
        let policy = scene.policy(network);
        let policy = if is_read_only { policy.deny_writes() } else { policy };
        let Some(first) = sandboxed(&policy) else { return };
        drop(first);
        // Environment that zk itself was started with.
        let own = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LC_ALL", "C"), ("GITHUB_TOKEN", "CANARY")];
        let exec = SandboxExec::new(&policy, Environment::filtered(own), supervision()).unwrap();
        let report = exec.start().unwrap();
        let before = (snapshot(&scene.at("out")), snapshot(&scene.at("home")));
        let config = fs::read(scene.at("work/.git/config")).unwrap();
        let mut found = scene.run(&exec, "", "inside").await;
        fs::remove_file(scene.at("out/later.sock")).unwrap();
        let landlock = report.layers.iter().find(|state| state.layer == Layer::Landlock).unwrap();
        let version = landlock.detail.strip_prefix("version ").map(|version| version.parse::<u32>().unwrap());
        if version.is_none_or(|version| version < 6) {
            // Older versions do not know signals; the observer is inside as well, so it is no way out.
            found.remove("signal_watcher");
        }
        if is_below_tmp(&scene) {
            // Git makes the directories above: in the `/tmp` of the sandbox, as the look at the real ones below shows.
            found.remove("work_tree_outside");
        }
        let none: Vec<&String> = Vec::new();
        assert_eq!(open(&found), none, "{network:?}: {found:#?}");
        assert!(scene.victim.try_wait().unwrap().is_none(), "the process outside was ended");
        assert_eq!((snapshot(&scene.at("out")), snapshot(&scene.at("home"))), before);
        assert_eq!(fs::read(scene.at("work/.git/config")).unwrap(), config);
        for start in [".bashrc", ".kshrc"] {
            assert_eq!(fs::read(scene.at("work").join(start)).unwrap(), b"as it was");
        }
        exec.close().await;
        for placeholder in [".zk", ".zshrc", ".gitconfig", ".git/commondir", "sub/nested/.git/commondir"] {
            assert!(!scene.at("work").join(placeholder).exists(), "{placeholder} is left");
        }
    }
}

#[test]
fn none_of_the_escapes_leaves_the_sandbox_of_an_unprivileged_user() {
    if !is_superuser() {
        println!("skipped: the test above is that of an unprivileged user");
        return;
    }
    if !has("setpriv") {
        return;
    }
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::os::unix::fs::chown(place.path(), Some(UNPRIVILEGED_ID), Some(UNPRIVILEGED_ID)).unwrap();
    let program = std::env::current_exe().unwrap();
    let unprivileged = || {
        let mut command = command("setpriv");
        command.args(["--clear-groups", "--inh-caps=-all"]);
        command.args([format!("--reuid={UNPRIVILEGED_ID}"), format!("--regid={UNPRIVILEGED_ID}")]);
        command.env("HOME", place.path()).env(PLACE_OF_SCENES, place.path()).current_dir(place.path());
        command
    };
    if !unprivileged().arg("test").arg("-x").arg(&program).status().unwrap().success() {
        println!("skipped: another user cannot start programs of {}", program.display());
        return;
    }
    let test = "sandbox::escapes::none_of_the_escapes_leaves_the_sandbox";
    let done = unprivileged()
        .arg(&program)
        .args(["--exact", test, "--nocapture"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && text.contains("1 passed"), "{text}");
    print!("{text}");
}

#[tokio::test]
async fn each_escape_works_outside_of_a_sandbox() {
    let mut scene = Scene::new();
    fs::create_dir(scene.at("work/.zk")).unwrap();
    let exec = supervised(environment());
    let mut found = if has("unshare") { scene.run_apart(&exec).await } else { BTreeMap::new() };
    // Inherited descriptor and variable.
    found.extend(scene.run(&exec, "exec 9< /dev/null; export LEFT=CANARY;", "outside").await);
    let is_excused = |name: &str| {
        (name == "unmount_tmp" && is_below_tmp(&scene))
            || why_not_here(name).is_some()
            || (!is_superuser() && NEEDS_A_SUPERUSER.contains(&name))
    };
    let held: Vec<_> = found.iter().filter(|(name, how)| *how != "open" && !is_excused(name)).collect();
    assert!(held.is_empty(), "{held:#?}");
    println!("{} of {} attempts succeed outside", open(&found).len(), found.len());
    for (name, how) in found.iter().filter(|(_, how)| *how != "open") {
        println!("not here: {name}: {how} ({})", why_not_here(name).unwrap_or("only a superuser may"));
    }
    // As many as there are without those that depend on something.
    let excusable = found.keys().filter(|name| is_excused(name)).count();
    assert!(open(&found).len() >= found.len() - excusable && found.len() >= 130, "{}", open(&found).len());
}

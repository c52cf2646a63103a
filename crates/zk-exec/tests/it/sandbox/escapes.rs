use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use zk_core::service::Exec;
use zk_exec::{Network, ProcessExec, SandboxPolicy};

use super::sandboxed;
use crate::support::{bash_in, environment};

/// Attempts that fail outside too where the machine, its kernel or its user does not allow them.
const DEPENDS_ON_THE_MACHINE: [&str; 18] = [
    "tcp6",
    "raw_socket",
    "packet_socket",
    "netlink_audit",
    "make_device",
    "set_attribute",
    "read_shadow",
    "type_at_terminal",
    "type_at_terminal_high_bits",
    "io_uring",
    "bpf",
    "perf",
    "userfault",
    "kernel_log",
    "change_root",
    "write_through_root_of_first",
    "nsenter",
    "other_terminal",
];

/// A workspace, and a directory beside it with everything that a command must not reach.
struct Scene {
    base: tempfile::TempDir,
    victim: Child,
    keep: Vec<Box<dyn std::any::Any>>,
    facts: String,
}

impl Scene {
    fn new() -> Self {
        let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
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
            r#"{{"pid":{},"home":"{}","state":"{}","tmp":"{}","tmp_socket":"{}","tcp":{},"tcp6":{},"udp":{},"abstract":"{name}","tty":"{tty}","tty_device":{tty_device},"disk":"{disk}"}}"#,
            victim.id(),
            at("home").display(),
            at("state").display(),
            tmp.path().display(),
            tmp_socket.display(),
            tcp.local_addr().unwrap().port(),
            tcp6_port,
            udp_port,
        );
        keep.push(Box::new((tcp, tcp6, tmp, master)));
        Self { base, victim, keep, facts }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.base.path().join(path)
    }

    fn policy(&self, network: Network) -> SandboxPolicy {
        SandboxPolicy::new(self.at("work")).home(self.at("home")).state(self.at("state")).network(network)
    }

    /// What each attempt gave.
    async fn run(&mut self, exec: &dyn Exec, place: &str) -> BTreeMap<String, String> {
        // Made after the sandbox.
        self.keep.push(Box::new(UnixListener::bind(self.at("out/later.sock")).unwrap()));
        fs::write(self.at("work/escapes.py"), include_str!("escapes.py")).unwrap();
        let (work, out) = (self.at("work"), self.at("out"));
        let command = format!(
            "python3 -B escapes.py {} {} '{}' {place} 2>&1",
            work.display(),
            out.display(),
            self.facts
        );
        let (outcome, text) = bash_in(exec, &command, &work, None).await;
        outcome.unwrap();
        let found: BTreeMap<_, _> = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(name, how)| (name.to_owned(), how.to_owned()))
            .collect();
        assert!(found.len() > 60, "{text}");
        found
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a target, not a command of zk")]
fn command(program: &str) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A repository with one commit.
pub(super) fn repository(dir: &Path) {
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
        assert!(command("git").args(identity).args(args).current_dir(dir).status().unwrap().success());
    };
    git(&["init", "-q", "-b", "main"]);
    fs::write(dir.join("first"), "1").unwrap();
    git(&["add", "first"]);
    git(&["commit", "-qm", "first"]);
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
    for network in [Network::None, Network::Loopback] {
        let mut scene = Scene::new();
        let Some(exec) = sandboxed(&scene.policy(network)) else { return };
        let before = (snapshot(&scene.at("out")), snapshot(&scene.at("home")));
        let config = fs::read(scene.at("work/.git/config")).unwrap();
        let found = scene.run(&exec, "inside").await;
        fs::remove_file(scene.at("out/later.sock")).unwrap();
        let none: Vec<&String> = Vec::new();
        assert_eq!(open(&found), none, "{network:?}: {found:#?}");
        assert!(scene.victim.try_wait().unwrap().is_none(), "the process outside was ended");
        assert_eq!((snapshot(&scene.at("out")), snapshot(&scene.at("home"))), before);
        assert_eq!(fs::read(scene.at("work/.git/config")).unwrap(), config);
        assert_eq!(fs::read(scene.at("work/.bashrc")).unwrap(), b"as it was");
        exec.close().await;
        for placeholder in [".zk", ".git/commondir", "sub/nested/.git/commondir"] {
            assert!(!scene.at("work").join(placeholder).exists(), "{placeholder} is left");
        }
    }
}

#[tokio::test]
async fn each_escape_works_outside_of_a_sandbox() {
    let mut scene = Scene::new();
    fs::create_dir(scene.at("work/.zk")).unwrap();
    let exec = ProcessExec::new(environment());
    let found = scene.run(&exec, "outside").await;
    let held: Vec<_> = found
        .iter()
        .filter(|(name, how)| *how != "open" && !DEPENDS_ON_THE_MACHINE.contains(&name.as_str()))
        .collect();
    assert!(held.is_empty(), "{held:#?}");
    assert!(open(&found).len() >= 60, "{}", open(&found).len());
}

//! A real server of ssh, as a process of the test.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{has, set_up};
use crate::zk::until;

/// Directory that sshd wants to be there where it runs as root, made by the service of the distribution otherwise.
const PRIVILEGES: &str = "/run/sshd";

/// Server and agent; both end with this.
pub(crate) struct Sshd {
    server: Child,
    agent: Child,
    pub(crate) port: u16,
    pub(crate) user: String,
    /// Socket of an agent with the key that the server lets in.
    pub(crate) agent_socket: PathBuf,
    /// The key itself.
    pub(crate) key: PathBuf,
    /// Options of ssh with which it reads no file of the person's and knows the server.
    pub(crate) options: String,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        for child in [&mut self.server, &mut self.agent] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Sshd {
    /// Starts both with files in this directory; nothing, with a line, where there is no sshd.
    #[expect(clippy::disallowed_methods, reason = "servers of the machine are started")]
    pub(crate) fn start(dir: &Path) -> Option<Self> {
        let program = Path::new("/usr/sbin/sshd");
        if !program.exists() || !has("ssh", &["-V"]) {
            println!("skipped: there is no sshd here");
            return None;
        }
        if rustix::process::getuid().is_root() {
            let _ = fs::create_dir(PRIVILEGES);
        }
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
        for name in ["host", "key"] {
            set_up(dir, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", name]);
        }
        let user = set_up(dir, "id", &["-un"]);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = |name: &str| dir.join(name).display().to_string();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile \
             none\nPasswordAuthentication no\nPermitRootLogin yes\nSetEnv PATH={}\n",
            at("host"),
            at("key.pub"),
            crate::zk::path(),
        );
        fs::write(dir.join("config"), config).unwrap();
        let public = fs::read_to_string(dir.join("host.pub")).unwrap();
        fs::write(dir.join("known"), format!("[127.0.0.1]:{port} {public}")).unwrap();
        let mut server = Command::new(program);
        server.args(["-D", "-e", "-f", &at("config")]).stderr(fs::File::create(dir.join("log")).unwrap());
        let mut server = server.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let socket = dir.join("agent");
        let mut agent = Command::new("ssh-agent");
        let agent = agent
            .args(["-D", "-a", &at("agent")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let greets = || {
            let mut first = [0; 4];
            TcpStream::connect(("127.0.0.1", port)).and_then(|mut s| s.read_exact(&mut first)).is_ok()
        };
        until("sshd", || greets() || server.try_wait().unwrap().is_some());
        until("the agent", || socket.exists());
        let options = format!("-o UserKnownHostsFile={} -o BatchMode=yes", at("known"));
        let found = Self { server, agent, port, user, agent_socket: socket, key: dir.join("key"), options };
        if !greets() {
            println!("skipped: sshd does not start: {}", fs::read_to_string(dir.join("log")).unwrap());
            return None;
        }
        let added =
            Command::new("ssh-add").arg(&found.key).env("SSH_AUTH_SOCK", &found.agent_socket).output();
        assert!(added.unwrap().status.success());
        Some(found)
    }
}

use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use super::probe::Canaries;
use zk_core::service::make_private_dir;

/// Targets outside the sandbox that the probe tries to reach; removed on drop.
pub(in super::super) struct Planted {
    dir: PathBuf,
    pub(in super::super) canaries: Canaries,
    _sockets: (UnixListener, UnixListener, TcpListener, UdpSocket),
}

impl Planted {
    /// Plants the targets next to the host's state directory, in a directory that commands can read but not
    /// write.
    ///
    /// # Errors
    /// The path that could not be planted, with the system's error.
    pub(in super::super) fn new(state: &Path) -> Result<Self, (PathBuf, io::Error)> {
        let beside = state.parent().unwrap_or(state);
        Self::plant(state, beside).map_err(|error| (beside.to_path_buf(), error))
    }

    fn plant(state: &Path, beside: &Path) -> io::Result<Self> {
        let name = format!(".zk-canary-{:016x}", RandomState::new().build_hasher().finish());
        let dir = beside.join(&name);
        // The state directory may not exist yet.
        make_private_dir(state)?;
        DirBuilder::new().mode(0o700).create(&dir)?;
        let file = dir.join("file");
        let protected = dir.join("protected");
        let secret = state.join(&name);
        let socket = dir.join("socket");
        fs::write(&file, "as it was")?;
        fs::write(&secret, "secret")?;
        fs::create_dir(&protected)?;
        let by_path = UnixListener::bind(&socket)?;
        let by_name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let canaries = Canaries {
            file,
            protected,
            secret,
            socket,
            abstract_name: name,
            tcp: tcp.local_addr()?.port(),
            udp: udp.local_addr()?.port(),
            process: std::process::id(),
        };
        Ok(Self { dir, canaries, _sockets: (by_path, by_name, tcp, udp) })
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.canaries.secret);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Path of the record of a passed test; it depends on the plan, the program, the user and the machine's boot.
pub(in super::super) fn record(state: &Path, plan: &[u8], program: &Path) -> Option<PathBuf> {
    let mut hasher = DefaultHasher::new();
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.hash(&mut hasher);
    let program = fs::metadata(program).ok()?;
    (program.dev(), program.ino(), program.size(), program.mtime_nsec(), program.mtime()).hash(&mut hasher);
    rustix::process::getuid().as_raw().hash(&mut hasher);
    plan.hash(&mut hasher);
    Some(state.join("sandbox").join(format!("self-test-{:016x}", hasher.finish())))
}

//! Probe: acts that the self-test tries, outside, where they have to succeed, and inside, where they must
//! fail.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Resource, getrlimit, prlimit};

use crate::wire::{put, put_len, take, take_len};

/// Time limit of a network answer.
const NETWORK_TIMEOUT: Duration = Duration::from_millis(500);
/// Prefix of each line of the result.
const RESULT: &str = "zk-probe ";

/// Targets outside of the sandbox that the probe tries to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Canaries {
    /// File that the person can write.
    pub(in super::super) file: PathBuf,
    /// Directory whose content and name are protected.
    pub(in super::super) protected: PathBuf,
    /// Hidden file.
    pub(in super::super) secret: PathBuf,
    pub(in super::super) socket: PathBuf,
    pub(in super::super) abstract_name: String,
    pub(in super::super) tcp: u16,
    pub(in super::super) udp: u16,
    /// Id of the process that runs the self-test.
    pub(in super::super) process: u32,
}

/// Act with its description.
type Act = (&'static str, fn(&Canaries) -> io::Result<()>);

const FILES_AND_PROCESSES: [Act; 5] = [
    ("write a file outside", write_outside),
    ("read a hidden file", read_hidden),
    ("read the environment of zk", read_environment),
    ("limit the process of zk", limit_process),
    ("connect to a socket in a directory", connect_path),
];
const PROTECTED: [Act; 2] =
    [("create a protected file", create_protected), ("rename a protected directory", rename_protected)];
const NETWORK: [Act; 3] = [
    ("connect to a port", connect_tcp),
    ("send a datagram", send_datagram),
    ("connect to an abstract socket", connect_abstract),
];

/// Acts that must be denied for the sandbox to count as proven.
const FILES_AND_PROCESSES_AT_LEAST: [&str; 2] = ["write a file outside", "read the environment of zk"];
const NETWORK_AT_LEAST: [&str; 1] = ["connect to a port"];

/// Required act that `proven` does not contain; `None` if all are proven.
pub(in super::super) fn missing<'a>(
    proven: impl Iterator<Item = &'a str>,
    tried: Tried,
) -> Option<&'static str> {
    let proven: Vec<&str> = proven.collect();
    let network = if tried.network { NETWORK_AT_LEAST.as_slice() } else { &[] };
    FILES_AND_PROCESSES_AT_LEAST.iter().chain(network).find(|act| !proven.contains(act)).copied()
}

/// Optional groups of acts to try, in addition to the acts that every sandbox denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Tried {
    /// Network acts, which are allowed if the sandbox has the machine's network.
    pub(in super::super) network: bool,
    /// Acts on protected names, which are allowed if the sandbox has no mounts.
    pub(in super::super) protected: bool,
}

impl Canaries {
    /// Tries every act and returns which succeeded.
    pub(in super::super) fn try_all(&self, tried: Tried) -> Vec<(&'static str, bool)> {
        let network = if tried.network { NETWORK.as_slice() } else { &[] };
        let protected = if tried.protected { PROTECTED.as_slice() } else { &[] };
        let acts = FILES_AND_PROCESSES.iter().chain(protected).chain(network);
        acts.map(|(name, act)| (*name, act(self).is_ok())).collect()
    }

    pub(in super::super) fn encode(&self, tried: Tried) -> Vec<u8> {
        let mut out = Vec::new();
        put_len(&mut out, usize::from(tried.network));
        put_len(&mut out, usize::from(tried.protected));
        for path in [&self.file, &self.protected, &self.secret, &self.socket] {
            put(&mut out, path);
        }
        put(&mut out, &self.abstract_name);
        for number in [self.tcp.into(), self.udp.into(), self.process] {
            put_len(&mut out, usize::try_from(number).unwrap_or_default());
        }
        out
    }

    fn decode(mut bytes: &[u8]) -> Option<(Tried, Self)> {
        let from = &mut bytes;
        let tried = Tried { network: take_len(from)? != 0, protected: take_len(from)? != 0 };
        let mut path = || take(from).map(PathBuf::from);
        let (file, protected, secret, socket) = (path()?, path()?, path()?, path()?);
        let abstract_name = take(from)?.into_string().ok()?;
        let tcp = take_len(from)?.try_into().ok()?;
        let udp = take_len(from)?.try_into().ok()?;
        let process = take_len(from)?.try_into().ok()?;
        Some((tried, Self { file, protected, secret, socket, abstract_name, tcp, udp, process }))
    }
}

/// Reads the acts to try from standard input, and prints a result line for each act.
pub(crate) fn run(input: impl Into<File>) -> io::Result<()> {
    let mut bytes = Vec::new();
    input.into().read_to_end(&mut bytes)?;
    let (tried, canaries) = Canaries::decode(&bytes).ok_or(io::ErrorKind::InvalidData)?;
    let results = canaries.try_all(tried);
    let lines: String = results
        .into_iter()
        .map(|(name, worked)| format!("{RESULT}{} {name}\n", if worked { "open" } else { "held" }))
        .collect();
    File::from(rustix::io::dup(rustix::stdio::stdout())?)
        .write_all(format!("\n{lines}{RESULT}done\n").as_bytes())
}

/// Acts that succeeded according to a printed result; `None` if the result is incomplete.
pub(in super::super) fn read_results(printed: &str) -> Option<Vec<String>> {
    let lines = || printed.lines().filter_map(|line| line.strip_prefix(RESULT));
    lines()
        .any(|line| line == "done")
        .then(|| lines().filter_map(|line| line.strip_prefix("open ")).map(str::to_owned).collect())
}

fn write_outside(canaries: &Canaries) -> io::Result<()> {
    File::options().write(true).open(&canaries.file)?.write_all(b"x")
}

fn read_hidden(canaries: &Canaries) -> io::Result<()> {
    fs::read(&canaries.secret).map(drop)
}

fn create_protected(canaries: &Canaries) -> io::Result<()> {
    let path = canaries.protected.join("zk-probe");
    let made = fs::create_dir(&canaries.protected);
    File::create_new(&path)?;
    fs::remove_file(path)?;
    if made.is_ok() { fs::remove_dir(&canaries.protected) } else { Ok(()) }
}

fn rename_protected(canaries: &Canaries) -> io::Result<()> {
    let other = canaries.protected.with_extension("probe");
    fs::rename(&canaries.protected, &other)?;
    fs::rename(other, &canaries.protected)
}

fn read_environment(canaries: &Canaries) -> io::Result<()> {
    fs::read(format!("/proc/{}/environ", canaries.process)).map(drop)
}

fn limit_process(canaries: &Canaries) -> io::Result<()> {
    let pid = Pid::from_raw(canaries.process.cast_signed());
    prlimit(pid, Resource::Core, getrlimit(Resource::Core)).map(drop).map_err(Into::into)
}

fn connect_path(canaries: &Canaries) -> io::Result<()> {
    UnixStream::connect(&canaries.socket).map(drop)
}

fn connect_abstract(canaries: &Canaries) -> io::Result<()> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(&canaries.abstract_name)?).map(drop)
}

fn connect_tcp(canaries: &Canaries) -> io::Result<()> {
    TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, canaries.tcp).into(), NETWORK_TIMEOUT).map(drop)
}

fn send_datagram(canaries: &Canaries) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect((Ipv4Addr::LOCALHOST, canaries.udp))?;
    socket.send(b"x").map(drop)?;
    // There is no answer; an unused port is reported by the next call.
    std::thread::sleep(Duration::from_millis(1));
    socket.send(b"x").map(drop)
}

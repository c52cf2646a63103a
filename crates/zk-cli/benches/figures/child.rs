use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::server::Server;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_zk");

thread_local! {
    static MEASURED: RefCell<PathBuf> = RefCell::new(PathBuf::from(PROGRAM));
}

/// Sets the program that is measured from now on.
pub(crate) fn measure(program: PathBuf) {
    MEASURED.set(program);
}

/// Returns the program that is measured.
pub(crate) fn measured() -> PathBuf {
    MEASURED.with_borrow(Clone::clone)
}

/// A home and a project of its own for one run.
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(std::fs::write(self.project().join(name), text)?)
    }

    pub(crate) fn settings(&self, text: &str) -> Result<()> {
        let zk = self.project().join(".zk-home");
        std::fs::create_dir_all(&zk)?;
        Ok(std::fs::write(zk.join("settings.toml"), text)?)
    }

    fn project(&self) -> &Path {
        self.0.path()
    }
}

/// A running `zk`.
pub(crate) struct Child {
    process: std::process::Child,
    stdout: JoinHandle<usize>,
    stderr: JoinHandle<String>,
}

/// End of the process.
pub(crate) struct Ended {
    pub(crate) success: bool,
    pub(crate) at: Instant,
    pub(crate) lines: usize,
    pub(crate) stderr: String,
    pub(crate) peak_mb: f64,
}

impl Child {
    pub(crate) fn start(home: &Home, args: &[&str]) -> Result<Self> {
        Self::spawn(home, args, &[])
    }

    /// Asks the scripted server for one answer, everything allowed.
    pub(crate) fn ask(home: &Home, server: &Server, args: &[&str]) -> Result<Self> {
        let url = server.url();
        let all: Vec<&str> = ["-p", "--provider", "anthropic", "--model", "claude-sonnet-4-5", "--allow-all"]
            .into_iter()
            .chain(args.iter().copied())
            .chain(["do it"])
            .collect();
        Self::spawn(home, &all, &[("ANTHROPIC_API_KEY", "test-key"), ("ANTHROPIC_BASE_URL", &url)])
    }

    #[expect(clippy::disallowed_methods, reason = "the program is measured from outside")]
    fn spawn(home: &Home, args: &[&str], env: &[(&str, &str)]) -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = measured();
        let mut process = Command::new(&program)
            .args(args)
            .env_clear()
            .env("PATH", path)
            .env("HOME", home.project())
            .env("ZK_HOME", home.project().join(".zk-home"))
            .envs(env.iter().copied())
            .current_dir(home.project())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let stdout = process.stdout.take().context("no standard output")?;
        let stderr = process.stderr.take().context("no standard error")?;
        Ok(Self {
            process,
            stdout: std::thread::spawn(move || count_lines(stdout)),
            stderr: std::thread::spawn(move || {
                let mut text = String::new();
                let _ = BufReader::new(stderr).read_to_string(&mut text);
                text
            }),
        })
    }

    pub(crate) fn wait(mut self) -> Result<Ended> {
        let status = format!("/proc/{}/status", self.process.id());
        let mut peak_mb = 0.0_f64;
        let ended = loop {
            if let Some(peak) = std::fs::read_to_string(&status).ok().as_deref().and_then(peak_of) {
                peak_mb = peak_mb.max(peak);
            }
            match self.process.try_wait()? {
                Some(ended) => break ended,
                None => std::thread::sleep(Duration::from_micros(200)),
            }
        };
        let at = Instant::now();
        Ok(Ended {
            success: ended.success(),
            at,
            lines: self.stdout.join().unwrap_or_default(),
            stderr: self.stderr.join().unwrap_or_default(),
            peak_mb,
        })
    }
}

fn count_lines(output: impl Read) -> usize {
    let mut output = BufReader::with_capacity(1 << 16, output);
    let mut lines = 0;
    loop {
        let read = match output.fill_buf() {
            Ok([]) => return lines,
            Ok(buffer) => {
                lines += buffer.iter().filter(|byte| **byte == b'\n').count();
                buffer.len()
            }
            Err(_) => return lines,
        };
        output.consume(read);
    }
}

/// The peak resident size in MB, as `/proc` tells it.
fn peak_of(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kb: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kb * 1024.0 / 1e6)
}

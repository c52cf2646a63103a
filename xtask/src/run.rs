#![expect(clippy::disallowed_methods, reason = "these are cargo and its tools, not what an agent runs")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Program to run, whose output goes to this program's.
pub(crate) struct Run {
    command: Command,
    shown: String,
}

impl Run {
    pub(crate) fn new(program: &str, args: &[&str], cwd: &Path) -> Self {
        let mut command = Command::new(program);
        command.args(args).current_dir(cwd).stdin(Stdio::null());
        Self { command, shown: format!("{program} {}", args.join(" ")) }
    }

    pub(crate) fn cargo(args: &[&str], cwd: &Path) -> Self {
        Self::new("cargo", args, cwd)
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Discards its output.
    pub(crate) fn quiet(mut self) -> Self {
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        self
    }

    /// Runs it to its end.
    pub(crate) fn wait(mut self) -> Result<()> {
        let status = self.command.status().with_context(|| format!("`{}` did not start", self.shown))?;
        if !status.success() {
            bail!("`{}` failed: {status}", self.shown);
        }
        Ok(())
    }

    /// Runs it, and kills it at the time limit.
    pub(crate) fn wait_at_most(mut self, limit: Duration) -> Result<()> {
        let mut child = self.command.spawn().with_context(|| format!("`{}` did not start", self.shown))?;
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                if !status.success() {
                    bail!("`{}` failed: {status}", self.shown);
                }
                return Ok(());
            }
            if begun.elapsed() > limit {
                child.kill().and_then(|()| child.wait()).context("it could not be killed")?;
                bail!("`{}` did not end within {limit:?}", self.shown);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs it to its end, and returns its messages where it fails.
    pub(crate) fn tried(mut self) -> Result<Result<(), String>> {
        let output = self.command.stdout(Stdio::inherit()).output();
        let output = output.with_context(|| format!("`{}` did not start", self.shown))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(if output.status.success() { Ok(()) } else { Err(said) })
    }

    /// Runs it to its end and returns the text that it printed, however it ended.
    pub(crate) fn printed(mut self) -> Result<String> {
        let output = self.command.stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("`{}` did not start", self.shown))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it to its end and returns its output.
    pub(crate) fn output(mut self) -> Result<Vec<u8>> {
        let output = self.command.stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("`{}` did not start", self.shown))?;
        if !output.status.success() {
            bail!("`{}` failed: {}", self.shown, output.status);
        }
        Ok(output.stdout)
    }
}

/// Builds the programs and examples of the workspace, with the features of its tests, and returns their
/// folder. Separate builds would compile each with other features.
pub(crate) fn programs(root: &Path) -> Result<PathBuf> {
    Run::cargo(&["build", "--quiet", "--locked", "--workspace", "--bins", "--examples"], root).wait()?;
    let own = std::env::current_exe().context("where this program is")?;
    Ok(own.parent().context("this program is in no folder")?.to_path_buf())
}

/// Whether `program --version` works.
pub(crate) fn exists(program: &str) -> bool {
    let quiet = || Stdio::null();
    Command::new(program)
        .arg("--version")
        .stdin(quiet())
        .stdout(quiet())
        .stderr(quiet())
        .status()
        .is_ok_and(|status| status.success())
}

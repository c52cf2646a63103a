//! Long proofs of sessions and undo: processes that are killed, disks that fail, machines that stop, and interleavings of
//! changes. The tests run a part of each; a campaign runs all of it.

use std::path::Path;

use anyhow::{Context, Result};

use crate::run::Run;
use crate::workspace::{Workspace, names};

/// Kills and interleavings of each part.
pub(crate) const ROUNDS: u32 = 10_000;

/// Test of a crate whose length a variable tells.
struct Part {
    title: &'static str,
    /// Folder of the crate.
    folder: &'static str,
    test: &'static str,
    variable: &'static str,
    /// Value of the variable; `None` for the number of rounds.
    value: Option<&'static str>,
    /// Feature of the package beyond its default ones.
    feature: Option<&'static str>,
    /// Whether its files may be in memory: processes are killed, and no machine stops.
    in_memory: bool,
}

/// Directory of files in memory, where there is one.
const MEMORY_DIR: &str = "/dev/shm";

const PARTS: [Part; 8] = [
    Part {
        title: "kills while entries are appended, the leaf moves, and sessions are forked, imported and raised to a new format",
        folder: "zk-session",
        test: "tree_kill::a_killed_process",
        variable: "ZK_TREE_KILLS",
        value: None,
        feature: None,
        in_memory: false,
    },
    Part {
        title: "kills in the middle of calls, undos and redos",
        folder: "zk-undo",
        test: "kill::a_killed_process",
        variable: "ZK_UNDO_KILLS",
        value: None,
        feature: None,
        in_memory: true,
    },
    Part {
        title: "kills of workers that serve runs",
        folder: "zk-engine",
        test: "kills::killed_workers",
        variable: "ZK_ENGINE_KILLS",
        value: None,
        feature: None,
        in_memory: false,
    },
    Part {
        title: "kills of workers that serve runs of PostgreSQL",
        folder: "zk-fleet",
        test: "postgres::kills::killed_workers",
        variable: "ZK_FLEET_KILLS",
        value: None,
        feature: Some("postgres"),
        in_memory: false,
    },
    Part {
        title: "kills of workers that serve runs of Temporal",
        folder: "zk-fleet",
        test: "temporal::kills::killed_workers",
        variable: "ZK_ENGINE_KILLS",
        value: None,
        feature: Some("temporal"),
        in_memory: false,
    },
    Part {
        title: "interleavings of an agent's, a shell's and a person's changes",
        folder: "zk-undo",
        test: "interleavings::",
        variable: "ZK_UNDO_INTERLEAVINGS",
        value: None,
        feature: None,
        in_memory: true,
    },
    Part {
        title: "power cuts and faults at every call to the disk of SQLite",
        folder: "zk-session",
        test: "power::a_",
        variable: "ZK_DISK_FAULTS",
        value: Some("1"),
        feature: None,
        in_memory: false,
    },
    Part {
        title: "faults at every call to the disk of a file map",
        folder: "zk-stores",
        test: "disk::",
        variable: "ZK_DISK_FAULTS",
        value: Some("1"),
        feature: None,
        in_memory: false,
    },
];

/// Runs all parts, one after another.
pub(crate) fn run(workspace: &Workspace, rounds: u32) -> Result<()> {
    for part in PARTS {
        println!("\n==> {}", part.title);
        let rounds = rounds.to_string();
        let package = names::package(part.folder);
        let mut args = vec!["test", "--package", &package, "--test", "it", "--locked", part.test];
        args.extend(part.feature.iter().flat_map(|feature| ["--features", *feature]));
        args.extend(["--", "--nocapture"]);
        let mut run = Run::cargo(&args, workspace.root());
        if part.in_memory && Path::new(MEMORY_DIR).is_dir() {
            run = run.env("TMPDIR", MEMORY_DIR);
        }
        run.env(part.variable, part.value.unwrap_or(&rounds))
            .env("RUST_BACKTRACE", "0")
            .wait()
            .with_context(|| part.title.to_owned())?;
    }
    println!("\ncampaign: {} parts passed", PARTS.len());
    Ok(())
}

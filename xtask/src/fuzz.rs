use std::fs;

use anyhow::{Context, Result, bail};

use crate::run::Run;
use crate::workspace::Workspace;

/// Default run time of each target, in seconds.
pub(crate) const SECONDS: u32 = 5;

/// Name of a missing tool that a short run needs; `None` if all are installed.
pub(crate) fn missing(workspace: &Workspace) -> Option<&'static str> {
    let works = |args: &[&str]| Run::new("rustup", args, workspace.root()).quiet().wait().is_ok();
    if !works(&["run", "nightly", "cargo", "--version"]) {
        return Some("there is no nightly toolchain");
    }
    if !works(&["run", "nightly", "cargo", "fuzz", "--version"]) {
        return Some("cargo-fuzz is not installed");
    }
    None
}

/// Fuzzes every target for `seconds`, starting from the checked-in corpus, which is not modified.
///
/// # Errors
/// When a target finds a failure; its input is in `fuzz/artifacts` then.
pub(crate) fn run(workspace: &Workspace, seconds: u32) -> Result<()> {
    if let Some(missing) = missing(workspace) {
        bail!("{missing}: `rustup toolchain install nightly` and `cargo install cargo-fuzz --locked`");
    }
    let dir = workspace.root().join("fuzz");
    let target = workspace.root().join("target").join("fuzz");
    // The targets have additional dependencies; shared ones get the same versions.
    fs::copy(workspace.root().join("Cargo.lock"), dir.join("Cargo.lock"))?;
    let built = target.to_string_lossy();
    let how = ["--sanitizer", "none", "--no-trace-compares", "--codegen-units", "16", "--target-dir", &built];
    let cargo = |args: &[&str]| {
        let args = [&["run", "nightly", "cargo", "fuzz"], args].concat();
        Run::new("rustup", &args, workspace.root())
    };
    cargo(&[&["build"], &how[..]].concat()).wait()?;
    let targets = targets(workspace)?;
    for name in &targets {
        let found = target.join("corpus").join(name);
        fs::create_dir_all(&found)?;
        let (found, corpus) = (found.to_string_lossy(), dir.join("corpus").join(name));
        let (corpus, words) = (corpus.to_string_lossy(), dir.join("dict").join(format!("{name}.dict")));
        let (time, words) = (format!("-max_total_time={seconds}"), format!("-dict={}", words.display()));
        let run = [&["run"], &how[..], &[name, &*found, &*corpus, "--", &time, &words, "-verbosity=0"]];
        println!("--- {name} for {seconds} s");
        cargo(&run.concat()).wait().with_context(|| format!("fuzz target `{name}`"))?;
    }
    println!("{} targets ran for {seconds} s each and found nothing", targets.len());
    Ok(())
}

fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(workspace.root().join("fuzz").join("fuzz_targets"))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        names.push(name.context("a target without a name")?.to_owned());
    }
    names.sort();
    Ok(names)
}

//! Two builds of one commit, in two folders and two days apart on the clock, which have one digest.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::dist::{commit_time, hex, sha256, variables};
use crate::run::{Run, exists};
use crate::workspace::Workspace;
use crate::workspace::names::PROGRAM_PACKAGE;

/// Folders below `target/twice` in which the builds are made: names of two lengths.
const FOLDERS: [&str; 2] = ["one", "another-one/in-a-folder-of-its-own"];

struct Options<'a> {
    package: &'a str,
    profile: &'a str,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a str]) -> Result<Self> {
        let mut options = Self { package: PROGRAM_PACKAGE, profile: "release" };
        let mut args = args.iter();
        while let Some(name) = args.next() {
            let value = args.next().with_context(|| format!("{name} wants a value"))?;
            match *name {
                "--package" => options.package = value,
                "--profile" => options.profile = value,
                other => bail!("twice: unknown argument `{other}`; see `cargo xtask help`"),
            }
        }
        Ok(options)
    }

    /// Path of the program below the folder of a build.
    fn program(&self) -> PathBuf {
        let profile = if self.profile == "dev" { "debug" } else { self.profile };
        let name = if self.package == PROGRAM_PACKAGE { "zk" } else { self.package };
        Path::new(profile).join(name)
    }
}

/// Builds the program of the last commit twice, and compares the bytes.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result<()> {
    let options = Options::parse(args)?;
    let root = workspace.root();
    let seconds = commit_time(root)?;
    let has_clock = exists("faketime");
    if !has_clock {
        println!("twice: both builds are of today, faketime is not installed");
    }
    let mut digests = Vec::new();
    for (index, name) in FOLDERS.iter().enumerate() {
        let dir = root.join("target/twice").join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot delete {}", dir.display()))?;
        }
        unpack_commit(root, &dir)?;
        let args = ["build", "--locked", "--profile", options.profile, "--package", options.package];
        let run = match index > 0 && has_clock {
            true => Run::new("faketime", &[&["-f", "+2d", "cargo"], &args[..]].concat(), &dir)
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            false => Run::cargo(&args, &dir),
        };
        let out = dir.join("target");
        let of_build = variables(&dir, &out, false, seconds);
        let run = of_build.iter().fold(run, |run, (name, value)| run.env(name, value));
        run.env("CARGO_TARGET_DIR", &out.to_string_lossy()).wait()?;
        let built = out.join(options.program());
        let bytes = fs::read(&built).with_context(|| format!("there is no program {}", built.display()))?;
        // Two builds take gigabytes; the programs stay, for whoever looks for the difference.
        fs::write(dir.join("program"), &bytes)?;
        fs::remove_dir_all(&out)?;
        println!("{}  {} ({} kB)", hex(&sha256(&bytes)), dir.join("program").display(), bytes.len() / 1024);
        digests.push(sha256(&bytes));
    }
    if digests.iter().zip(digests.iter().skip(1)).any(|(one, other)| one != other) {
        bail!("twice: the builds differ; `cmp -l` of the two programs says where");
    }
    println!("twice: two builds of {} have one digest", options.package);
    Ok(())
}

/// Lays the files of the last commit out in `dir`.
fn unpack_commit(root: &Path, dir: &Path) -> Result<()> {
    let archive = Run::new("git", &["archive", "--format=tar", "HEAD"], root).output()?;
    fs::create_dir_all(dir)?;
    tar::Archive::new(archive.as_slice())
        .unpack(dir)
        .with_context(|| format!("the commit cannot be unpacked in {}", dir.display()))
}

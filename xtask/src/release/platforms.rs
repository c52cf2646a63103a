//! Checks of platforms other than the one a build is for: the oldest C library, static programs, and macOS.
#![expect(clippy::disallowed_methods, reason = "a variable names the folder of cargo's builds")]

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::dist::glibc_of;
use crate::run::Run;
use crate::workspace::Workspace;

/// Oldest C library on which the program for linux-gnu runs, as docs/release.md says: that of Debian 12, Ubuntu 22.04 and
/// RHEL 9.
pub(crate) const GLIBC_FLOOR: (u32, u32) = (2, 34);
/// Targets of static programs.
const MUSL: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];
/// Targets of macOS.
const MACOS: [&str; 2] = ["aarch64-apple-darwin", "x86_64-apple-darwin"];
/// Packages that are compiled for macOS on any machine: they and those below them have no C of their own, for which the
/// headers of macOS would be needed.
const WITHOUT_C: [&str; 4] = ["zk-harness-agent", "zk-harness-exec", "zk-harness-settings", "zk-harness-tui"];

/// Compares the C library that a program asks for with the documented one.
pub(super) fn check_glibc(program: &Path) -> Result<()> {
    let Some(asked) = glibc_of(program)? else {
        println!("glibc: {} asks for none", program.display());
        return Ok(());
    };
    if is_too_new(asked) {
        bail!(
            "{} asks for glibc {}.{}, and {}.{} is what zk promises: build it on an older system, \
             without ZK_PACK_RELOCATIONS, or for musl",
            program.display(),
            asked.0,
            asked.1,
            GLIBC_FLOOR.0,
            GLIBC_FLOOR.1
        );
    }
    println!("glibc: {}.{} is enough, {}.{} is promised", asked.0, asked.1, GLIBC_FLOOR.0, GLIBC_FLOOR.1);
    Ok(())
}

fn is_too_new(asked: (u32, u32)) -> bool {
    asked > GLIBC_FLOOR
}

/// Documentation of all crates with all of their features, as docs.rs builds it.
pub(crate) fn documentation(workspace: &Workspace) -> Result<()> {
    let args = ["doc", "--workspace", "--no-deps", "--all-features", "--locked"];
    Run::cargo(&args, workspace.root()).env("RUSTDOCFLAGS", "-D warnings").wait()
}

/// Builds a static program, and runs the demo and a sandboxed command with it.
pub(crate) fn musl(workspace: &Workspace) -> Result<()> {
    let root = workspace.root();
    let Some(target) = installed(root, &MUSL)? else {
        println!("skipped, no standard library of musl is here: `rustup target add {}`", MUSL[0]);
        return Ok(());
    };
    let build = ["build", "--locked", "--profile", "quick", "--package", "zk-harness-cli", "--bin", "zk"];
    Run::cargo(&[&build[..], &["--target", target]].concat(), root).wait()?;
    let target_dir =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
    let zk = target_dir.join(target).join("quick/zk");
    if glibc_of(&zk)?.is_some() {
        bail!("{} asks for glibc: it is not static", zk.display());
    }
    let zk = zk.to_string_lossy().into_owned();
    Run::new(&zk, &["demo"], root).quiet().wait()?;
    sandboxed(root, &zk)
}

/// Runs the sandbox's own test, in which commands try to get out.
fn sandboxed(root: &Path, zk: &str) -> Result<()> {
    let home = root.join("target/release-home/musl");
    std::fs::create_dir_all(&home)?;
    // A machine without a provider is told by the exit code, which says nothing of the sandbox.
    let told = Run::new(zk, &["doctor"], root).env("ZK_HOME", &home.to_string_lossy()).printed()?;
    let line = told.lines().find(|line| line.contains("sandbox:"));
    let line = line.with_context(|| format!("`{zk} doctor` says nothing of the sandbox:\n{told}"))?;
    if !line.contains("escapes stopped") {
        bail!("the static program has no sandbox: {}", line.trim());
    }
    println!("{}", line.trim());
    Ok(())
}

/// Compiles the packages without C for macOS. Nothing of it runs here.
pub(crate) fn macos(workspace: &Workspace) -> Result<()> {
    let root = workspace.root();
    let Some(target) = installed(root, &MACOS)? else {
        println!("skipped, no standard library of macOS is here: `rustup target add {}`", MACOS[0]);
        return Ok(());
    };
    let packages = WITHOUT_C.iter().flat_map(|package| ["--package", package]);
    let args: Vec<&str> = ["check", "--locked", "--target", target].into_iter().chain(packages).collect();
    Run::cargo(&args, root).wait()?;
    println!("{} compile for {target}; not run by us", WITHOUT_C.join(", "));
    Ok(())
}

/// First of the targets whose standard library is installed.
fn installed(root: &Path, targets: &[&'static str]) -> Result<Option<&'static str>> {
    for target in targets {
        let printed = Run::new("rustc", &["--print", "target-libdir", "--target", target], root).output()?;
        let dir = String::from_utf8(printed).context("rustc printed no path")?;
        if Path::new(dir.trim()).is_dir() {
            return Ok(Some(target));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_that_asks_for_a_newer_c_library_than_promised_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("zk");
        for (names, is_right) in [
            ("GLIBC_2.17\0GLIBC_2.34\0", true),
            ("GLIBC_2.17\0GLIBC_2.39\0", false),
            ("GLIBC_2.17\0GLIBC_ABI_DT_RELR\0", false),
            ("no library", true),
        ] {
            std::fs::write(&program, names).unwrap();
            let checked = check_glibc(&program);
            assert_eq!(checked.is_ok(), is_right, "{names:?}: {checked:?}");
        }
    }

    #[test]
    fn target_without_a_standard_library_is_none() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let host = super::super::dist::host(root).unwrap();
        let known = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
        let of_host: Vec<&'static str> = known.into_iter().filter(|target| *target == host).collect();
        assert_eq!(installed(root, &of_host).unwrap(), of_host.first().copied());
        assert_eq!(installed(root, &["riscv32imc-unknown-none-elf"]).unwrap(), None);
    }

    #[test]
    fn docs_name_the_promised_c_library() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let page = std::fs::read_to_string(root.join("docs/release.md")).unwrap();
        assert!(page.contains(&format!("glibc {}.{}", GLIBC_FLOOR.0, GLIBC_FLOOR.1)));
    }
}

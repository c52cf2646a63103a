#![expect(
    clippy::disallowed_methods,
    reason = "a build depends on the folders that cargo uses, which variables name"
)]

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use toml::{Table, Value};

use crate::release::dist::{hex, sha256};
use crate::release::metadata::Package;
use crate::run::Run;

/// Folders beside the crates that some tests compare code with, such as the pages that list what it has. No package has
/// them.
const COMPARED_FOLDERS: [&str; 3] = ["docs", "examples", "fuzz/corpus"];

/// Folder with the packages, below which cargo makes another.
const PACKED_FOLDER: &str = "target/publish/packed";

/// Packages every crate and lays the contents out as a workspace of their own, in which nothing is but what a registry
/// would get. The manifests are those before cargo rewrote them: a package does not name the crates of its tests.
pub(super) fn lay_out(
    root: &Path,
    crates: &[&Package],
    registry: Option<&str>,
    dirty: bool,
) -> Result<PathBuf> {
    let mut args = vec!["package", "--no-verify", "--locked", "--quiet"];
    args.extend(dirty.then_some("--allow-dirty"));
    args.extend(registry.map(|_| "--registry"));
    args.extend(registry);
    for of in crates {
        args.extend(["--package", &of.name]);
    }
    Run::cargo(&args, root).env("CARGO_TARGET_DIR", &root.join(PACKED_FOLDER).to_string_lossy()).wait()?;
    let dir = root.join("target/publish/sources");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    for of in crates {
        let name = format!("{}-{}", of.name, of.version);
        let (file, bytes) = packed(root, of)?;
        tar::Archive::new(GzDecoder::new(bytes.as_slice()))
            .unpack(dir.join("unpacked"))
            .with_context(|| format!("{} does not unpack", file.display()))?;
        let to = dir.join("crates").join(of.dir().file_name().context("a crate without a folder")?);
        fs::create_dir_all(dir.join("crates"))?;
        fs::rename(dir.join("unpacked").join(&name), &to)?;
        fs::rename(to.join("Cargo.toml.orig"), to.join("Cargo.toml"))?;
    }
    fs::write(dir.join("Cargo.toml"), manifest(&fs::read_to_string(root.join("Cargo.toml"))?)?)?;
    fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock"))?;
    for folder in COMPARED_FOLDERS {
        let from = root.join(folder);
        if from.is_dir() {
            copy(&from, &dir.join(folder))?;
        }
    }
    Ok(dir)
}

/// Package as a registry gets it.
fn packed(root: &Path, of: &Package) -> Result<(PathBuf, Vec<u8>)> {
    let file = root.join(PACKED_FOLDER).join("package").join(format!("{}-{}.crate", of.name, of.version));
    let bytes = fs::read(&file).with_context(|| format!("cargo packaged no {}", file.display()))?;
    Ok((file, bytes))
}

/// Checksum of a package, as the index of a registry has it.
pub(super) fn checksum(root: &Path, of: &Package) -> Result<String> {
    Ok(hex(&sha256(&packed(root, of)?.1)))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, into) = (entry.path(), to.join(entry.file_name()));
        if !path.is_dir() {
            fs::copy(&path, &into)?;
        } else if entry.file_name() != "target" {
            copy(&path, &into)?;
        }
    }
    Ok(())
}

/// Manifest of the workspace with the crates as its only members.
fn manifest(text: &str) -> Result<String> {
    let mut manifest: Table = text.parse()?;
    let workspace = manifest.get_mut("workspace").and_then(Value::as_table_mut);
    let workspace = workspace.context("Cargo.toml has no [workspace]")?;
    workspace.insert("members".to_owned(), Value::Array(vec![Value::String("crates/*".to_owned())]));
    workspace.remove("exclude");
    Ok(toml::to_string(&manifest)?)
}

/// Runs the tests of one crate in the laid out workspace. Crates of others are compiled where they were before.
pub(super) fn test(root: &Path, sources: &Path, name: &str) -> Result<()> {
    let own = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
    Run::cargo(&["test", "--quiet", "--offline", "--package", name], sources)
        .env("CARGO_TARGET_DIR", &own.to_string_lossy())
        .wait()
}

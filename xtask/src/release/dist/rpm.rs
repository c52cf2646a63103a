use std::fs;
use std::path::Path;

use anyhow::Result;

use super::entry::PROGRAM_MODE;
use super::{About, Contents};
use crate::run::{Run, exists};

/// Directory in which zsh of Fedora and its relatives looks for completions.
const ZSH_FUNCTIONS: &str = "usr/share/zsh/site-functions";

/// Package for Fedora and its relatives: its name and its bytes, or the reason for none. `cargo-generate-rpm` writes
/// it from a package that is laid out for it alone.
pub(super) fn package(
    root: &Path,
    about: &About<'_>,
    contents: &Contents,
) -> Result<Result<(String, Vec<u8>), String>> {
    if !exists("cargo-generate-rpm") {
        return Ok(Err("cargo-generate-rpm is not installed".to_owned()));
    }
    let dir = root.join("target/dist-rpm");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    let mut assets = Vec::new();
    for file in contents.system(&about.binary.bytes, ZSH_FUNCTIONS)? {
        let path = dir.join(&file.path);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        fs::write(&path, &file.bytes)?;
        let doc = file.path.starts_with("usr/share/doc/");
        let mode = if file.mode == PROGRAM_MODE { "755" } else { "644" };
        assets.push(format!(
            "{{ source = {:?}, dest = \"/{}\", mode = \"{mode}\", doc = {doc} }}",
            path.to_string_lossy(),
            file.path
        ));
    }
    let (version, before) = about.version.split_once('-').unwrap_or((about.version, ""));
    let release = if before.is_empty() { "1".to_owned() } else { format!("0.{before}") };
    let manifest = format!(
        "[package]\nname = \"zk\"\nversion = \"{version}\"\nedition = \"2024\"\nlicense = \"MIT OR Apache-2.0\"\n\
         description = {:?}\nrepository = {:?}\n\n[package.metadata.generate-rpm]\nrelease = \"{release}\"\nassets = [\n  {},\n]\n\n[workspace]\n",
        about.description,
        about.repository,
        assets.join(",\n  "),
    );
    fs::write(dir.join("Cargo.toml"), manifest)?;
    fs::create_dir_all(dir.join("src"))?;
    fs::write(dir.join("src/lib.rs"), "")?;
    let name = format!("zk-{version}-{release}.{}.rpm", about.target.rpm);
    let out = dir.join(&name);
    let (seconds, to) = (about.seconds.to_string(), out.to_string_lossy().into_owned());
    let args = ["generate-rpm", "--arch", about.target.rpm, "--source-date", &seconds, "--output", &to];
    Run::cargo(&args, &dir).env("SOURCE_DATE_EPOCH", &seconds).wait()?;
    let bytes = fs::read(&out)?;
    fs::remove_dir_all(&dir)?;
    Ok(Ok((name, bytes)))
}

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::entry::{Entry, tar_gz};
use super::target::{TARGETS, Target};
use super::{About, Contents};

/// Package that a person installs, and the beginning of the names of those with a program.
const NPM_NAME: &str = "@zk-agent/zk";
const LAUNCHER: &str = include_str!("launcher.js");

fn platform_name(target: Target) -> String {
    let libc = if target.is_musl() { "-musl" } else { "" };
    format!("{NPM_NAME}-{}-{}{libc}", target.npm_os, target.npm_cpu)
}

/// Name of the file that `npm pack` would give a package.
fn file_name(name: &str, version: &str) -> String {
    format!("{}-{version}.tgz", name.trim_start_matches('@').replace('/', "-"))
}

/// Package with the program of one platform: its name and its bytes.
pub(super) fn platform(about: &About<'_>, contents: &Contents) -> Result<(String, Vec<u8>)> {
    let name = platform_name(about.target);
    let mut manifest = manifest(about, &name);
    manifest.insert("os".to_owned(), json!([about.target.npm_os]));
    manifest.insert("cpu".to_owned(), json!([about.target.npm_cpu]));
    if about.target.is_linux() {
        let libc = if about.target.is_musl() { "musl" } else { "glibc" };
        manifest.insert("libc".to_owned(), json!([libc]));
    }
    let mut files = vec![json_file(manifest)?, Entry::program("bin/zk", about.binary.bytes.clone())];
    files.extend(contents.texts.iter().cloned());
    packed(about, &name, &files)
}

/// Package that starts the program of the machine's platform: its name and its bytes.
pub(super) fn launcher(about: &About<'_>, contents: &Contents) -> Result<(String, Vec<u8>)> {
    let mut manifest = manifest(about, NPM_NAME);
    let platforms = TARGETS.into_iter().filter(|target| target.is_linux());
    let platforms: Map<String, Value> =
        platforms.map(|target| (platform_name(target), json!(about.version))).collect();
    manifest.insert("optionalDependencies".to_owned(), Value::Object(platforms));
    manifest.insert("bin".to_owned(), json!({ "zk": "bin/zk.js" }));
    manifest.insert("engines".to_owned(), json!({ "node": ">=18" }));
    let mut files = vec![json_file(manifest)?, Entry::program("bin/zk.js", LAUNCHER)];
    files.extend(contents.texts.iter().filter(|text| text.path != "THIRD-PARTY-NOTICES").cloned());
    packed(about, NPM_NAME, &files)
}

fn manifest(about: &About<'_>, name: &str) -> Map<String, Value> {
    let fields = [
        ("name", json!(name)),
        ("version", json!(about.version)),
        ("description", json!(about.description)),
        ("license", json!("MIT OR Apache-2.0")),
        ("repository", json!({ "type": "git", "url": format!("git+{}.git", about.repository) })),
        ("preferUnplugged", json!(true)),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn json_file(manifest: Map<String, Value>) -> Result<Entry> {
    Ok(Entry::file("package.json", serde_json::to_string_pretty(&Value::Object(manifest))? + "\n"))
}

fn packed(about: &About<'_>, name: &str, files: &[Entry]) -> Result<(String, Vec<u8>)> {
    let files: Vec<Entry> = files.iter().map(|file| file.below("package")).collect();
    Ok((file_name(name, about.version), tar_gz(&files, about.seconds)?))
}

use anyhow::{Context, Result, bail};

use super::git::Git;

/// Manifest that names the version of all packages.
pub(super) const MANIFEST: &str = "Cargo.toml";
/// Manifests of other languages whose packages have the version of the workspace.
const OTHERS: [&str; 4] = [
    "clients/python/pyproject.toml",
    "clients/typescript/package.json",
    "crates/zk-extensions/sdk/python/pyproject.toml",
    "crates/zk-extensions/sdk/typescript/package.json",
];

/// Version that the manifest of a commit names.
pub(super) fn version(git: &Git<'_>, commit: &str) -> Result<String> {
    let text = git.file(commit, MANIFEST)?.context("there is no Cargo.toml in the commit")?;
    version_in(&text).context("Cargo.toml has no version in [workspace.package]")
}

fn version_in(manifest: &str) -> Option<String> {
    let manifest: toml::Table = manifest.parse().ok()?;
    Some(manifest.get("workspace")?.get("package")?.get("version")?.as_str()?.to_owned())
}

/// Files that change with the version, and their new texts. Reads the commit alone, so that it can be done again.
pub(super) fn files(git: &Git<'_>, commit: &str, from: &str, to: &str) -> Result<Vec<(String, String)>> {
    let text = git.file(commit, MANIFEST)?.context("there is no Cargo.toml in the commit")?;
    let mut changed = vec![(MANIFEST.to_owned(), manifest(&text, from, to)?)];
    for path in OTHERS {
        let Some(text) = git.file(commit, path)? else { continue };
        let (quoted, own) = if path.ends_with(".json") {
            (format!("\"version\": \"{from}\""), format!("\"version\": \"{to}\""))
        } else {
            (format!("version = \"{from}\""), format!("version = \"{}\"", crate::release::python_version(to)))
        };
        // A package of another version goes its own way.
        if text.contains(&quoted) {
            changed.push((path.to_owned(), text.replacen(&quoted, &own, 1)));
        }
    }
    Ok(changed)
}

/// Manifest with another version of the workspace and of its packages, every other byte as it was.
fn manifest(text: &str, from: &str, to: &str) -> Result<String> {
    let (old, new) = (format!("version = \"{from}\""), format!("version = \"{to}\""));
    let mut table = "";
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            table = trimmed;
        }
        let is_own = table == "[workspace.package]" && trimmed.starts_with("version")
            || table == "[workspace.dependencies]" && line.contains("path = \"");
        if is_own { out.push_str(&line.replace(&old, &new)) } else { out.push_str(line) }
    }
    if version_in(&out).as_deref() != Some(to) {
        bail!("cannot write the version into Cargo.toml: [workspace.package] has no line `{old}`");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_changes_for_the_own_packages_alone() {
        let text = "[workspace.package]\nversion = \"0.1.0\" # ours\n\n[workspace.dependencies]\n\
                    zk = { path = \"crates/zk\", version = \"0.1.0\" }\nother = { version = \"0.1.0\" }\n";
        let expected = "[workspace.package]\nversion = \"0.2.0\" # ours\n\n[workspace.dependencies]\n\
                        zk = { path = \"crates/zk\", version = \"0.2.0\" }\nother = { version = \"0.1.0\" }\n";
        assert_eq!(manifest(text, "0.1.0", "0.2.0").unwrap(), expected);
        assert!(manifest("[workspace.package]\nversion=\"0.1.0\"\n", "0.1.0", "0.2.0").is_err());
    }
}

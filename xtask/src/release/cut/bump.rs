use anyhow::{Context, Result, bail};

use super::git::Git;

/// Manifest that names the version of all packages.
pub(super) const MANIFEST: &str = "Cargo.toml";
/// Folder of the guides, which name requirements of packages.
const GUIDES: &str = "docs";

/// Place beside the workspace's manifest that names its version.
struct Place {
    path: &'static str,
    /// Text around the version, which is `{}`.
    around: &'static str,
    /// Number of these texts, from the beginning of the file.
    count: usize,
}

impl Place {
    const fn new(path: &'static str, around: &'static str) -> Self {
        Self { path, around, count: 1 }
    }
}

/// Places in other languages and in guides. A place with another version goes its own way.
const OTHERS: [Place; 8] = [
    Place::new("clients/python/pyproject.toml", "version = \"{}\""),
    Place::new("clients/python/src/zk_rpc/client.py", "\"version\": \"{}\""),
    Place::new("clients/typescript/package.json", "\"version\": \"{}\""),
    // The lock file names the package twice before all others.
    Place { path: "clients/typescript/package-lock.json", around: "\"version\": \"{}\"", count: 2 },
    Place::new("clients/typescript/src/index.ts", "version = \"{}\""),
    Place::new("crates/zk-extensions/sdk/python/pyproject.toml", "version = \"{}\""),
    Place::new("crates/zk-extensions/sdk/typescript/package.json", "\"version\": \"{}\""),
    Place::new("docs/rpc.md", "\"name\":\"zk\",\"version\":\"{}\""),
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
    let guides = git.files(commit, GUIDES)?.into_iter().filter(|path| path.ends_with(".md"));
    changed(&|path| git.file(commit, path), guides, from, to)
}

/// Files that change, of those that `read` gives.
fn changed(
    read: &dyn Fn(&str) -> Result<Option<String>>,
    guides: impl Iterator<Item = String>,
    from: &str,
    to: &str,
) -> Result<Vec<(String, String)>> {
    let text = read(MANIFEST)?.context("there is no Cargo.toml in the commit")?;
    let own = own_packages(&text)?;
    let mut files = vec![(MANIFEST.to_owned(), manifest(&text, from, to)?)];
    // Pages in folders below are records, or generated.
    let guides = guides.filter(|path| path.matches('/').count() == 1);
    let others = OTHERS.iter().map(|place| place.path.to_owned());
    let mut paths: Vec<String> = others.chain(guides).collect();
    paths.sort();
    paths.dedup();
    for path in paths {
        let Some(text) = read(&path)? else { continue };
        let mut new = text.clone();
        for place in OTHERS.iter().filter(|place| place.path == path) {
            let is_python = path.ends_with("pyproject.toml");
            let named = |version: &str| match is_python {
                true => place.around.replace("{}", &crate::release::python_version(version)),
                false => place.around.replace("{}", version),
            };
            new = new.replacen(&named(from), &named(to), place.count);
        }
        if path.ends_with(".md") {
            new = guide(&new, &own, from, to);
        }
        if new != text {
            files.push((path, new));
        }
    }
    Ok(files)
}

/// Names of the packages that the workspace's manifest has in its own folder.
fn own_packages(manifest: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse().context("Cargo.toml cannot be read")?;
    let dependencies = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let dependencies = dependencies.and_then(toml::Value::as_table).into_iter().flatten();
    let own = dependencies.filter(|(_, dependency)| dependency.get("path").is_some());
    let name = |(key, dependency): (&String, &toml::Value)| {
        let package = dependency.get("package").and_then(toml::Value::as_str);
        package.unwrap_or(key).to_owned()
    };
    Ok(own.map(name).collect())
}

/// Guide in which requirements of own packages, such as `zk = "0.1"`, are those of another version.
fn guide(text: &str, own: &[String], from: &str, to: &str) -> String {
    let requirements = |line: &str| -> Option<String> {
        let (name, _) = line.split_once('=')?;
        own.iter().find(|package| *package == name.trim())?;
        let (old, new) = (requirement(from), requirement(to));
        let old = [old, from.to_owned()].into_iter().find(|old| line.contains(&format!("\"{old}\"")))?;
        Some(line.replacen(&format!("\"{old}\""), &format!("\"{new}\""), 1))
    };
    text.split_inclusive('\n').map(|line| requirements(line).unwrap_or_else(|| line.to_owned())).collect()
}

/// Requirement of a version as guides write it: `0.1` for `0.1.3`. Only its whole name asks for a pre-release.
fn requirement(version: &str) -> String {
    match version.rsplit_once('.') {
        Some((short, _)) if !version.contains('-') => short.to_owned(),
        Some(_) | None => version.to_owned(),
    }
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
    use std::path::Path;

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

    #[test]
    fn requirements_in_guides_are_those_of_the_new_version() {
        let own = ["zk", "zk-testkit"].map(str::to_owned);
        let text = "```toml\nzk = \"0.1\"\nasync-trait = \"0.1\"\nzk-testkit = { version = \"0.1\", features = [] }\n```\n";
        let new = guide(text, &own, "0.1.3", "0.2.0");
        let expected = "```toml\nzk = \"0.2\"\nasync-trait = \"0.1\"\nzk-testkit = { version = \"0.2\", features = [] }\n```\n";
        assert_eq!(new, expected);
        assert_eq!(guide(&new, &own, "0.2.0", "0.2.1"), new);
        let before = guide(&new, &own, "0.2.1", "0.3.0-rc.1");
        assert!(before.contains("zk = \"0.3.0-rc.1\""), "{before}");
        assert!(guide(&before, &own, "0.3.0-rc.1", "0.3.0").contains("zk = \"0.3\""));
    }

    #[test]
    fn every_place_of_this_checkout_that_names_the_version_changes_with_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let read = |path: &str| Ok(std::fs::read_to_string(root.join(path)).ok());
        let from = version_in(&read(MANIFEST).unwrap().unwrap()).unwrap();
        let guides: Vec<String> = std::fs::read_dir(root.join(GUIDES))
            .unwrap()
            .map(|entry| format!("{GUIDES}/{}", entry.unwrap().file_name().to_string_lossy()))
            .filter(|path| path.ends_with(".md"))
            .collect();
        let to = "9.8.7";
        let files = changed(&read, guides.clone().into_iter(), &from, to).unwrap();
        let new = |path: &str| {
            let changed = files.iter().find(|(changed, _)| changed == path);
            changed.map(|(_, text)| text.clone()).unwrap_or_else(|| read(path).unwrap().unwrap())
        };
        for place in OTHERS {
            let text = new(place.path);
            assert_eq!(text.matches(&place.around.replace("{}", to)).count(), place.count, "{}", place.path);
        }
        let own = own_packages(&new(MANIFEST)).unwrap();
        for path in &guides {
            for line in new(path).lines() {
                let name = line.split_once(" = ").map_or("", |(name, _)| name);
                let old = format!("\"{}\"", requirement(&from));
                assert!(!own.iter().any(|own| own == name) || !line.contains(&old), "{path}: {line}");
            }
        }
        assert!(files.iter().any(|(path, _)| path == "docs/embedding.md"), "guides name requirements");
    }
}

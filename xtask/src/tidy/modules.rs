use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use toml::Value;

use super::Findings;
use crate::workspace::{Package, Text};

/// Checks that every Rust file below `src/` and `tests/` is compiled: as a target, or as a module of one.
pub(super) fn check(packages: &[Package], texts: &[Text], findings: &mut Findings) {
    let files: HashMap<&Path, &str> = texts
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .map(|file| (Path::new(file.path.as_str()), file.text.as_str()))
        .collect();
    let mut ours: Vec<&Path> = files.keys().copied().collect();
    ours.sort();
    for package in packages {
        let dir = Path::new(&package.dir);
        let [src, tests] = [dir.join("src"), dir.join("tests")];
        let mut open: Vec<PathBuf> =
            ours.iter().filter(|path| is_target(package, dir, path)).map(|path| path.to_path_buf()).collect();
        let targets: BTreeSet<PathBuf> = open.iter().cloned().collect();
        let (mut named, mut folders) = (targets.clone(), Vec::new());
        while let Some(path) = open.pop() {
            let Some(text) = files.get(path.as_path()) else { continue };
            let is_root = targets.contains(&path) || path.ends_with("mod.rs");
            let new = children(&path, is_root, text).into_iter().filter(|child| named.insert(child.clone()));
            open.extend(new);
            // Files that a test compiles itself, such as those that must fail to compile.
            folders.extend(globs(dir, text));
        }
        for path in ours.iter().filter(|path| path.starts_with(&src) || path.starts_with(&tests)) {
            let is_globbed =
                path.parent().is_some_and(|parent| folders.iter().any(|folder| folder == parent));
            if !named.contains(*path) && !is_globbed {
                findings.error(
                    path.display(),
                    "no `mod` and no target of Cargo.toml names it: name it or remove it",
                );
            }
        }
    }
}

/// Whether Cargo compiles `path` as a target of `package`.
fn is_target(package: &Package, dir: &Path, path: &Path) -> bool {
    let Ok(inside) = path.strip_prefix(dir) else { return false };
    let is_named = ["lib", "bin", "test", "bench", "example"].iter().any(|kind| {
        let tables = match package.manifest.get(*kind) {
            Some(Value::Array(tables)) => tables.iter().collect(),
            table => Vec::from_iter(table),
        };
        tables
            .iter()
            .any(|table| table.get("path").and_then(Value::as_str).is_some_and(|at| inside == Path::new(at)))
    });
    let parts: Vec<_> = inside.iter().filter_map(|part| part.to_str()).collect();
    let is_usual = matches!(
        parts.as_slice(),
        ["build.rs"]
            | ["build", "main.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "benches" | "examples", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
    );
    is_named || is_usual
}

/// Files that the `mod` lines of a file may refer to.
fn children(path: &Path, is_root: bool, text: &str) -> Vec<PathBuf> {
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let below = if is_root { folder.to_owned() } else { path.with_extension("") };
    let mut children = Vec::new();
    let mut elsewhere = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[")
            && let Some((before, rest)) = line.split_once("path = \"")
        {
            let at = rest.split('"').next().map(|at| plain(&folder.join(at)));
            // The module is one of two files, depending on a feature.
            match before {
                "#[" => elsewhere = at,
                _ => children.extend(at),
            }
            continue;
        }
        let code = line.split("//").next().unwrap_or_default().trim_end();
        let mut words = code.strip_suffix(';').unwrap_or_default().rsplit([' ', '\t']);
        let (Some(name), Some("mod")) = (words.next(), words.next()) else {
            // Other attributes may stand between `path` and its module.
            elsewhere = elsewhere.filter(|_| line.starts_with("#["));
            continue;
        };
        match elsewhere.take() {
            Some(at) => children.push(at),
            None => children.extend([below.join(format!("{name}.rs")), below.join(name).join("mod.rs")]),
        }
    }
    children
}

/// Folders of patterns such as `tests/compile_fail/*.rs` in a file's text.
fn globs(dir: &Path, text: &str) -> Vec<PathBuf> {
    let strings = text.split('"').filter_map(|piece| piece.strip_suffix("/*.rs"));
    strings.map(|folder| dir.join(folder)).collect()
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::Normal(_) => {
                plain.push(part)
            }
        }
    }
    plain
}

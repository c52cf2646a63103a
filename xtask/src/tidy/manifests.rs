use anyhow::{Context, Result};
use toml::{Table, Value};

use super::Findings;
use crate::workspace::{Package, Text, Workspace};

/// Most lines of code in the shortest example of a library.
const EXAMPLE_LINES: usize = 30;

/// Manifest that names the oldest compiler.
const MANIFEST: &str = "Cargo.toml";
/// File that names the compiler of this checkout.
const TOOLCHAIN: &str = "rust-toolchain.toml";
/// Page that tells the oldest compiler.
const STABILITY: &str = "docs/stability.md";

/// Name of the table of test dependencies.
const TESTS: &str = "dev-dependencies";

/// Checks that every crate has a description, inherits the workspace's settings, and has an example.
pub(super) fn check(
    workspace: &Workspace,
    packages: &[Package],
    texts: &[Text],
    findings: &mut Findings,
) -> Result<()> {
    rust_version(workspace, texts, findings)?;
    for package in packages {
        let place = format!("{}/Cargo.toml", package.dir);
        let about = package.manifest.get("package").and_then(Value::as_table);
        let about = about.cloned().unwrap_or_default();
        if about.get("description").and_then(Value::as_str).is_none_or(str::is_empty) {
            findings.error(&place, "no description");
        }
        for key in ["version", "edition", "rust-version", "license", "repository", "authors"] {
            if !inherits(about.get(key)) {
                findings.error(&place, format_args!("`{key}.workspace = true` is missing"));
            }
        }
        if !inherits(package.manifest.get("lints")) {
            findings.error(&place, "`[lints] workspace = true` is missing");
        }
        for (table, name, how) in dependencies(&package.manifest) {
            // A version would create a cycle between crates whose tests use each other, which registries
            // refuse.
            if table == TESTS && name.starts_with("zk-") {
                if how.get("path").is_none() || how.get("version").is_some() {
                    findings.error(
                        &place,
                        format_args!("`{name}` serves tests: name it by its `path` alone, without a version"),
                    );
                }
            } else if !inherits(Some(how)) {
                findings
                    .error(&place, format_args!("`{name}` does not come from `[workspace.dependencies]`"));
            }
        }
        crate_doc(package, texts, findings);
        examples(workspace, package, texts, findings)?;
    }
    Ok(())
}

/// Checks that the oldest compiler is the same for cargo and for readers, and no newer than the one that is used.
fn rust_version(workspace: &Workspace, texts: &[Text], findings: &mut Findings) -> Result<()> {
    let read = |name: &str| -> Result<Table> {
        let path = workspace.root().join(name);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(text.parse()?)
    };
    let manifest = read(MANIFEST)?;
    let about = manifest.get("workspace").and_then(|workspace| workspace.get("package")?.get("rust-version"));
    let Some(oldest) = about.and_then(Value::as_str) else {
        findings.error(MANIFEST, "[workspace.package] names no `rust-version`");
        return Ok(());
    };
    let toolchain = read(TOOLCHAIN)?;
    let used = toolchain.get("toolchain").and_then(|toolchain| toolchain.get("channel")?.as_str());
    if used.is_none_or(|used| numbers(used) < numbers(oldest)) {
        findings.error(TOOLCHAIN, format_args!("the compiler is older than `rust-version` {oldest}"));
    }
    let is_told =
        texts.iter().any(|text| text.path == STABILITY && text.text.contains(&format!("Rust {oldest},")));
    if !is_told {
        findings.error(STABILITY, format_args!("does not say that the crates compile with Rust {oldest}"));
    }
    Ok(())
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}

fn inherits(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true)
}

/// Dependencies with the name of their table.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&'static str, &String, &Value)> {
    ["dependencies", TESTS, "build-dependencies"]
        .into_iter()
        .filter_map(|table| Some((table, manifest.get(table)?.as_table()?)))
        .flat_map(|(table, all)| all.iter().map(move |(name, how)| (table, name, how)))
}

fn crate_doc(package: &Package, texts: &[Text], findings: &mut Findings) {
    for root in ["lib.rs", "main.rs"] {
        let path = format!("{}/src/{root}", package.dir);
        if let Some(file) = texts.iter().find(|file| file.path == path)
            && !file.text.starts_with("//! ")
        {
            findings.error(path, "no crate documentation: what it is, and what it must never know");
        }
    }
}

fn examples(workspace: &Workspace, package: &Package, texts: &[Text], findings: &mut Findings) -> Result<()> {
    // A program is its own example, and a crate without exports needs none.
    let (root, program) = (format!("{}/src/lib.rs", package.dir), format!("{}/src/main.rs", package.dir));
    if texts.iter().any(|file| file.path == program) {
        return Ok(());
    }
    let exports = |file: &Text| file.path == root && file.text.lines().any(|line| line.starts_with("pub "));
    if !texts.iter().any(exports) {
        return Ok(());
    }
    let lines = workspace.examples(package)?.into_iter().filter_map(|name| {
        let path = format!("{}/examples/{name}.rs", package.dir);
        let file = texts.iter().find(|file| file.path == path)?;
        Some(file.text.lines().filter(|line| is_code(line)).count())
    });
    match lines.min() {
        None => findings.error(&package.dir, "no example in `examples/`"),
        Some(lines) if lines > EXAMPLE_LINES => findings.error(
            &package.dir,
            format_args!("the shortest example has {lines} lines of code, {EXAMPLE_LINES} is the limit"),
        ),
        Some(_) => {}
    }
    Ok(())
}

fn is_code(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::Findings;
use crate::workspace::{Package, Text, names};

/// Tools of others that pages tell to install.
const OUTSIDE_TOOLS: [&str; 1] = ["cargo-fuzz"];

/// Commands of cargo that get a package from a registry.
const FROM_REGISTRY: [&str; 2] = ["cargo install ", "cargo add "];

/// Options of these commands whose value is the next word.
const VALUED_OPTIONS: [&str; 16] = [
    "--bin",
    "--branch",
    "--example",
    "--features",
    "--git",
    "--package",
    "--path",
    "--profile",
    "--registry",
    "--rename",
    "--rev",
    "--root",
    "--tag",
    "--target",
    "--version",
    "-F",
];

/// Checks that each crate's package, library and entry in the workspace are named after its folder, as
/// [`names`] says, and that no text has a reader ask cargo for another name.
pub(super) fn check(packages: &[Package], examples: &[Package], texts: &[Text], findings: &mut Findings) {
    for package in packages.iter().filter(|package| package.dir.starts_with("crates/")) {
        manifest(package, texts, findings);
    }
    if let Some(root) = texts.iter().find(|text| text.path == "Cargo.toml") {
        workspace_dependencies(root, findings);
    }
    let members: BTreeSet<&str> =
        packages.iter().chain(examples).map(|package| package.name.as_str()).collect();
    let published: BTreeSet<&str> = packages
        .iter()
        .filter(|package| package.is_published())
        .map(|package| package.name.as_str())
        .collect();
    for text in texts {
        commands(text, &members, &published, findings);
        if text.path.ends_with(".md") {
            shown_dependencies(text, findings);
        }
    }
}

fn manifest(package: &Package, texts: &[Text], findings: &mut Findings) {
    let (folder, place) = (package.folder(), format!("{}/Cargo.toml", package.dir));
    if !names::is_folder(folder) {
        findings.error(&package.dir, "the folder of a crate is named `zk-NAME`");
        return;
    }
    let (name, library) = (names::package(folder), names::library(folder));
    if package.name != name {
        findings.error(
            &place,
            format_args!(
                "package `{}`: name it `{name}`, since registries have others by short names",
                package.name
            ),
        );
    }
    let root = format!("{}/src/lib.rs", package.dir);
    let named = package.manifest.get("lib").and_then(|lib| lib.get("name")?.as_str());
    if texts.iter().any(|text| text.path == root) && named != Some(&library) {
        findings.error(&place, format_args!("`[lib]` does not say `name = \"{library}\"`, as code names it"));
    }
}

/// Checks the entries of crates in `[workspace.dependencies]`, by which all manifests name them.
fn workspace_dependencies(root: &Text, findings: &mut Findings) {
    // Cargo reports a manifest that does not parse.
    let manifest: Table = root.text.parse().unwrap_or_default();
    let entries = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies")?.as_table());
    for (key, entry) in entries.into_iter().flatten() {
        let Some(path) = entry.get("path").and_then(Value::as_str) else { continue };
        let folder = path.rsplit('/').next().unwrap_or(path);
        let package = names::package(folder);
        if key != folder || entry.get("package").and_then(Value::as_str) != Some(&package) {
            findings.error(
                &root.path,
                format_args!("{path} in `[workspace.dependencies]`: write `{folder} = {{ package = \"{package}\", … }}`"),
            );
        }
    }
}

/// Checks the packages in commands of cargo.
fn commands(text: &Text, members: &BTreeSet<&str>, published: &BTreeSet<&str>, findings: &mut Findings) {
    let is_page = text.path.ends_with(".md");
    for (number, line) in text.text.lines().enumerate() {
        let place = format!("{}:{}", text.path, number + 1);
        for command in FROM_REGISTRY {
            for name in after(line, command).flat_map(positional) {
                // Package names outside of pages may be those of tests.
                let is_meant = is_page || is_short(name);
                if is_meant && !published.contains(name) && !OUTSIDE_TOOLS.contains(&name) {
                    findings.error(
                        &place,
                        format_args!(
                            "`{command}{name}` gets a package of others: ours begin with `{}`",
                            names::PREFIX
                        ),
                    );
                }
            }
        }
        for command in after(line, "cargo ") {
            for name in selected(command).filter(|name| is_short(name) && !members.contains(name)) {
                findings.error(&place, format_args!("no package of the workspace is named `{name}`"));
            }
        }
    }
}

/// Whether a name looks like one of a crate of zk.
fn is_short(name: &str) -> bool {
    names::is_folder(name)
}

/// Rests of the commands in a line that begin with `beginning`.
fn after<'a>(line: &'a str, beginning: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(beginning).filter_map(move |(at, found)| {
        let rest = line.get(at + found.len()..)?;
        rest.split(['`', '"', '\'', '|', ';', '&', '#', ')', '\\']).next()
    })
}

/// Names of packages that a command has without an option.
fn positional(command: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut words = own_words(command);
    while let Some(word) = words.next() {
        if VALUED_OPTIONS.contains(&word) {
            words.next();
        } else if word.starts_with(|c: char| c.is_ascii_lowercase()) {
            found.push(package_name(word));
        }
    }
    found
}

/// Names of packages that a command has behind `-p` or `--package`.
fn selected(command: &str) -> impl Iterator<Item = &str> {
    let words = own_words(command);
    let options = words.clone().zip(words.skip(1));
    options.filter(|(option, _)| matches!(*option, "-p" | "--package")).map(|(_, name)| package_name(name))
}

/// Words of a command before those that it hands to a program.
fn own_words(command: &str) -> impl Iterator<Item = &str> + Clone {
    command.split_whitespace().take_while(|word| *word != "--")
}

/// Beginning of a word that may be the name of a package, without a version or the end of a sentence.
fn package_name(word: &str) -> &str {
    let end = word.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    word.get(..end.unwrap_or(word.len())).unwrap_or(word)
}

/// Checks the dependencies in manifests that a page shows.
fn shown_dependencies(page: &Text, findings: &mut Findings) {
    for block in page.text.split("```toml").skip(1) {
        let block =
            block.split_once('\n').and_then(|(_, block)| block.split("```").next()).unwrap_or_default();
        // Parts of a manifest or of settings need not parse.
        let manifest: Table = block.parse().unwrap_or_default();
        for table in ["dependencies", "dev-dependencies"] {
            let entries = manifest.get(table).and_then(Value::as_table);
            for (key, entry) in entries.into_iter().flatten().filter(|(key, _)| is_short(key)) {
                let package = names::package(key);
                let is_ours = names::folder(key).is_some();
                if !is_ours && entry.get("package").and_then(Value::as_str) != Some(&package) {
                    findings.error(
                        &page.path,
                        format_args!(
                            "`{key}` in `[{table}]` is a crate of others: write `package = \"{package}\"`"
                        ),
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &str, manifest: &str) -> Package {
        let manifest: Table = manifest.parse().unwrap();
        let name = manifest["package"]["name"].as_str().unwrap().to_owned();
        Package { name, dir: format!("crates/{folder}"), manifest }
    }

    fn core() -> Package {
        package("zk-core", "[package]\nname = \"zk-harness-core\"\n[lib]\nname = \"zk_core\"\n")
    }

    fn errors(packages: &[Package], texts: &[(&str, &str)]) -> Vec<String> {
        let texts = texts.iter().map(|(path, text)| Text { path: (*path).into(), text: (*text).into() });
        let mut findings = Findings::default();
        check(packages, &[], &texts.collect::<Vec<_>>(), &mut findings);
        findings.errors
    }

    #[test]
    fn manifests_name_a_crate_after_its_folder() {
        let library = ("crates/zk-core/src/lib.rs", "");
        assert_eq!(errors(&[core()], &[library]), [] as [String; 0]);
        for (folder, manifest, expected) in [
            (
                "zk-core",
                "[package]\nname = \"zk-core\"\n[lib]\nname = \"zk_core\"\n",
                "name it `zk-harness-core`",
            ),
            (
                "zk-core",
                "[package]\nname = \"zk-harness-tools\"\n[lib]\nname = \"zk_core\"\n",
                "`zk-harness-core`",
            ),
            (
                "zk-core",
                "[package]\nname = \"zk-harness-core\"\n",
                "`[lib]` does not say `name = \"zk_core\"`",
            ),
            ("core", "[package]\nname = \"zk-harness-core\"\n", "crates/core: the folder"),
        ] {
            let found = errors(&[package(folder, manifest)], &[library]);
            assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
        }
    }

    #[test]
    fn workspace_names_a_crate_by_its_folder_and_its_package() {
        for (entry, count) in [
            ("zk-core = { package = \"zk-harness-core\", path = \"crates/zk-core\" }", 0),
            ("zk-core = { path = \"crates/zk-core\" }", 1),
            ("core = { package = \"zk-harness-core\", path = \"crates/zk-core\" }", 1),
            ("serde = \"1\"", 0),
        ] {
            let root = format!("[workspace.dependencies]\n{entry}\n");
            let found = errors(&[core()], &[("Cargo.toml", &root)]);
            assert_eq!(found.len(), count, "{entry}: {found:?}");
        }
    }

    #[test]
    fn commands_of_pages_and_code_get_packages_that_are_ours() {
        for (path, line, expected) in [
            (
                "a.md",
                "`cargo INSTALL zk-harness-core --features a`, `cargo INSTALL --path crates/zk-core`",
                0,
            ),
            (
                "a.md",
                "`cargo INSTALL --locked cargo-fuzz`; `cargo ADD zk-harness-core@0.1 --rename zk-core`",
                0,
            ),
            ("a.md", "`cargo INSTALL`, then the rest", 0),
            ("a.md", "`cargo INSTALL --features worker zk-core`", 1),
            ("a.md", "`cargo ADD zk-core serde`", 2),
            ("a.rs", "(\"cargo ADD serde\", \"cargo INSTALL zk-{name}\")", 1),
            ("a.sh", "fail \"build it with \\`cargo INSTALL zk-cli\\`\"", 1),
            ("a.rs", "//! `cargo run -p zk-harness-core --example a -- -p zk-core`", 0),
            ("a.rs", "//! `cargo run OF zk-core --example a`", 1),
            ("a.md", "cargo test OF zk-harness-tools -p serde", 1),
        ] {
            let line = line.replace("INSTALL", "install").replace("ADD", "add").replace("OF", "-p");
            let found = errors(&[core()], &[(path, &line)]);
            assert_eq!(found.len(), expected, "{line}: {found:?}");
        }
    }

    #[test]
    fn manifests_that_pages_show_name_packages_that_are_ours() {
        for (entry, count) in [
            ("zk = { package = \"zk-harness\", version = \"0.1\" }", 0),
            ("zk-harness-core = \"0.1\"", 0),
            ("zk = \"0.1\"", 1),
            ("zk-core = { package = \"zk-harness\", version = \"0.1\" }", 1),
        ] {
            let page = format!("Names:\n\n```toml,manifest\n[dependencies]\n{entry}\nserde = \"1\"\n```\n");
            let found = errors(&[core()], &[("a.md", &page)]);
            assert_eq!(found.len(), count, "{entry}: {found:?}");
        }
    }
}

//! Scaffolds: new crates that compile, pass their own test and show their use.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use toml::{Table, Value};

use crate::run::Run;
use crate::workspace::{Workspace, names};

/// Kind of the new crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Plugin with handlers, tools, or other registrations.
    Plugin,
    /// Provider of a model service.
    Provider,
    /// Provider of a service that speaks a protocol of its own over HTTP.
    Dialect,
}

impl Kind {
    /// Kind that a task makes.
    pub(crate) fn of(task: &str) -> Option<Self> {
        Some(match task {
            "new-plugin" => Self::Plugin,
            "new-provider" => Self::Provider,
            "new-dialect" => Self::Dialect,
            _ => return None,
        })
    }
}

struct Template {
    description: &'static str,
    keywords: &'static [&'static str],
    categories: &'static [&'static str],
    dependencies: &'static [(&'static str, &'static [&'static str])],
    dev_dependencies: &'static [(&'static str, &'static [&'static str])],
    lib: &'static str,
    test: &'static str,
    example: &'static str,
    readme: &'static str,
    guide: &'static str,
}

const PLUGIN: Template = Template {
    description: "A zk plugin that refuses tool calls with oversized arguments",
    keywords: &["agent", "llm", "plugin", "zk"],
    categories: &["development-tools"],
    dependencies: &[("zk-core", &[])],
    dev_dependencies: &[("serde_json", &[]), ("tokio", &["macros", "rt"])],
    lib: include_str!("plugin/lib.rs.txt"),
    test: include_str!("plugin/test.rs.txt"),
    example: include_str!("plugin/example.rs.txt"),
    readme: include_str!("plugin/README.md.txt"),
    guide: "docs/guide-plugin.md",
};

const PROVIDER: Template = Template {
    description: "A zk model provider",
    keywords: &["agent", "llm", "provider", "zk"],
    categories: &["api-bindings"],
    dependencies: &[("zk-core", &[]), ("async-trait", &[]), ("futures-util", &[])],
    dev_dependencies: &[("tokio", &["macros", "rt"])],
    lib: include_str!("provider/lib.rs.txt"),
    test: include_str!("provider/test.rs.txt"),
    example: include_str!("provider/example.rs.txt"),
    readme: include_str!("provider/README.md.txt"),
    guide: "docs/guide-provider.md",
};

/// The example of the guide for providers, as a crate of one's own.
const DIALECT: Template = Template {
    description: "A zk provider with a protocol of its own",
    keywords: &["agent", "llm", "provider", "zk"],
    categories: &["api-bindings"],
    dependencies: &[("zk-core", &[]), ("zk-providers", &[]), ("async-trait", &[]), ("serde_json", &[])],
    dev_dependencies: &[("zk-testkit", &["server"]), ("tokio", &["macros", "rt"])],
    lib: include_str!("../../../examples/own-provider/src/lib.rs"),
    test: include_str!("../../../examples/own-provider/tests/conformance.rs"),
    example: include_str!("dialect/example.rs.txt"),
    readme: include_str!("dialect/README.md.txt"),
    guide: "docs/guide-provider.md",
};

/// Generates the crate `zk-NAME` in `crates/`, or in `into` as a package of its own that depends on this
/// checkout by path.
pub(crate) fn new(workspace: &Workspace, kind: Kind, name: &str, into: Option<PathBuf>) -> Result<()> {
    let name = name.strip_prefix("zk-").unwrap_or(name);
    let legal = name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    ensure!(legal, "`{name}` is no crate name: begin with a letter, go on with a-z, 0-9 and `-`");
    let template = match kind {
        Kind::Plugin => PLUGIN,
        Kind::Provider => PROVIDER,
        Kind::Dialect => DIALECT,
    };
    let folder = format!("zk-{name}");
    let alone = into.is_some();
    let dir = into.unwrap_or_else(|| workspace.root().join("crates")).join(&folder);
    if dir.exists() {
        bail!("{} exists already", dir.display());
    }
    let root: Table = fs::read_to_string(workspace.root().join("Cargo.toml"))?.parse()?;
    let manifest = if alone {
        standalone_manifest(&template, name, &root, workspace.root())?
    } else {
        member_manifest(&template, name)
    };
    put(&dir, "Cargo.toml", &manifest)?;
    put(&dir, "README.md", &fill(template.readme, name))?;
    let sources = [
        ("src/lib.rs", template.lib),
        ("tests/it/main.rs", template.test),
        ("examples/alone.rs", template.example),
    ];
    for (path, template) in sources {
        put(&dir, path, &fill(template, name))?;
    }
    if alone {
        fs::copy(workspace.root().join("rustfmt.toml"), dir.join("rustfmt.toml"))?;
        // Copies the versions with which this checkout was tested.
        fs::copy(workspace.root().join("Cargo.lock"), dir.join("Cargo.lock"))?;
    }
    // The sort order of imports depends on the name.
    let mut format = vec!["--edition", "2024"];
    format.extend(sources.map(|(path, _)| path));
    Run::new("rustfmt", &format, &dir).wait()?;
    if alone {
        println!("made {}; next: cd there and `cargo test`, then {}", dir.display(), template.guide);
    } else {
        println!(
            "made {}; next: `cargo test -p {}`, then {}, then add it to zk-cli's composition",
            dir.display(),
            names::package(&folder),
            template.guide
        );
    }
    Ok(())
}

fn put(dir: &Path, path: &str, text: &str) -> Result<()> {
    let path = dir.join(path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&path, text).with_context(|| format!("{} was not written", path.display()))
}

fn fill(template: &str, name: &str) -> String {
    let type_name: String = name
        .split('-')
        .flat_map(|word| {
            let mut chars = word.chars();
            chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars)
        })
        .collect();
    template
        .replace("{{name}}", name)
        .replace("{{crate}}", &format!("zk_{}", name.replace('-', "_")))
        .replace("{{Type}}", &type_name)
        .replace("own_provider", &format!("zk_{}", name.replace('-', "_")))
}

/// First lines of a manifest: a registry shows these.
fn about(template: &Template, package: &str) -> String {
    let Template { description, keywords, categories, .. } = template;
    format!(
        "[package]\nname = \"{package}\"\ndescription = \"{description}\"\n\
         keywords = {keywords:?}\ncategories = {categories:?}\n"
    )
}

/// Lines that have the documentation's host build all features.
const DOCS_RS: &str = "\n[package.metadata.docs.rs]\nall-features = true\n";

/// Manifest of a crate of this checkout, which is published with the others.
fn member_manifest(template: &Template, name: &str) -> String {
    let folder = format!("zk-{name}");
    let mut text = about(template, &names::package(&folder));
    for key in ["version", "edition", "rust-version", "license", "repository", "authors"] {
        let _ = writeln!(text, "{key}.workspace = true");
    }
    text.push_str(DOCS_RS);
    let _ = write!(text, "\n[lib]\nname = \"{}\"\n\n[lints]\nworkspace = true\n", names::library(&folder));
    for (title, all) in
        [("dependencies", template.dependencies), ("dev-dependencies", template.dev_dependencies)]
    {
        let _ = write!(text, "\n[{title}]\n");
        for (name, features) in all {
            let _ = match features {
                [] => writeln!(text, "{name}.workspace = true"),
                features => writeln!(text, "{name} = {{ workspace = true, features = {features:?} }}"),
            };
        }
    }
    text
}

fn standalone_manifest(template: &Template, name: &str, root: &Table, checkout: &Path) -> Result<String> {
    let workspace = root.get("workspace").context("the root manifest has no [workspace]")?;
    let shared = workspace.get("dependencies").context("it has no [workspace.dependencies]")?;
    let shared_fields = workspace.get("package").context("it has no [workspace.package]")?;
    let mut text = about(template, &format!("zk-{name}"));
    text.push_str("version = \"0.1.0\"\n");
    for key in ["edition", "rust-version"] {
        writeln!(text, "{key} = {}", shared_fields.get(key).with_context(|| format!("it has no {key}"))?)?;
    }
    text.push_str(DOCS_RS);
    text.push_str("\n# A package of its own, also inside the folder of another workspace.\n[workspace]\n");
    for (title, all) in
        [("dependencies", template.dependencies), ("dev-dependencies", template.dev_dependencies)]
    {
        write!(text, "\n[{title}]\n")?;
        for (name, features) in all {
            let spec =
                shared.get(*name).with_context(|| format!("{name} is not in [workspace.dependencies]"))?;
            writeln!(text, "{name} = {}", standalone_spec(spec, features, checkout))?;
        }
    }
    Ok(text)
}

fn standalone_spec(spec: &Value, features: &[&str], checkout: &Path) -> Value {
    let mut spec = match spec {
        Value::Table(spec) => spec.clone(),
        version => Table::from_iter([("version".to_owned(), version.clone())]),
    };
    if let Some(path) = spec.get("path").and_then(Value::as_str) {
        let path = checkout.join(path);
        spec.insert("path".into(), path.to_string_lossy().into_owned().into());
    }
    if !features.is_empty() {
        let mut all = spec.get("features").and_then(Value::as_array).cloned().unwrap_or_default();
        all.extend(features.iter().map(|feature| Value::from(*feature)));
        spec.insert("features".into(), Value::Array(all));
    }
    Value::Table(spec)
}

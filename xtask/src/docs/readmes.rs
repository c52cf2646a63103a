use anyhow::{Context, Result};
use toml::Value;

use crate::workspace::{Package, Text, names};

/// READMEs of the crates for registries: the front pages of their documentation as plain Markdown.
pub(super) fn pages(packages: &[Package], texts: &[Text]) -> Result<Vec<(String, String)>> {
    let find = |path: &str| texts.iter().find(|text| text.path == path).map(|text| text.text.as_str());
    let mut pages = Vec::new();
    for package in packages {
        let Some(library) = find(&format!("{}/src/lib.rs", package.dir)) else { continue };
        let example = |name: &str| find(&format!("{}/{name}", package.dir));
        let text = page(package, library, example).with_context(|| format!("README of {}", package.name))?;
        pages.push((format!("{}/README.md", package.dir), text));
    }
    Ok(pages)
}

fn page<'a>(package: &Package, library: &str, example: impl Fn(&str) -> Option<&'a str>) -> Result<String> {
    let mut page = format!("# {}\n\n{}\n", package.name, names_of(package));
    let (mut is_code, mut is_empty) = (false, true);
    for line in library.lines() {
        let text = match line.strip_prefix("//!") {
            Some(text) => text.strip_prefix(' ').unwrap_or(text).to_owned(),
            None => match line.strip_prefix("#![doc = ").and_then(|rest| rest.strip_suffix(']')) {
                Some(value) => {
                    match value.strip_prefix("include_str!(\"../").and_then(|rest| rest.strip_suffix("\")")) {
                        Some(name) => example(name)
                            .with_context(|| format!("there is no {name}"))?
                            .trim_end()
                            .to_owned(),
                        None => value.trim_matches('"').to_owned(),
                    }
                }
                None => break,
            },
        };
        is_empty = false;
        if text.starts_with("```") {
            let is_rust = !is_code && matches!(text.as_str(), "```" | "```ignore" | "```no_run");
            page.push_str(if is_rust { "```rust" } else { &text });
            page.push('\n');
            is_code = !is_code;
            continue;
        }
        // Hidden lines of an example.
        if is_code && (text == "#" || text.starts_with("# ")) {
            continue;
        }
        match text.strip_prefix("# ").filter(|_| !is_code) {
            Some(heading) => page.push_str(&format!("## {heading}\n")),
            None if is_code => page.push_str(&format!("{text}\n")),
            None => page.push_str(&format!("{}\n", plain(&text))),
        }
    }
    anyhow::ensure!(!is_empty, "src/lib.rs begins with no documentation");
    let workspace = "https://github.com/zk-agent/zk";
    page.push_str(&format!(
        "\n## Licence\n\nPart of [zk]({workspace}), an agent harness you can take apart. MIT or Apache-2.0, at your option.\n"
    ));
    Ok(page)
}

/// Names of the crate: the one for cargo, the one in code, the one in pages of zk.
fn names_of(package: &Package) -> String {
    let (folder, name) = (package.folder(), &package.name);
    let library = names::library(folder);
    let mut text =
        format!("The crate `{folder}` of zk: `cargo add {name}` brings the library `{library}`.\n");
    let programs = package.manifest.get("bin").and_then(Value::as_array);
    // A program behind features is told by its page.
    let plain = programs.into_iter().flatten().filter(|program| program.get("required-features").is_none());
    for program in plain.filter_map(|program| program.get("name")?.as_str()) {
        text.push_str(&format!("`cargo install {name}` installs the program `{program}`.\n"));
    }
    text
}

/// Text without links into Rust's documentation.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain.push_str(before);
        let Some((label, after)) = link.split_once(']') else {
            plain.push('[');
            rest = link;
            continue;
        };
        let target = after.strip_prefix('(').and_then(|target| target.split_once(')'));
        match target {
            Some((target, after)) if target.starts_with("http") => {
                plain.push_str(&format!("[{label}]({target})"));
                rest = after;
            }
            Some((_, after)) => {
                plain.push_str(label);
                rest = after;
            }
            None if label.starts_with('`') => {
                plain.push_str(label);
                rest = after;
            }
            None => {
                plain.push('[');
                rest = link;
            }
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_page_becomes_a_readme() {
        let library = "//! Tools, with [`Exec`] and [one](crate::One).\n//!\n//! [zk](https://zk) `a[0]`\n//!\n//! # Example\n//!\n\
                       #![doc = \"```ignore\"]\n#![doc = include_str!(\"../examples/a.rs\")]\n#![doc = \"```\"]\n//!\n//! # Last\n\nmod a;\n";
        let manifest = "[[bin]]\nname = \"a\"\n[[bin]]\nname = \"b\"\nrequired-features = [\"c\"]\n";
        let package = Package {
            name: "zk-harness-core".to_owned(),
            dir: "crates/zk-core".to_owned(),
            manifest: manifest.parse().unwrap(),
        };
        let example = |name: &str| (name == "examples/a.rs").then_some("use a::[B];\n");
        let page = page(&package, library, example).unwrap();
        let expected = "# zk-harness-core\n\nThe crate `zk-core` of zk: `cargo add zk-harness-core` brings the library `zk_core`.\n\
                        `cargo install zk-harness-core` installs the program `a`.\n\nTools, with `Exec` and one.\n\n[zk](https://zk) `a[0]`\n\n## Example\n\n```rust\nuse a::[B];\n```\n\n\
                        ## Last\n\n## Licence\n\n";
        assert!(page.starts_with(expected), "{page}");
    }

    #[test]
    fn example_that_is_absent_is_an_error() {
        let library = "//! A.\n#![doc = include_str!(\"../examples/a.rs\")]\n";
        let package =
            Package { name: "zk-a".to_owned(), dir: "crates/zk-a".to_owned(), manifest: toml::Table::new() };
        assert!(page(&package, library, |_| None).unwrap_err().to_string().contains("examples/a.rs"));
    }
}

use super::Findings;
use super::links::resolve;
use crate::workspace::Text;

/// Checks that code which a page shows from an example occurs in that example literally, so that it compiles.
pub(super) fn check(page: &Text, all: &[Text], findings: &mut Findings) {
    if !page.path.ends_with(".md") {
        return;
    }
    for (link, code) in shown(&page.text) {
        let path = resolve(&page.path, link).unwrap_or_else(|| link.to_owned());
        match all.iter().find(|file| file.path == path) {
            Some(example) if example.text.contains(code.trim()) => {}
            Some(_) => findings
                .error(&page.path, format_args!("the code shown from {path} is not what stands there")),
            None => findings.error(&page.path, format_args!("shows code from {path}, which does not exist")),
        }
    }
}

/// Checks that each block of Rust in the documentation is part of an example or a test, but for its indentation, so that
/// it compiles, and that the tasks and examples which pages name are there.
pub(super) fn check_all(texts: &[Text], findings: &mut Findings) {
    let is_compiled =
        |path: &str| path.ends_with(".rs") && (path.contains("examples/") || path.contains("/tests/"));
    let compiled: Vec<String> =
        texts.iter().filter(|text| is_compiled(&text.path)).map(|text| trimmed(&text.text)).collect();
    let is_page = |path: &str| path == "README.md" || path.starts_with("docs/") && path.ends_with(".md");
    for page in texts.iter().filter(|text| is_page(&text.path)) {
        for code in blocks(&page.text) {
            let code = trimmed(&code);
            if !compiled.iter().any(|text| text.contains(&code)) {
                let first = code.lines().next().unwrap_or_default();
                findings.error(
                    &page.path,
                    format_args!(
                        "nothing compiles the block that begins `{first}`: put it into an example or a test"
                    ),
                );
            }
        }
        for task in words_after(&page.text, "cargo xtask ") {
            if !crate::HELP.lines().any(|line| line.trim_start().split(' ').next() == Some(task)) {
                findings.error(&page.path, format_args!("there is no task `cargo xtask {task}`"));
            }
        }
        for example in words_after(&page.text, "--example ") {
            let name = format!("/examples/{example}.rs");
            if !texts.iter().any(|text| text.path.ends_with(&name)) {
                findings.error(&page.path, format_args!("there is no example `{example}`"));
            }
        }
    }
}

/// Blocks of Rust, also indented ones.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let (mut is_open, mut is_rust) = (false, false);
    for line in page.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_open = !is_open;
            is_rust = is_open && language == "rust";
            if is_rust {
                blocks.push(String::new());
            }
        } else if let Some(block) = blocks.last_mut().filter(|_| is_rust) {
            block.extend([line, "\n"]);
        }
    }
    blocks
}

/// Lines with something in them, without their indentation.
fn trimmed(code: &str) -> String {
    code.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Names that follow a command.
fn words_after<'a>(page: &'a str, command: &str) -> Vec<&'a str> {
    let ends = page.match_indices(command).map(|(at, found)| at + found.len());
    let names = ends.filter_map(|end| {
        page.get(end..)?.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c))).next()
    });
    names.filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase())).collect()
}

/// Examples that a page links to directly before a block of Rust, each with that block.
fn shown(page: &str) -> Vec<(&str, &str)> {
    page.match_indices("\n```rust\n")
        .filter_map(|(at, fence)| {
            let (before, from_fence) = page.split_at(at);
            let path = before.trim_end().rsplit('\n').next().and_then(example)?;
            let code = from_fence.strip_prefix(fence)?.split("\n```").next()?;
            Some((path, code))
        })
        .collect()
}

/// Path of the last example that a line links to.
fn example(line: &str) -> Option<&str> {
    let (_, target) = line.rsplit_once("](")?;
    let path = target.split(')').next()?;
    (path.contains("examples/") && path.ends_with(".rs")).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "See [`it`](crates/a/examples/it.rs):\n\n```rust\nfn main() {}\n```\n\nElse:\n\n```rust\nx\n```\n";

    #[test]
    fn a_block_after_a_link_to_an_example_is_taken_as_shown_from_it() {
        assert_eq!(shown(PAGE), [("crates/a/examples/it.rs", "fn main() {}")]);
    }

    #[test]
    fn a_block_is_part_of_what_is_compiled_and_tasks_and_examples_are_there() {
        let text = |path: &str, text: &str| Text { path: path.into(), text: text.into() };
        let compiled = text("crates/a/examples/it.rs", "fn main() {\n    let a = 1;\n\n    b();\n}\n");
        for (page, errors) in [
            ("1. It:\n\n   ```rust\n   let a = 1;\n   b();\n   ```\n", 0),
            ("```rust\nlet a = 2;\n```\n", 1),
            ("`cargo xtask tidy`, `cargo xtask NAME`, `cargo run --example it`", 0),
            ("`cargo xtask tidiest`, `cargo run --example that`", 2),
        ] {
            let mut findings = Findings::default();
            check_all(&[compiled_again(&compiled), text("docs/a.md", page)], &mut findings);
            assert_eq!(findings.errors.len(), errors, "{page}: {:?}", findings.errors);
        }
    }

    fn compiled_again(text: &Text) -> Text {
        Text { path: text.path.clone(), text: text.text.clone() }
    }

    #[test]
    fn what_is_shown_must_stand_in_the_example() {
        let below = PAGE.replace("](crates", "](../crates");
        for (place, page) in [("README.md", PAGE), ("docs/guide.md", &below)] {
            let page = Text { path: place.into(), text: page.into() };
            for (text, errors) in [("//! Doc\n\nfn main() {}\n", 0), ("fn main() { other() }\n", 1)] {
                let mut findings = Findings::default();
                let example = Text { path: "crates/a/examples/it.rs".into(), text: text.into() };
                check(&page, &[example], &mut findings);
                assert_eq!(findings.errors.len(), errors);
            }
        }
    }
}

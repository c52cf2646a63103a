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

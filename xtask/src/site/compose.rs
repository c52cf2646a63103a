use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};

use super::SUMMARY;
use crate::tidy::links::{in_prose, resolve};
use crate::workspace::{Text, Workspace};

/// Folder of the decisions, which the summary does not list one by one.
pub(super) const DECISIONS: &str = "docs/adr/";

/// First page of the site.
const README: &str = "README.md";

const BOOK_TOML: &str = "\
[book]
title = \"zk\"
description = \"An agent harness you can take apart\"
language = \"en\"

[output.html]
additional-css = [\"site.css\"]
default-theme = \"light\"
preferred-dark-theme = \"navy\"
git-repository-url = \"REPOSITORY\"
smart-punctuation = false

[output.html.playground]
runnable = false

[output.html.print]
enable = false

[output.html.fold]
enable = true
";

/// Rules that keep wide things inside of the page.
const SITE_CSS: &str = include_str!("site.css");

/// Paths that the summary lists, relative to the root of the checkout.
pub(super) fn listed(summary: &str) -> BTreeSet<String> {
    let lines = summary.lines();
    lines.flat_map(in_prose).filter_map(|link| resolve(SUMMARY, link.split('#').next()?)).collect()
}

/// Files of the book, relative to its folder.
pub(super) fn files(workspace: &Workspace, texts: &[Text]) -> Result<Vec<(String, Vec<u8>)>> {
    let repository = repository(workspace)?;
    let find = |path: &str| texts.iter().find(|text| text.path == path);
    let summary = find(SUMMARY).with_context(|| format!("{SUMMARY} is missing"))?;
    let mut pages = listed(&summary.text);
    let decisions: Vec<&Text> = texts.iter().filter(|text| text.path.starts_with(DECISIONS)).collect();
    pages.extend(decisions.iter().map(|text| text.path.clone()));
    let site = Site { pages, repository, workspace };

    let mut files = vec![
        ("book.toml".to_owned(), BOOK_TOML.replace("REPOSITORY", &site.repository).into_bytes()),
        ("site.css".to_owned(), SITE_CSS.into()),
        ("src/SUMMARY.md".to_owned(), site.summary(summary, &decisions).into_bytes()),
    ];
    for path in &site.pages {
        let page = find(path).with_context(|| format!("{SUMMARY} lists {path}, which is not there"))?;
        files.push((format!("src/{}", place(path)), site.page(page).into_bytes()));
    }
    // Pictures and schemas, which pages show or link to.
    for text in texts.iter().filter(|text| text.path.starts_with("docs/") && !text.path.ends_with(".md")) {
        let bytes = fs::read(workspace.root().join(&text.path))?;
        files.push((format!("src/{}", place(&text.path)), bytes));
    }
    Ok(files)
}

/// Address of the repository, as the manifests tell it.
fn repository(workspace: &Workspace) -> Result<String> {
    let root: toml::Table = fs::read_to_string(workspace.root().join("Cargo.toml"))?.parse()?;
    let about = root.get("workspace").and_then(|workspace| workspace.get("package")?.get("repository"));
    Ok(about.and_then(toml::Value::as_str).context("the workspace names no repository")?.to_owned())
}

/// Path of a page in the site.
fn place(path: &str) -> &str {
    // mdBook renames a page of the name README and leaves the links to it.
    if path == README { "index.md" } else { path.strip_prefix("docs/").unwrap_or(path) }
}

/// A line whose tildes, as in a path of the home directory, strike nothing out.
fn without_strikes(line: &str) -> String {
    let parts = line.split('`').enumerate();
    let parts = parts.map(|(at, part)| if at % 2 == 0 { part.replace('~', "\\~") } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`")
}

struct Site<'a> {
    /// Paths of its pages in the checkout.
    pages: BTreeSet<String>,
    repository: String,
    workspace: &'a Workspace,
}

impl Site<'_> {
    /// The list of pages, the decisions at its end.
    fn summary(&self, summary: &Text, decisions: &[&Text]) -> String {
        let mut text = self.page(summary);
        text.push_str("\n# Decisions\n\n");
        for decision in decisions {
            let title = decision.text.lines().next().unwrap_or_default().trim_start_matches("# ");
            text.push_str(&format!("- [{}]({})\n", title.replace(['[', ']'], ""), place(&decision.path)));
        }
        text
    }

    /// A page whose links lead to pages of the site, or into the repository.
    fn page(&self, page: &Text) -> String {
        let mut written = String::with_capacity(page.text.len());
        let mut in_code = false;
        for line in page.text.split_inclusive('\n') {
            let is_fence = line.trim_start().starts_with("```");
            in_code ^= is_fence;
            if in_code || is_fence {
                written.push_str(line);
                continue;
            }
            let line = without_strikes(line);
            let mut rest = line.as_str();
            for link in in_prose(&line) {
                let Some((before, after)) = rest.split_once(&format!("]({link}")) else { continue };
                written.push_str(before);
                written.push_str("](");
                written.push_str(&self.target(&page.path, link));
                rest = after;
            }
            written.push_str(rest);
        }
        written
    }

    fn target(&self, from: &str, link: &str) -> String {
        if link.contains("://") || link.starts_with("mailto:") || link.starts_with('#') {
            return link.to_owned();
        }
        let (path, heading) =
            link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
        let Some(path) = resolve(from, path) else { return link.to_owned() };
        let heading = heading.map(|heading| format!("#{heading}")).unwrap_or_default();
        let is_file_of_site = path.starts_with("docs/") && !path.ends_with(".md") && path.contains('.');
        if self.pages.contains(&path) || is_file_of_site {
            let up = "../".repeat(place(from).matches('/').count());
            return format!("{up}{}{heading}", place(&path));
        }
        let kind = if self.workspace.root().join(&path).is_dir() { "tree" } else { "blob" };
        format!("{}/{kind}/main/{path}{heading}", self.repository)
    }
}

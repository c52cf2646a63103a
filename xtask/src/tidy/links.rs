use super::Findings;
use crate::workspace::{Text, Workspace};

/// Checks that links between pages of the checkout lead to an existing file, and to a heading if they name
/// one.
pub(super) fn check(workspace: &Workspace, page: &Text, all: &[Text], findings: &mut Findings) {
    if !page.path.ends_with(".md") {
        return;
    }
    for (number, line) in outside_fences(&page.text) {
        for link in in_prose(line) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let Some(path) = resolve(&page.path, path) else {
                findings.error(place(page, number), format_args!("`{link}` leads out of the checkout"));
                continue;
            };
            if !workspace.root().join(&path).exists() {
                findings.error(place(page, number), format_args!("`{link}` leads nowhere: no {path}"));
                continue;
            }
            let target = all.iter().find(|file| file.path == path && path.ends_with(".md"));
            if let Some(target) = target.filter(|_| !heading.is_empty())
                && !anchors(&target.text).iter().any(|anchor| anchor == heading)
            {
                findings.error(place(page, number), format_args!("{path} has no heading `#{heading}`"));
            }
        }
    }
}

fn place(page: &Text, number: usize) -> String {
    format!("{}:{}", page.path, number + 1)
}

/// Lines outside of code blocks, with their numbers from 0.
fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// Targets of `[text](target)` in a line, without those in code.
pub(crate) fn in_prose(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        let Some((target, behind)) = after.split_once(')') else { break };
        let in_code = before.matches('`').count() % 2 == 1 && behind.contains('`');
        if !in_code {
            found.push(target.split(' ').next().unwrap_or(target));
        }
        rest = behind;
    }
    found
}

/// Path of `link` relative to the root, as seen from `page`.
pub(crate) fn resolve(page: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(page.to_owned());
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Anchors of a page's headings, as GitHub generates them.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: Vec<(String, usize)> = Vec::new();
    let mut all = Vec::new();
    for (_, line) in outside_fences(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        match seen.iter_mut().find(|(name, _)| *name == anchor) {
            Some((_, count)) => {
                all.push(format!("{anchor}-{count}"));
                *count += 1;
            }
            None => {
                seen.push((anchor.clone(), 1));
                all.push(anchor);
            }
        }
    }
    all
}

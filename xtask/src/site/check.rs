use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Links of a built site.
#[derive(Default)]
pub(super) struct Found {
    pub(super) pages: usize,
    pub(super) links: usize,
    pub(super) faults: Vec<String>,
}

/// Built page: where it leads, and the places in it that others lead to.
struct Page {
    targets: Vec<String>,
    ids: BTreeSet<String>,
}

/// Checks that each link of a built site leads to a file of it, and to a place in that file if it names one. Other
/// hosts are not asked.
pub(super) fn site(root: &Path) -> Result<Found> {
    let mut pages = BTreeMap::new();
    collect(root, "", &mut pages)?;
    let mut found = Found { pages: pages.len(), ..Found::default() };
    for (path, page) in &pages {
        for target in &page.targets {
            if target.contains("://") || target.starts_with("mailto:") || target.starts_with("data:") {
                continue;
            }
            found.links += 1;
            let (file, place) = target.split_once('#').unwrap_or((target, ""));
            let Some(file) = resolved(path, file) else {
                found.faults.push(format!("{path}: `{target}` leads out of the site"));
                continue;
            };
            if !root.join(&file).is_file() {
                found.faults.push(format!("{path}: `{target}` leads nowhere"));
            } else if !place.is_empty() && pages.get(&file).is_some_and(|page| !page.ids.contains(place)) {
                found.faults.push(format!("{path}: {file} has no place `#{place}`"));
            }
        }
    }
    Ok(found)
}

fn collect(dir: &Path, below: &str, pages: &mut BTreeMap<String, Page>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{below}{name}");
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &format!("{path}/"), pages)?;
        } else if name.ends_with(".html") && name != "404.html" && name != "toc.html" {
            // They are shown in the place of other pages, whose links are not theirs.
            pages.insert(path, read(&fs::read_to_string(entry.path())?));
        }
    }
    Ok(())
}

fn read(html: &str) -> Page {
    let targets = [" href=\"", " src=\""].iter().flat_map(|name| values(html, name)).collect();
    Page { targets, ids: values(html, " id=\"").into_iter().collect() }
}

/// Values of an attribute.
fn values(html: &str, attribute: &str) -> Vec<String> {
    let ends = html.match_indices(attribute).map(|(at, name)| at + name.len());
    let values = ends.filter_map(|end| html.get(end..)?.split('"').next());
    values.map(|value| percent_decoded(&value.replace("&amp;", "&"))).collect()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let code = more.get(..2).and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = more.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Path of a target as seen from a page; a folder stands for its index.
fn resolved(page: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(page.to_owned());
    }
    let path = match target.strip_prefix('/') {
        Some(absolute) => absolute.to_owned(),
        None => crate::tidy::links::resolve(page, target)?,
    };
    Some(if path.is_empty() || target.ends_with('/') { format!("{path}/index.html") } else { path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_page_or_a_place_that_is_not_there_is_a_fault() {
        let dir = tempfile::tempdir().unwrap();
        let page = "<h1 id=\"top\">A</h1><a href=\"b.html#h\">b</a><img src=\"p%20q.svg\"><a href=\"https://x.example\">x</a>";
        fs::write(dir.path().join("a.html"), page).unwrap();
        fs::write(
            dir.path().join("b.html"),
            "<a href=\"#no\"></a><a href=\"c.html\"></a><a href=\"a.html#top\"></a>",
        )
        .unwrap();
        fs::write(dir.path().join("p q.svg"), "").unwrap();
        let found = site(dir.path()).unwrap();
        assert_eq!((found.pages, found.links), (2, 5));
        let faults = found.faults.join("\n");
        assert_eq!(
            faults,
            "a.html: b.html has no place `#h`\nb.html: b.html has no place `#no`\nb.html: `c.html` leads nowhere"
        );
    }
}

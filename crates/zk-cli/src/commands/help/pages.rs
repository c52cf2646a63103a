use std::io::Read;

use flate2::read::DeflateDecoder;

use crate::exit::{Failure, Outcome};
use crate::reference_pages;

/// Compressed pages, from the build script.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pages"));

/// Page of the documentation.
pub(super) struct Page<'a> {
    /// Part of the documentation, by its readers.
    pub(super) part: &'a str,
    /// Path below `docs/`, without `.md`.
    pub(super) name: &'a str,
    pub(super) title: &'a str,
    pub(super) text: &'a str,
}

impl Page<'_> {
    /// Name without its folder; for a decision record, its number.
    pub(super) fn topic(&self) -> &str {
        let name = self.name.rsplit('/').next().unwrap_or(self.name);
        if self.is_decision() { name.split('-').next().unwrap_or(name) } else { name }
    }

    pub(super) fn is_decision(&self) -> bool {
        self.name.starts_with("adr/")
    }

    pub(super) fn is_named(&self, word: &str) -> bool {
        let file = self.name.rsplit('/').next().unwrap_or(self.name);
        [self.name, self.topic(), file].iter().any(|name| name.eq_ignore_ascii_case(word))
            || self.title.eq_ignore_ascii_case(word)
    }
}

pub(super) fn unpack_pages() -> Outcome<String> {
    let mut text = String::new();
    DeflateDecoder::new(PACKED)
        .read_to_string(&mut text)
        .map_err(|error| Failure::failed(format!("the pages in this program cannot be read: {error}")))?;
    Ok(text)
}

pub(super) fn pages(unpacked: &str) -> Vec<Page<'_>> {
    let records = unpacked.split_terminator('\u{1e}');
    records
        .filter_map(|record| match *record.splitn(4, '\u{1f}').collect::<Vec<_>>() {
            [part, name, title, text] => Some(Page { part, name, title, text }),
            _ => None,
        })
        .collect()
}

/// Returns the text of a page; reference pages are generated.
pub(super) fn text(page: &Page<'_>) -> Outcome<String> {
    if !page.text.is_empty() {
        return Ok(page.text.to_owned());
    }
    let mut made = reference_pages();
    Ok(made.remove(format!("docs/{}.md", page.name).as_str()).unwrap_or_default())
}

/// Removes link targets that are files of the documentation site; addresses stay.
pub(super) fn without_targets(page: &str) -> String {
    let mut written = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("](") {
        let (text, link) = (before.rfind('['), after.split_once(')'));
        let (Some(at), Some((_, behind))) = (text, link.filter(|(target, _)| is_file(target))) else {
            written.push_str(before);
            written.push_str("](");
            rest = after;
            continue;
        };
        written.push_str(before.get(..at).unwrap_or_default().trim_end_matches('!'));
        written.push_str(before.get(at + 1..).unwrap_or_default());
        rest = behind;
    }
    written.push_str(rest);
    written
}

fn is_file(target: &str) -> bool {
    !target.contains("://") && !target.contains(char::is_whitespace)
}

use std::ops::Range;

use memchr::memmem::Finder;

use super::normal::{Form, Normal};

/// Bigger files are matched as they are or not at all.
const TOLERANT_UP_TO: usize = 8 * 1024 * 1024;

/// How a text was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Byte for byte.
    Exact,
    /// Without regard to white space at line ends, line ends, typographic characters, and how Unicode writes one.
    Tolerant,
}

/// Where a text stands in a file.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) how: How,
    /// The places, in order; they may overlap.
    pub(super) places: Vec<Place>,
}

/// One place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// What of the file matched.
    pub(super) matched: Range<usize>,
    /// What of it is to be replaced: where old and new agree at the ends, the file's own bytes stay.
    pub(super) replaced: Range<usize>,
    /// By what, as a part of the new text.
    pub(super) by: Range<usize>,
}

/// Finds `old` in `text`, to be replaced by `new`.
pub(super) fn find(text: &[u8], old: &str, new: &str) -> Option<Found> {
    let exact = occurrences(text, old.as_bytes());
    if !exact.is_empty() {
        let places = exact.map_places(old.len(), |start, end| {
            // A line feed is never torn from its carriage return.
            let torn = text.get(start) == Some(&b'\n') && start > 0 && text.get(start - 1) == Some(&b'\r');
            let matched = if torn { start - 1..end } else { start..end };
            Place { replaced: matched.clone(), matched, by: 0..new.len() }
        });
        return Some(Found { how: How::Exact, places });
    }
    if text.len() > TOLERANT_UP_TO {
        return None;
    }
    let is_ascii = text.is_ascii() && old.is_ascii();
    find_tolerant(text, old, new, Form::Typographic)
        .or_else(|| if is_ascii { None } else { find_tolerant(text, old, new, Form::Compatible) })
}

fn find_tolerant(text: &[u8], old: &str, new: &str, form: Form) -> Option<Found> {
    let (hay, needle) = (Normal::of(text, form), Normal::of(old.as_bytes(), form));
    if needle.bytes.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    let kept = Kept::between(old, new, &needle);
    let places: Vec<Place> = occurrences(&hay.bytes, &needle.bytes)
        .0
        .into_iter()
        .filter(|at| {
            // White space at the end of `old` must be there in some form: a line end, or the end.
            let after = hay.bytes.get(at + needle.bytes.len());
            !needle.trimmed || after.is_none_or(u8::is_ascii_whitespace)
        })
        // A part of a character is no match.
        .filter(|at| hay.is_boundary(*at) && hay.is_boundary(at + needle.bytes.len()))
        .filter_map(|at| kept.place(&hay, at, needle.bytes.len(), new))
        .collect();
    if places.is_empty() { None } else { Some(Found { how: How::Tolerant, places }) }
}

/// `text` without the line numbers `read_file` shows, if every line has one.
pub(super) fn without_numbers(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if line.trim().is_empty() && !line.contains('\t') {
            out.push_str(line);
            continue;
        }
        let (number, rest) = line.split_once('\t')?;
        let digits = number.trim_start();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        out.push_str(rest);
    }
    (out != text).then_some(out)
}

struct Starts(Vec<usize>);

impl Starts {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn map_places(self, len: usize, place: impl Fn(usize, usize) -> Place) -> Vec<Place> {
        self.0.into_iter().map(|start| place(start, start + len)).collect()
    }
}

/// Every position of `needle`, overlapping ones too.
fn occurrences(hay: &[u8], needle: &[u8]) -> Starts {
    let mut found = Vec::new();
    if needle.is_empty() {
        return Starts(found);
    }
    let finder = Finder::new(needle);
    let mut from = 0;
    while let Some(skip) = hay.get(from..).and_then(|rest| finder.find(rest)) {
        found.push(from + skip);
        from += skip + 1;
    }
    Starts(found)
}

/// The ends at which old and new text agree, so that nothing changes there.
struct Kept {
    /// Bytes of the new text, and of the normal form of the old one, at the beginning …
    head: (usize, usize),
    /// … and at the end.
    tail: (usize, usize),
}

impl Kept {
    fn between(old: &str, new: &str, needle: &Normal) -> Self {
        let mut head: usize =
            old.chars().zip(new.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        if let Some(unit) = needle.unit_around(head) {
            head = unit.start;
        }
        let room = old.len().min(new.len()) - head;
        let mut tail = 0;
        for (a, b) in old.chars().rev().zip(new.chars().rev()) {
            if a != b || tail + a.len_utf8() > room {
                break;
            }
            tail += a.len_utf8();
        }
        if let Some(unit) = needle.unit_around(old.len() - tail) {
            tail = old.len() - unit.end;
        }
        let total = needle.bytes.len();
        let in_head = needle.count_before(head);
        let in_tail = total.saturating_sub(needle.count_before(old.len() - tail)).min(total - in_head);
        Self { head: (head, in_head), tail: (tail, in_tail) }
    }

    fn place(&self, hay: &Normal, at: usize, len: usize, new: &str) -> Option<Place> {
        let matched = hay.start(at)?..hay.end(at + len - 1)?;
        // Where the file has one character for what agrees and what does not, all of it is replaced.
        let head = if hay.is_boundary(at + self.head.1) { self.head } else { (0, 0) };
        let tail = if hay.is_boundary(at + len - self.tail.1) { self.tail } else { (0, 0) };
        let start = match head.1 {
            0 => matched.start,
            kept => hay.end(at + kept - 1)?,
        };
        let end = match tail.1 {
            0 => matched.end,
            kept => hay.start(at + len - kept)?,
        };
        Some(Place { matched, replaced: start..end.max(start), by: head.0..new.len() - tail.0 })
    }
}

use std::ops::{ControlFlow, Range};

use memchr::memmem::Finder;

use super::normal::{Form, Normal};

/// Size in bytes above which only exact matches are tried.
const TOLERANT_UP_TO: usize = 8 * 1024 * 1024;

/// Maximum number of positions of a text that are kept, as many as a message names: a short text may occur 60
/// million times.
pub(super) const MAX_KEPT_PLACES: usize = 10;

/// Way in which a text was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Byte for byte.
    Exact,
    /// Ignoring white space at line ends, kinds of line ends, typographic characters and Unicode forms.
    Tolerant,
}

/// Occurrences of a text in a file.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) how: How,
    /// First positions, in order; they may overlap.
    pub(super) first: Vec<Place>,
    /// Number of all occurrences.
    pub(super) count: usize,
    /// Text that was searched.
    old: String,
    /// Normal form in which it was found; `None` for an exact match.
    form: Option<Form>,
}

/// Occurrence of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Matched range of the file.
    pub(super) matched: Range<usize>,
    /// Range to replace: common ends of old and new text keep the file's own bytes.
    pub(super) replaced: Range<usize>,
    /// Range of the new text that is inserted.
    pub(super) by: Range<usize>,
}

/// Finds `old` in `text`, to be replaced by `new`.
pub(super) fn find(text: &[u8], old: &str, new: &str) -> Option<Found> {
    if let Some(found) = Found::search(text, old, new, None) {
        return Some(found);
    }
    if text.len() > TOLERANT_UP_TO {
        return None;
    }
    let is_ascii = text.is_ascii() && old.is_ascii();
    let tolerant = |form| Found::search(text, old, new, Some(form));
    tolerant(Form::Typographic).or_else(|| if is_ascii { None } else { tolerant(Form::Compatible) })
}

impl Found {
    fn search(text: &[u8], old: &str, new: &str, form: Option<Form>) -> Option<Self> {
        let (mut first, mut count) = (Vec::new(), 0);
        each_place(text, old, new, form, &mut |place| {
            count += 1;
            if first.len() < MAX_KEPT_PLACES {
                first.push(place);
            }
            ControlFlow::Continue(())
        });
        let how = if form.is_none() { How::Exact } else { How::Tolerant };
        (count > 0).then(|| Self { how, first, count, old: old.to_owned(), form })
    }

    /// Visits all occurrences in order until `visit` breaks off. `text` and `new` are those of [`find`].
    pub(super) fn each_place(
        &self,
        text: &[u8],
        new: &str,
        visit: &mut impl FnMut(Place) -> ControlFlow<()>,
    ) {
        if self.count > self.first.len() {
            each_place(text, &self.old, new, self.form, visit);
        } else {
            let _ = self.first.iter().cloned().try_for_each(visit);
        }
    }
}

fn each_place(
    text: &[u8],
    old: &str,
    new: &str,
    form: Option<Form>,
    visit: &mut impl FnMut(Place) -> ControlFlow<()>,
) {
    match form {
        None => each_occurrence(text, old.as_bytes(), &mut |start| {
            let end = start + old.len();
            // A match must not split a CR LF.
            let torn = text.get(start) == Some(&b'\n') && start > 0 && text.get(start - 1) == Some(&b'\r');
            let matched = if torn { start - 1..end } else { start..end };
            visit(Place { replaced: matched.clone(), matched, by: 0..new.len() })
        }),
        Some(form) => each_tolerant_place(text, old, new, form, visit),
    }
}

fn each_tolerant_place(
    text: &[u8],
    old: &str,
    new: &str,
    form: Form,
    visit: &mut impl FnMut(Place) -> ControlFlow<()>,
) {
    let (hay, needle) = (Normal::of(text, form), Normal::of(old.as_bytes(), form));
    if needle.bytes.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    let kept = Kept::between(old, new, &needle);
    each_occurrence(&hay.bytes, &needle.bytes, &mut |at| {
        let end = at + needle.bytes.len();
        // White space at the end of `old` needs a counterpart: white space or the end of the file.
        let is_ended = !needle.trimmed || hay.bytes.get(end).is_none_or(u8::is_ascii_whitespace);
        // A part of a normalised character is no match.
        if !is_ended || !hay.is_boundary(at) || !hay.is_boundary(end) {
            return ControlFlow::Continue(());
        }
        kept.place(&hay, at, needle.bytes.len(), new).map_or(ControlFlow::Continue(()), &mut *visit)
    });
}

/// `text` without the line numbers of `read_file`, if every line has one.
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

/// Visits every position of `needle`, overlapping ones included, until `visit` breaks off.
fn each_occurrence(hay: &[u8], needle: &[u8], visit: &mut impl FnMut(usize) -> ControlFlow<()>) {
    if let [byte] = needle {
        let _ = memchr::memchr_iter(*byte, hay).try_for_each(visit);
        return;
    }
    if needle.is_empty() {
        return;
    }
    let finder = Finder::new(needle);
    let mut from = 0;
    while let Some(skip) = hay.get(from..).and_then(|rest| finder.find(rest)) {
        if visit(from + skip).is_break() {
            return;
        }
        from += skip + 1;
    }
}

/// Common ends of old and new text, which are not replaced.
struct Kept {
    /// Bytes of the common beginning, in the new text and in the old one's normal form.
    head: (usize, usize),
    /// Bytes of the common end.
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
        // If one character of the file covers both common and changed text, all of it is replaced.
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

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use zk_core::model::{ToolError, ToolErrorKind};

use super::matching::{Found, How, MAX_KEPT_PLACES, Place, find, without_numbers};
use super::nearest;
use crate::text::count;
use crate::tool_names::ToolNames;

/// Requested replacement of a text.
#[derive(Clone, Debug)]
pub(super) struct Replacement {
    pub(super) old: String,
    pub(super) new: String,
    pub(super) all: bool,
}

/// Replacement whose positions in the content are known.
#[derive(Debug)]
pub(super) struct Planned<'a> {
    found: Found,
    new: Cow<'a, str>,
    /// Whether the new text keeps its own line ends.
    verbatim: bool,
    /// Lines with replacements, in the content before the edit.
    pub(super) lines: Lines,
}

/// Line numbers at which a text occurs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lines {
    /// Number of occurrences.
    pub(super) count: usize,
    /// Lines of the first occurrences, from 1; as many as a message names.
    pub(super) first: Vec<usize>,
}

/// Reason why an edit failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The old text is empty.
    Empty,
    /// Old and new text are equal.
    Same,
    /// The old text occurs at several lines.
    Ambiguous(Lines),
    /// The old text does not occur; with the most similar lines, if any.
    Missing(Option<String>),
}

/// Finds the positions of one edit in `content`.
pub(super) fn plan<'a>(content: &[u8], edit: &'a Replacement) -> Result<Planned<'a>, Failure> {
    if edit.old.is_empty() {
        return Err(Failure::Empty);
    }
    if edit.old == edit.new {
        return Err(Failure::Same);
    }
    let (found, new) =
        locate(content, edit).ok_or_else(|| Failure::Missing(nearest::nearest(content, &edit.old)))?;
    let lines = Lines { count: found.count, first: line_numbers(content, &found.first) };
    if found.count > 1 && !edit.all {
        return Err(Failure::Ambiguous(lines));
    }
    Ok(Planned { found, new, verbatim: edit.old.contains("\r\n"), lines })
}

fn locate<'a>(content: &[u8], edit: &'a Replacement) -> Option<(Found, Cow<'a, str>)> {
    if let Some(found) = find(content, &edit.old, &edit.new) {
        return Some((found, Cow::Borrowed(&edit.new)));
    }
    let old = without_numbers(&edit.old).filter(|old| !old.is_empty())?;
    let new = without_numbers(&edit.new).map_or(Cow::Borrowed(edit.new.as_str()), Cow::Owned);
    Some((find(content, &old, &new)?, new))
}

impl Planned<'_> {
    pub(super) fn how(&self) -> How {
        self.found.how
    }

    /// Whether the edit changes the content.
    pub(super) fn changes(&self, content: &[u8]) -> bool {
        let (mut copied, mut at, mut is_changed) = (0, 0, false);
        let differs = |piece: &[u8], stands_at: Option<usize>, at: &mut usize| {
            let begin = *at;
            *at += piece.len();
            // An unmoved piece needs no comparison.
            stands_at != Some(begin) && content.get(begin..*at) != Some(piece)
        };
        self.each_splice(content, &mut |replaced, by| {
            let kept = content.get(copied..replaced.start).unwrap_or_default();
            is_changed = differs(kept, Some(copied), &mut at) || differs(by.as_bytes(), None, &mut at);
            copied = replaced.end;
            if is_changed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let rest = content.get(copied..).unwrap_or_default();
        is_changed || differs(rest, Some(copied), &mut at) || at != content.len()
    }

    /// Length of the content after the edit, in bytes; `None` if it overflows.
    pub(super) fn length_after(&self, content: &[u8]) -> Option<usize> {
        let mut length = Some(content.len());
        self.each_splice(content, &mut |replaced, by| {
            length = length.and_then(|length| length.checked_sub(replaced.len())?.checked_add(by.len()));
            if length.is_some() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        length
    }

    /// Applies the edit. Bytes outside of the matches are kept; a single match is replaced in place.
    pub(super) fn apply(&self, mut content: Vec<u8>) -> Vec<u8> {
        if self.found.count == 1 {
            let mut splice = None;
            self.each_splice(&content, &mut |replaced, by| {
                splice = Some((replaced, by.into_owned()));
                ControlFlow::Break(())
            });
            if let Some((replaced, by)) = splice {
                content.splice(replaced, by.into_bytes());
            }
            return content;
        }
        let mut out = Vec::with_capacity(content.len() + self.new.len());
        let mut copied = 0;
        self.each_splice(&content, &mut |replaced, by| {
            out.extend_from_slice(content.get(copied..replaced.start).unwrap_or_default());
            out.extend_from_slice(by.as_bytes());
            copied = replaced.end;
            ControlFlow::Continue(())
        });
        out.extend_from_slice(content.get(copied..).unwrap_or_default());
        out
    }

    /// Visits the replaced ranges in `content`, in order and without overlaps, with their replacements.
    fn each_splice(
        &self,
        content: &[u8],
        visit: &mut impl FnMut(Range<usize>, Cow<'_, str>) -> ControlFlow<()>,
    ) {
        let (mut copied, mut line_ends) = (0, LineEnds::of(content));
        self.found.each_place(content, &self.new, &mut |Place { matched, replaced, by }| {
            // Overlaps an earlier replaced range.
            if matched.start < copied || content.get(replaced.clone()).is_none() {
                return ControlFlow::Continue(());
            }
            copied = replaced.end;
            let by = self.new.get(by).unwrap_or(&self.new);
            let ending = if self.verbatim || !by.contains('\n') { None } else { line_ends.at(&matched) };
            visit(replaced, with_line_ends(by, ending))
        });
    }
}

/// Line ends of a content, looked up from front to back, so that each byte is examined only once.
struct LineEnds<'a> {
    content: &'a [u8],
    /// First line feed after the last region; `None` before the first search.
    next: Option<Option<usize>>,
    /// Last line feed of the content; `None` before the first search.
    last: Option<Option<usize>>,
}

impl<'a> LineEnds<'a> {
    fn of(content: &'a [u8]) -> Self {
        Self { content, next: None, last: None }
    }

    /// Line end to use in a region: its own first one, or that of its line, or the previous one. Regions come
    /// in order.
    fn at(&mut self, region: &Range<usize>) -> Option<&'static str> {
        let content = self.content;
        let own = content.get(region.clone()).and_then(|part| memchr::memchr(b'\n', part));
        let at =
            own.map(|at| region.start + at).or_else(|| self.next_line_feed(region.end)).or_else(|| {
                // No line ends in or after the region, so the line before it tells.
                *self.last.get_or_insert_with(|| memchr::memrchr(b'\n', content))
            })?;
        let after_cr = at.checked_sub(1).and_then(|at| content.get(at)) == Some(&b'\r');
        Some(if after_cr { "\r\n" } else { "\n" })
    }

    /// First line feed from `end` on.
    fn next_line_feed(&mut self, end: usize) -> Option<usize> {
        match self.next {
            Some(None) => None,
            Some(Some(next)) if next >= end => Some(next),
            Some(Some(_)) | None => {
                let rest = self.content.get(end..).unwrap_or_default();
                let next = memchr::memchr(b'\n', rest).map(|at| end + at);
                self.next = Some(next);
                next
            }
        }
    }
}

fn with_line_ends<'a>(text: &'a str, ending: Option<&str>) -> Cow<'a, str> {
    match ending {
        Some("\r\n") if text.contains('\n') => Cow::Owned(text.replace("\r\n", "\n").replace('\n', "\r\n")),
        Some("\n") if text.contains("\r\n") => Cow::Owned(text.replace("\r\n", "\n")),
        Some(_) | None => Cow::Borrowed(text),
    }
}

/// Line numbers of the positions, from 1. Positions are sorted, so the content is scanned once.
fn line_numbers(content: &[u8], places: &[Place]) -> Vec<usize> {
    let (mut line, mut counted) = (1, 0);
    let mut numbers = Vec::with_capacity(places.len());
    for Place { matched, replaced, .. } in places {
        let to = matched.start.max(counted).min(replaced.start.max(matched.start));
        line += content.get(counted..to).map_or(0, |part| memchr::memchr_iter(b'\n', part).count());
        counted = to;
        numbers.push(line);
    }
    numbers
}

impl Failure {
    /// Explains the failure to the model; `which` names the edit among several.
    pub(super) fn explain(self, path: &str, which: &str, tools: &ToolNames) -> ToolError {
        let (kind, text) = match self {
            Self::Empty => (
                ToolErrorKind::InvalidArgs,
                format!(
                    "old_string is empty; give the text to replace{}",
                    tools.advise("write_file", |write| format!(", or use {write} for a new file"))
                ),
            ),
            Self::Same => (
                ToolErrorKind::InvalidArgs,
                "old_string and new_string are the same; leave this edit out, or say what should differ"
                    .to_owned(),
            ),
            Self::Ambiguous(lines) => {
                let shown: Vec<String> = lines.first.iter().map(ToString::to_string).collect();
                let more = if lines.count > shown.len() { ", …" } else { "" };
                let text = format!(
                    "old_string stands {} times in `{path}`, at lines {}{more}; add surrounding lines to make it \
                     unique, or set replace_all",
                    lines.count,
                    shown.join(", ")
                );
                (ToolErrorKind::Failed, text)
            }
            Self::Missing(Some(nearest)) => (
                ToolErrorKind::NotFound,
                format!("old_string is not in `{path}`. Most like it:\n{nearest}\nCopy the text exactly."),
            ),
            Self::Missing(None) => (
                ToolErrorKind::NotFound,
                format!("old_string is not in `{path}`, nor anything like it; read the file again"),
            ),
        };
        ToolError::new(kind, format!("{which}{text}"))
    }
}

/// Reports the applied edits to the model.
pub(super) fn report(path: &str, done: &[(Lines, How)]) -> String {
    let total: usize = done.iter().map(|(lines, _)| lines.count).sum();
    let first = done.iter().flat_map(|(lines, _)| &lines.first);
    let lines: Vec<String> = first.take(MAX_KEPT_PLACES).map(ToString::to_string).collect();
    let more = if total > lines.len() { ", …" } else { "" };
    let place = if lines.len() == 1 { "line" } else { "lines" };
    let mut text =
        format!("Edited `{path}`: {} ({place} {}{more})", count(total, "replacement"), lines.join(", "));
    if done.iter().any(|(_, how)| *how == How::Tolerant) {
        text.push_str("; matched although white space or quotes differ");
    }
    text
}

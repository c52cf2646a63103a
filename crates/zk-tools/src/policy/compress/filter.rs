//! Removal of noise from one output.

use std::collections::{BTreeMap, BTreeSet};

use super::command::Run;
use super::learned;
use super::rules::{Kind, Line, Rules, complains};

/// Minimum number of consecutive noise lines that a note replaces.
const MIN_NOISE_LINES: usize = 4;

/// Minimum number of consecutive similar lines for a note.
pub(super) const MIN_SIMILAR_LINES: usize = 5;

/// An output without its noise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Compressed {
    pub(super) text: String,
    /// Lines that were left out, by kind.
    pub(super) left_out: BTreeMap<Kind, usize>,
}

impl Compressed {
    pub(super) fn left_out_lines(&self) -> usize {
        self.left_out.values().sum()
    }

    /// Describes the omission: `312 lines: progress of a build, passed tests`.
    pub(super) fn describe(&self) -> String {
        let kinds: Vec<&str> = self.left_out.keys().map(|kind| kind.words()).collect();
        format!("{} lines: {}", self.left_out_lines(), kinds.join(", "))
    }
}

/// Lines of an output as a terminal shows them at the end.
pub(super) fn shown_lines(text: &str) -> Vec<String> {
    text.split('\n').map(as_terminal_shows).collect()
}

/// Removes noise from the output `shown` of `runs`, also by learned forms of lines. Error lines are kept, and every
/// kept line is unchanged.
pub(super) fn compress(runs: &[Run], shown: &[String], learned: &BTreeSet<String>) -> Compressed {
    let mut rules = Rules::of(runs);
    let is_learned = |line: &String| {
        !learned.is_empty() && learned::shape(line).is_some_and(|shape| learned.contains(&shape))
    };
    let judged = shown.iter().map(|line| match rules.judge(line) {
        Line::Surely(kind) => Some(kind),
        Line::Likely(kind) if !complains(line) => Some(kind),
        Line::Kept if is_learned(line) => Some(Kind::Learned),
        Line::Likely(_) | Line::Kept => None,
    });
    let mut noise: Vec<Option<Kind>> = judged.collect();
    mark_repeated_lines(shown, &mut noise);
    leave_out_runs(shown, &noise)
}

/// Replaces runs of lines with one kind of noise by a note and their last line, which tells the progress.
pub(super) fn leave_out_runs(shown: &[String], noise: &[Option<Kind>]) -> Compressed {
    let mut out = Out::default();
    let mut at = 0;
    while at < shown.len() {
        let kind = noise.get(at).copied().flatten();
        let same = noise.iter().skip(at).take_while(|next| kind.is_some() && **next == kind).count();
        match kind {
            Some(kind) if same >= MIN_NOISE_LINES => {
                let last = at + same - 1;
                out.omit_lines(kind, same - 1);
                out.keep(shown.get(last));
                at += same;
            }
            _ => {
                out.keep(shown.get(at));
                at += 1;
            }
        }
    }
    out.finish()
}

#[derive(Default)]
struct Out {
    lines: Vec<String>,
    left_out: BTreeMap<Kind, usize>,
}

impl Out {
    fn keep(&mut self, line: Option<&String>) {
        self.lines.extend(line.cloned());
    }

    fn omit_lines(&mut self, kind: Kind, lines: usize) {
        *self.left_out.entry(kind).or_default() += lines;
        self.lines.push(format!("[… {lines} lines left out: {}]", kind.words()));
    }

    fn finish(self) -> Compressed {
        Compressed { text: self.lines.join("\n"), left_out: self.left_out }
    }
}

/// Line as finally shown by a terminal: without colours and overwritten text.
fn as_terminal_shows(line: &str) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let last = line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or(line);
    without_colours(last)
}

fn without_colours(line: &str) -> String {
    if !line.contains('\u{1b}') {
        return line.to_owned();
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        let end = after.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'));
        match end.map(|end| after.split_at(end)) {
            Some((_, code)) if code.starts_with(['m', 'K']) => rest = code.get(1..).unwrap_or_default(),
            _ => {
                out.push_str("\u{1b}[");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Marks all but the first of consecutive log lines that differ only in numbers. Error lines are marked only
/// if they are identical.
fn mark_repeated_lines(lines: &[String], noise: &mut [Option<Kind>]) {
    let mut at = 0;
    while at < lines.len() {
        let Some(first) = lines.get(at) else { break };
        let shape = shape(first).filter(|_| !complains(first));
        let alike = |line: &&String| {
            *line == first || (shape.is_some() && self::shape(line) == shape && !complains(line))
        };
        let count =
            if first.trim().is_empty() { 1 } else { lines.iter().skip(at).take_while(alike).count().max(1) };
        let is_free = noise.iter().skip(at).take(count).all(Option::is_none);
        if count >= MIN_SIMILAR_LINES && is_free {
            noise.iter_mut().skip(at + 1).take(count - 1).for_each(|one| *one = Some(Kind::Repeated));
        }
        at += count;
    }
}

/// Common form of similar log lines: the line without its numbers. `None` for other lines, whose numbers may
/// matter.
fn shape(line: &str) -> Option<String> {
    if !is_log_line(line) {
        return None;
    }
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        let c = if c.is_ascii_digit() { '0' } else { c };
        if c != '0' || !out.ends_with('0') {
            out.push(c);
        }
    }
    Some(out)
}

/// Whether a line begins with a date or a time of day, and names a level below a warning.
fn is_log_line(line: &str) -> bool {
    let begin = line.trim_start_matches(['[', '(']);
    let is_time = |text: &str| {
        let mut parts = text.splitn(3, [':', '-', '/']);
        let is_number =
            |part: &str| part.len() >= 2 && part.bytes().take(2).all(|byte| byte.is_ascii_digit());
        parts.by_ref().take(2).filter(|part| is_number(part)).count() == 2 && parts.next().is_some()
    };
    const LEVELS: [&str; 5] = ["INFO", "DEBUG", "TRACE", " info", " debug"];
    let head: String = line.chars().take(60).collect();
    is_time(begin) && LEVELS.iter().any(|level| head.contains(level))
}

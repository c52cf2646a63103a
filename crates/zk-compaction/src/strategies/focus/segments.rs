//! Sections of omitted messages as text, which is parsed again to be extended.

use std::fmt::Write;
use std::sync::Arc;

use zk_core::model::{Message, Role};

use crate::plan::cut::is_prompt;
use crate::strategies::summary::is_from_before;
use crate::text::message_line;
use crate::text::word_overlap::WordSet;

/// Heading of the text, for the model.
pub(super) const HEAD: &str = "\
What this conversation was about before, a part for each thing that was worked on; conversation_recall shows the messages, \
by their numbers, in full.\n";

/// Note in place of dropped sections.
const OLDER: &str = "(older parts are not here; conversation_recall browses and searches them)\n";

/// Title of a section made of another strategy's summary.
const EARLIER: &str = "an earlier summary";

/// Maximum number of lines of a section.
const MAX_LINES_OF_SEGMENT: usize = 40;

/// Minimum word similarity for merging two sections, from 0 to 1.
const MIN_LIKENESS: f64 = 0.35;

/// Section about one prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) title: String,
    pub(super) lines: Vec<String>,
}

/// All sections, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Segments {
    pub(super) all: Vec<Segment>,
    left_out: bool,
}

impl Segments {
    /// Parses the result of [`Segments::text`]; a text of another strategy becomes one section.
    pub(super) fn parse(text: &str) -> Self {
        if !text.starts_with(HEAD) {
            let lines = text.lines().map(|line| line.trim_start_matches(['#', '-', ' ']).to_owned());
            let lines = lines.filter(|line| !line.is_empty()).collect();
            let all = vec![Segment { title: EARLIER.to_owned(), lines }];
            return Self { all, left_out: false };
        }
        let mut segments = Self { all: Vec::new(), left_out: text.contains(OLDER) };
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                segments.all.push(Segment { title: title.to_owned(), lines: Vec::new() });
            } else if let (Some(line), Some(last)) = (line.strip_prefix("- "), segments.all.last_mut()) {
                last.lines.push(line.to_owned());
            }
        }
        segments
    }

    /// Adds omitted messages, the first of which has `number`. Each prompt of a person begins a section.
    pub(super) fn add(&mut self, messages: &[Arc<Message>], number: usize) {
        let new = messages.iter().filter(|message| !is_from_before(message));
        for (at, message) in new.enumerate() {
            let line = format!("#{} {}", number + at, message_line::of(message));
            if is_prompt(message) || self.all.is_empty() {
                self.all.push(Segment { title: line, lines: Vec::new() });
                continue;
            }
            // Results are left out unless they failed, since they say little without their calls.
            let is_told = message.role == Role::Assistant || message.results().all(|result| result.is_error);
            if let Some(last) = self.all.last_mut().filter(|_| is_told) {
                last.lines.push(line);
                shorten(&mut last.lines, MAX_LINES_OF_SEGMENT);
            }
        }
    }

    /// Formats the sections in at most `room` bytes: the oldest are reduced to their titles, then dropped.
    pub(super) fn text(mut self, room: usize) -> String {
        let mut size: usize = self.all.iter().map(Segment::size).sum();
        for segment in &mut self.all {
            if size <= room {
                break;
            }
            let lines = std::mem::take(&mut segment.lines);
            size -= lines.iter().map(|line| line.len() + 3).sum::<usize>();
        }
        while size > room && self.all.len() > 1 {
            size -= self.all.remove(0).size();
            self.left_out = true;
        }
        let mut text = HEAD.to_owned();
        if self.left_out {
            text.push_str(OLDER);
        }
        for Segment { title, lines } in &self.all {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "## {title}");
            for line in lines {
                let _ = writeln!(text, "- {line}");
            }
        }
        text
    }

    /// Merges similar sections, at the position of the newest. Compares all pairs, so it needs its own
    /// thread. Returns whether there were any.
    pub(super) fn consolidate(&mut self) -> bool {
        let words: Vec<WordSet> = self.all.iter().map(Segment::words).collect();
        let mut merged = false;
        // Each merges into the first similar newer one, oldest first, so that chains end in the newest.
        let mut into: Vec<Option<usize>> = Vec::with_capacity(self.all.len());
        for (at, one) in words.iter().enumerate() {
            let newer = words.iter().enumerate().skip(at + 1);
            into.push(
                newer.filter(|(_, other)| one.likeness(other) >= MIN_LIKENESS).map(|(newer, _)| newer).next(),
            );
        }
        for (at, newer) in into.iter().enumerate() {
            let Some(newer) = newer else { continue };
            let Some(old) = self.all.get_mut(at).map(|old| std::mem::replace(old, Segment::empty())) else {
                continue;
            };
            if let Some(segment) = self.all.get_mut(*newer) {
                let known = std::mem::take(&mut segment.lines);
                let old = std::iter::once(old.title).chain(old.lines);
                for line in old.chain(known) {
                    if !segment.lines.iter().any(|other| without_number(other) == without_number(&line)) {
                        segment.lines.push(line);
                    }
                }
                shorten(&mut segment.lines, MAX_LINES_OF_SEGMENT);
                merged = true;
            }
        }
        self.all.retain(|segment| !segment.title.is_empty());
        merged
    }
}

impl Segment {
    fn empty() -> Self {
        Self { title: String::new(), lines: Vec::new() }
    }

    fn size(&self) -> usize {
        self.title.len() + 4 + self.lines.iter().map(|line| line.len() + 3).sum::<usize>()
    }

    fn words(&self) -> WordSet {
        WordSet::of(&format!(
            "{}\n{}",
            without_number(&self.title),
            self.lines.iter().map(|line| without_number(line)).collect::<Vec<_>>().join("\n")
        ))
    }
}

/// Line without its message number.
fn without_number(line: &str) -> &str {
    match line.split_once(' ') {
        Some((number, rest)) if number.starts_with('#') => rest,
        Some(_) | None => line,
    }
}

/// Leaves out the middle of more than `most` lines.
fn shorten(lines: &mut Vec<String>, most: usize) {
    if lines.len() > most {
        lines.drain(most / 4..lines.len() - most / 4 * 3);
    }
}

#[cfg(test)]
mod tests {
    use zk_core::model::Block;

    use super::*;

    fn conversation() -> Vec<Arc<Message>> {
        let say = |text: &str| Message::user_text(text).shared();
        let answer = |text: &str| Message::assistant(vec![Block::text(text)]).shared();
        vec![
            say("repair the login form of the shop"),
            answer("I repaired the login form; the token was stale."),
            say("paint the lighthouse red"),
            answer("It is red."),
            say("the login form of the shop is broken again"),
            answer("I repaired the login form; the cookie was stale."),
        ]
    }

    #[test]
    fn sections_are_formatted_parsed_and_extended() {
        let messages = conversation();
        let mut segments = Segments::default();
        segments.add(&messages[..4], 1);
        let text = segments.clone().text(10_000);
        assert!(text.contains("## #3 person: paint the lighthouse red\n- #4 agent: It is red.\n"), "{text}");
        let mut read = Segments::parse(&text);
        assert_eq!(read, segments);
        read.add(&messages[4..], 5);
        assert_eq!(read.all.len(), 3);
    }

    #[test]
    fn similar_sections_are_merged_at_the_newest_without_repeated_lines() {
        let mut segments = Segments::default();
        segments.add(&conversation(), 1);
        assert!(segments.consolidate());
        let titles: Vec<_> = segments.all.iter().map(|segment| segment.title.as_str()).collect();
        let newest = "#5 person: the login form of the shop is broken again";
        assert_eq!(titles, ["#3 person: paint the lighthouse red", newest]);
        let lines = &segments.all[1].lines;
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("#1 person: repair"), "{lines:?}");
        let before = segments.clone();
        assert!(!segments.consolidate(), "at rest nothing changes");
        assert_eq!(segments, before);
    }

    #[test]
    fn sections_without_room_become_titles_and_are_then_dropped_with_a_note() {
        let mut segments = Segments::default();
        for number in 0..50 {
            segments.add(&conversation()[..2], number * 2);
        }
        let text = segments.text(1000);
        assert!(text.len() < 1000 + HEAD.len() + OLDER.len() && text.contains(OLDER), "{text}");
        assert!(Segments::parse(&text).left_out);
    }
}

//! Separates reasoning between tags at the beginning of the text, for servers that do not.

use std::borrow::Cow;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of the text, either reasoning or answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Thought(Cow<'a, str>),
    Answer(Cow<'a, str>),
}

/// Splitter of reasoning between tags from the text after it, however the text is cut into deltas. Only tags
/// at the beginning count: later ones are part of the text.
#[derive(Debug, Default)]
pub(super) struct Tags {
    state: State,
    /// Held-back text that may be the beginning of a tag.
    held: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    /// At most white space has arrived.
    #[default]
    Start,
    /// After the opening tag, followed by at most line ends.
    Opened,
    Inside,
    /// After the closing tag, followed by at most white space.
    Behind,
    /// All further text is passed on.
    Text,
}

impl Tags {
    /// Creates a splitter that passes all text on.
    pub(super) fn off() -> Self {
        Self { state: State::Text, held: String::new() }
    }

    /// Reads a delta of the text, and calls `emit` for each piece whose kind is certain.
    pub(super) fn split<'a>(&mut self, delta: Cow<'a, str>, mut emit: impl FnMut(Part<'a>)) {
        if self.state == State::Text {
            return emit(Part::Answer(delta));
        }
        self.held.push_str(&delta);
        let mut rest = std::mem::take(&mut self.held);
        loop {
            match self.state {
                State::Start => {
                    let begun = rest.trim_start();
                    if OPEN.starts_with(begun) && begun.len() < OPEN.len() {
                        break;
                    }
                    match begun.strip_prefix(OPEN) {
                        Some(thought) => {
                            rest = thought.to_owned();
                            self.state = State::Opened;
                        }
                        None => self.state = State::Text,
                    }
                }
                State::Opened => {
                    rest = rest.trim_start_matches(['\r', '\n']).to_owned();
                    if rest.is_empty() {
                        return;
                    }
                    self.state = State::Inside;
                }
                State::Inside => {
                    let Some((thought, answer)) = rest.split_once(CLOSE) else {
                        let held = rest.split_off(rest.len() - partial_closing_tag_length(&rest));
                        emit(Part::Thought(std::mem::replace(&mut rest, held).into()));
                        break;
                    };
                    emit(Part::Thought(thought.to_owned().into()));
                    rest = answer.to_owned();
                    self.state = State::Behind;
                }
                State::Behind => {
                    rest = rest.trim_start().to_owned();
                    if rest.is_empty() {
                        return;
                    }
                    self.state = State::Text;
                }
                State::Text => return emit(Part::Answer(rest.into())),
            }
        }
        self.held = rest;
    }

    /// Returns the held-back part at the end of the answer.
    pub(super) fn end(&mut self) -> Option<Part<'static>> {
        let held = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.state, State::Text) {
            _ if held.is_empty() => None,
            State::Inside => Some(Part::Thought(held.into())),
            State::Start | State::Opened | State::Behind | State::Text => Some(Part::Answer(held.into())),
        }
    }
}

/// Returns the length of the longest suffix that is a beginning of the closing tag, in bytes.
fn partial_closing_tag_length(text: &str) -> usize {
    (1..CLOSE.len())
        .rev()
        .find(|length| CLOSE.get(..*length).is_some_and(|tag| text.ends_with(tag)))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the thoughts and the answer of a text that arrives in these pieces.
    fn read<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let (mut tags, mut thought, mut answer) = (Tags::default(), String::new(), String::new());
        let mut emit = |part: Part<'_>| match part {
            Part::Thought(text) => thought.push_str(&text),
            Part::Answer(text) => answer.push_str(&text),
        };
        for piece in pieces {
            tags.split(piece.into(), &mut emit);
        }
        if let Some(rest) = tags.end() {
            emit(rest);
        }
        (thought, answer)
    }

    #[test]
    fn only_think_tags_at_the_start_of_an_answer_are_reasoning() {
        for (text, thought, answer) in [
            ("<think>\nhm\n</think>\n\nHi", "hm\n", "Hi"),
            ("\n <think>a < b</think>c</think>", "a < b", "c</think>"),
            ("<think></think>Hi", "", "Hi"),
            ("Use <think>x</think>", "", "Use <think>x</think>"),
            ("<thin", "", "<thin"),
            (" ", "", " "),
            ("<think>cut in the middle </thi", "cut in the middle </thi", ""),
            ("</think>Hi", "", "</think>Hi"),
            ("<thinking>x</thinking>", "", "<thinking>x</thinking>"),
        ] {
            assert_eq!(read([text]), (thought.to_owned(), answer.to_owned()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_pieces_make_no_difference(
            text in "[ \n]{0,2}(<think>)?([a-zä<>/]|</?think>|\n){0,12}(</think>)?[ \n]{0,2}[a-zä<]{0,6}",
            cuts in prop::collection::vec(0..80usize, 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|at| text.is_char_boundary(*at)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).filter_map(|pair| text.get(pair[0]..pair[1]));
            prop_assert_eq!(read(pieces), read([&*text]));
        }

        #[test]
        fn nothing_is_lost_but_tags_and_the_space_around_them(text in "([a-z<>/ \n]|</?think>){0,20}") {
            let (thought, answer) = read([&*text]);
            let plain = |text: &str| text.replace(OPEN, "").replace(CLOSE, "").replace(char::is_whitespace, "");
            prop_assert_eq!(plain(&(thought + &answer)), plain(&text));
        }
    }
}

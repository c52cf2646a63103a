use std::sync::Arc;

use serde_json::{Map, Value};

use super::NAMELESS_CALL;
use super::extract::{CallPiece, CallReader, ExtractedCall};

/// Longest beginning of a line that is looked at for a fence, in bytes. Longer lines are text.
const MAX_FENCE_LINE_BYTES: usize = 1024;
/// Minimum number of characters of a fence.
const MIN_FENCE: usize = 3;
/// Spaces in front of a fence that Markdown allows.
const MAX_INDENT: usize = 3;

/// Reader of text with fenced calls in it. It looks at whole lines where they may be fences, and passes all other text
/// on at once.
pub(super) struct FenceReader {
    /// Info string of a call.
    info: Arc<str>,
    /// Current line, as far as it has arrived.
    line: String,
    /// Whether the line is known to be no fence, so that it was passed on.
    is_passed: bool,
    state: State,
    held: HeldCall,
}

#[derive(Default)]
enum State {
    #[default]
    Text,
    /// Within another fence, whose content is an example.
    Example(Fence),
    /// Within a call, with the lines so far.
    Call(String),
}

/// Opening line of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fence {
    mark: char,
    count: usize,
}

impl CallReader for FenceReader {
    fn push(&mut self, delta: &str) -> Vec<CallPiece> {
        let mut out = Out::default();
        for part in delta.split_inclusive('\n') {
            self.read_line_part(part, &mut out);
        }
        self.held.push_pieces(out.pieces)
    }

    fn finish(&mut self, is_cut: bool) -> Vec<CallPiece> {
        let mut out = Out::default();
        let line = std::mem::take(&mut self.line);
        match std::mem::take(&mut self.state) {
            State::Call(mut body) => {
                let is_closed = is_closing(&line, CALL);
                if !is_closed {
                    body.push_str(&line);
                }
                out.call(if is_cut && !is_closed { cut_call(&body, &self.info) } else { read_call(body) });
            }
            State::Text if opens_call(&line, &self.info) => out.call(cut_call("", &self.info)),
            State::Text | State::Example(_) if self.is_passed => {}
            State::Text | State::Example(_) => out.text(&line),
        }
        self.is_passed = false;
        let mut pieces = self.held.push_pieces(out.pieces);
        self.held.release(&mut pieces);
        pieces
    }
}

/// Fence around a call.
const CALL: Fence = Fence { mark: '`', count: MIN_FENCE };

impl FenceReader {
    pub(super) fn new(info: Arc<str>) -> Self {
        let (line, is_passed) = (String::new(), false);
        Self { info, line, is_passed, state: State::default(), held: HeldCall::default() }
    }

    /// Reads a part of a line, with its end if it has one.
    fn read_line_part(&mut self, part: &str, out: &mut Out) {
        let is_end = part.ends_with('\n');
        if self.is_passed {
            out.text(part);
            self.is_passed = !is_end;
            return;
        }
        self.line.push_str(part);
        if is_end {
            let line = std::mem::take(&mut self.line);
            self.end_line(&line, out);
        } else if matches!(self.state, State::Text | State::Example(_)) && !may_be_fence(&self.line) {
            out.text(&std::mem::take(&mut self.line));
            self.is_passed = true;
        }
    }

    fn end_line(&mut self, line: &str, out: &mut Out) {
        self.state = match std::mem::take(&mut self.state) {
            State::Text if opens_call(line, &self.info) => State::Call(String::new()),
            State::Text => {
                let opened = parse_opening(line);
                out.text(line);
                opened.map_or(State::Text, State::Example)
            }
            State::Example(fence) => {
                let is_closed = is_closing(line, fence);
                out.text(line);
                if is_closed { State::Text } else { State::Example(fence) }
            }
            State::Call(body) if is_closing(line, CALL) => {
                out.call(read_call(body));
                State::Text
            }
            State::Call(mut body) => {
                body.push_str(line);
                State::Call(body)
            }
        };
    }
}

/// Whether a beginning of a line may still be that of a fence.
fn may_be_fence(line: &str) -> bool {
    let indented = line.trim_start_matches(' ');
    let mark = indented.chars().next();
    line.len() <= MAX_FENCE_LINE_BYTES
        && line.len() - indented.len() <= MAX_INDENT
        && mark.is_none_or(|mark| {
            let count = indented.chars().take_while(|c| *c == mark).count();
            matches!(mark, '`' | '~') && (count >= MIN_FENCE || count == indented.chars().count())
        })
}

fn opens_call(line: &str, info: &str) -> bool {
    line.strip_prefix("```").is_some_and(|given| given.trim_end() == info)
}

/// Returns the fence that a line opens, as Markdown has it.
fn parse_opening(line: &str) -> Option<Fence> {
    let indented = line.trim_start_matches(' ');
    let mark = indented.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let count = indented.chars().take_while(|c| *c == mark).count();
    let info = indented.trim_start_matches(mark);
    let is_fence = line.len() <= MAX_FENCE_LINE_BYTES
        && line.len() - indented.len() <= MAX_INDENT
        && count >= MIN_FENCE
        && !(mark == '`' && info.contains('`'));
    is_fence.then_some(Fence { mark, count })
}

fn is_closing(line: &str, fence: Fence) -> bool {
    let indented = line.trim_start_matches(' ');
    let marks = indented.trim_end();
    line.len() - indented.len() <= MAX_INDENT
        && marks.chars().count() >= fence.count
        && marks.chars().all(|c| c == fence.mark)
}

/// Reads the text between the fences of a call.
fn read_call(text: String) -> ExtractedCall {
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(mut fields)) => {
            let Some(Value::String(name)) = fields.remove("name") else {
                return ExtractedCall::Whole {
                    name: NAMELESS_CALL.to_owned(),
                    arguments: Value::Object(fields),
                };
            };
            let arguments = fields.remove("arguments").unwrap_or_else(|| Map::new().into());
            ExtractedCall::Whole { name, arguments }
        }
        Ok(_) | Err(_) => ExtractedCall::Malformed { name: name_of_call(&text), text },
    }
}

/// Returns a call that was cut, with its fence, so that complete JSON does not pass for a complete call.
fn cut_call(text: &str, info: &str) -> ExtractedCall {
    ExtractedCall::Malformed { name: name_of_call(text), text: format!("```{info}\n{text}") }
}

/// Returns the name in a call that is no JSON, as far as it can be told.
pub(super) fn name_of_call(text: &str) -> String {
    let value =
        text.split_once("\"name\"").or_else(|| text.split_once("\"action\"")).map(|(_, behind)| behind);
    let quoted = value.and_then(|value| value.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"'));
    let name = quoted.and_then(|quoted| quoted.split_once('"')).map(|(name, _)| name);
    let is_name = |name: &&str| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    name.filter(is_name).unwrap_or(NAMELESS_CALL).to_owned()
}

/// Pieces in order; adjacent texts are joined.
#[derive(Default)]
struct Out {
    pieces: Vec<CallPiece>,
}

impl Out {
    fn text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(CallPiece::Text(before)) => before.push_str(text),
            Some(CallPiece::Call(_)) | None => self.pieces.push(CallPiece::Text(text.to_owned())),
        }
    }

    fn call(&mut self, call: ExtractedCall) {
        self.pieces.push(CallPiece::Call(call));
    }
}

/// Call that is held back, with the white space after it, until more of the answer arrives: a call with text after it
/// is an example, or has results that the model made up.
#[derive(Default)]
struct HeldCall(Option<(ExtractedCall, String)>);

impl HeldCall {
    /// Adds `pieces`; returns those that are certain. A call stays held back until it is known whether text follows.
    fn push_pieces(&mut self, pieces: Vec<CallPiece>) -> Vec<CallPiece> {
        let mut out = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match (piece, &mut self.0) {
                (CallPiece::Call(call), _) => {
                    self.release(&mut out);
                    self.0 = Some((call, String::new()));
                }
                (CallPiece::Text(text), Some((_, blank))) if text.trim().is_empty() => blank.push_str(&text),
                (CallPiece::Text(text), held) => {
                    if let Some((call, _)) = held {
                        mark_malformed(call);
                    }
                    self.release(&mut out);
                    out.push(CallPiece::Text(text));
                }
            }
        }
        out
    }

    fn release(&mut self, out: &mut Vec<CallPiece>) {
        if let Some((call, blank)) = self.0.take() {
            out.push(CallPiece::Call(call));
            out.extend((!blank.is_empty()).then_some(CallPiece::Text(blank)));
        }
    }
}

/// End of a call that has text behind it.
const TEXT_BEHIND: &str = "(not run: text stands behind the call)";

/// Makes a call with text behind it malformed.
fn mark_malformed(call: &mut ExtractedCall) {
    if let ExtractedCall::Whole { name, arguments } = call {
        // The refusal ends with the last 40 characters.
        let text = format!("{arguments}\n{TEXT_BEHIND}");
        *call = ExtractedCall::Malformed { name: std::mem::take(name), text };
    }
}

#[cfg(test)]
#[expect(clippy::string_slice, reason = "tests cut at boundaries that they know")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Pieces of a text that arrives in `parts`, with adjacent texts joined.
    fn read(parts: &[&str], is_cut: bool) -> Vec<CallPiece> {
        let mut reader = FenceReader::new("tool_call-3f9a".into());
        let mut all: Vec<CallPiece> = parts.iter().flat_map(|part| reader.push(part)).collect();
        all.extend(reader.finish(is_cut));
        let mut out = Out::default();
        for piece in all {
            match piece {
                CallPiece::Text(text) => out.text(&text),
                CallPiece::Call(call) => out.call(call),
            }
        }
        out.pieces
    }

    fn text(text: &str) -> CallPiece {
        CallPiece::Text(text.to_owned())
    }

    fn call(name: &str, arguments: Value) -> CallPiece {
        CallPiece::Call(ExtractedCall::Whole { name: name.to_owned(), arguments })
    }

    fn malformed(name: &str, text: &str) -> CallPiece {
        CallPiece::Call(ExtractedCall::Malformed { name: name.to_owned(), text: text.to_owned() })
    }

    const GLOB: &str = "```tool_call-3f9a\n{\"name\": \"glob\", \"arguments\": {\"p\": \"*\"}}\n```\n";

    fn glob() -> CallPiece {
        call("glob", json!({"p": "*"}))
    }

    fn refused_glob() -> CallPiece {
        malformed("glob", &format!("{{\"p\":\"*\"}}\n{TEXT_BEHIND}"))
    }

    #[test]
    fn a_call_that_is_quoted_from_a_file_is_text_and_one_with_text_behind_it_is_not_run() {
        let of_file = "```sh\nmake\n```\nThen:\n```tool_call\n{\"name\": \"glob\", \"arguments\": {}}\n```\n";
        for file in [of_file.to_owned(), of_file.replace("tool_call", "tool_call-0000")] {
            let shown = format!("It says:\n```markdown\n{file}```\n");
            assert_eq!(read(&[&shown], false), [text(&shown)]);
        }
        let known = format!("```markdown\n```sh\nmake\n```\n{GLOB}```\n");
        let before = text("```markdown\n```sh\nmake\n```\n");
        assert_eq!(read(&[&known], false), [before, refused_glob(), text("```\n")]);
    }

    #[test]
    fn calls_are_read_out_of_the_text() {
        let two = format!("one\n{GLOB}two\n{GLOB}");
        assert_eq!(read(&[&two], false), [text("one\n"), refused_glob(), text("two\n"), glob()]);
        let blank = format!("{GLOB} \n\n{GLOB}\n");
        assert_eq!(read(&[&blank], false), [glob(), text(" \n\n"), glob(), text("\n")]);
        assert_eq!(read(&["```tool_call-3f9a \r\n{\"name\": \"a\"}\r\n```"], false), [call("a", json!({}))]);
        let pretty = "```tool_call-3f9a\n{\n  \"name\": \"a\",\n  \"arguments\": {\n  }\n}\n```";
        assert_eq!(read(&[pretty], false), [call("a", json!({}))]);
    }

    #[test]
    fn only_a_fence_with_the_exact_info_at_the_start_of_a_line_and_outside_of_others_is_a_call() {
        for example in [
            format!("````markdown\n{GLOB}````\n"),
            format!("~~~\n{GLOB}~~~\n"),
            format!("```\n{}", GLOB.trim_end()),
            format!("  {}", GLOB.replace('\n', "\n  ")),
            format!("> {}", GLOB.replace('\n', "\n> ")),
            format!("see {GLOB}"),
            GLOB.replace("tool_call-3f9a", "tool_calls"),
            GLOB.replace("tool_call-3f9a", "tool_call x"),
            GLOB.replace("tool_call-3f9a", "Tool_call"),
            GLOB.replace("```tool", "````tool"),
            GLOB.replace("```tool", "``` tool"),
            GLOB.replace("```tool", "``tool"),
            "```js `tool_call`\nx\n".to_owned(),
        ] {
            assert_eq!(read(&[&example], false), [text(&example)], "{example}");
        }
        let after = format!("````\n{GLOB}````\n{GLOB}");
        assert_eq!(read(&[&after], false), [text(&format!("````\n{GLOB}````\n")), glob()]);
        let inline = format!("```js `x`\n{GLOB}");
        assert_eq!(read(&[&inline], false), [text("```js `x`\n"), glob()], "that line opens no fence");
    }

    #[test]
    fn what_is_cut_or_no_json_is_malformed() {
        for at in "```tool_call-3f9a\n".len()..GLOB.len() - "\n```\n".len() {
            let begun = &GLOB[..at];
            let pieces = read(&[begun], true);
            assert!(matches!(&pieces[..], [CallPiece::Call(ExtractedCall::Malformed { .. })]), "{begun}");
            let ended = read(&[begun], false);
            assert!(matches!(&ended[..], [CallPiece::Call(ExtractedCall::Malformed { .. })]), "{begun}");
        }
        let unclosed = GLOB.trim_end().trim_end_matches('`');
        assert_eq!(read(&[unclosed], false), [glob()], "a stop sequence may take the closing fence away");
        assert!(matches!(&read(&[unclosed], true)[..], [CallPiece::Call(ExtractedCall::Malformed { .. })]));
        assert_eq!(read(&["```tool_call-3f9a"], true), [malformed("tool_call", "```tool_call-3f9a\n")]);
        let bad = "{\"name\": \"glob\", \"arguments\": {\"p\": *}}\n";
        assert_eq!(read(&[&format!("```tool_call-3f9a\n{bad}```\n")], false), [malformed("glob", bad)]);
        assert_eq!(read(&["```tool_call-3f9a\n[1]\n```\n"], false), [malformed("tool_call", "[1]\n")]);
        assert_eq!(
            read(&["```tool_call-3f9a\n{\"x\": 1}\n```\n"], false),
            [call("tool_call", json!({"x": 1}))]
        );
    }

    #[test]
    fn text_is_passed_on_as_soon_as_it_cannot_be_a_fence() {
        let mut reader = FenceReader::new("tool_call-3f9a".into());
        assert_eq!(reader.push("Hel"), [text("Hel")]);
        assert_eq!(reader.push("lo\n`"), [text("lo\n")]);
        assert_eq!(reader.push("x"), [text("`x")]);
        assert_eq!(reader.push("\n```tool_ca"), [text("\n")]);
        assert_eq!(reader.push("ll-3f9a\n{"), []);
    }

    /// Lines that are or nearly are fences and calls.
    fn line() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("```tool_call-3f9a".to_owned()),
            Just("```tool_call".to_owned()),
            Just("```".to_owned()),
            Just("````".to_owned()),
            Just("~~~".to_owned()),
            Just("  ```".to_owned()),
            Just("```rust".to_owned()),
            Just("``` tool_call-3f9a".to_owned()),
            Just("{\"name\": \"a\", \"arguments\": {\"é\": \"```\"}}".to_owned()),
            Just("{\"name\": \"a\"".to_owned()),
            Just(String::new()),
            "[a`~é \r{]{0,8}",
        ]
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same_text_and_calls(
            lines in prop::collection::vec(line(), 0..10),
            cuts in prop::collection::vec(0_usize..200, 0..8),
            is_cut in any::<bool>(),
        ) {
            let whole = lines.join("\n");
            let mut places: Vec<usize> =
                cuts.into_iter().map(|at| whole.floor_char_boundary(at.min(whole.len()))).collect();
            places.sort_unstable();
            let mut parts = Vec::new();
            let mut from = 0;
            for at in places {
                parts.push(&whole[from..at]);
                from = at;
            }
            parts.push(&whole[from..]);
            let at_once = read(&[&whole], is_cut);
            prop_assert_eq!(&read(&parts, is_cut), &at_once);
            let chars: Vec<String> = whole.chars().map(String::from).collect();
            let chars: Vec<&str> = chars.iter().map(String::as_str).collect();
            prop_assert_eq!(&read(&chars, is_cut), &at_once);
        }

        #[test]
        fn nothing_of_a_call_is_text(before in "[a-z \n]{0,12}", size in 1_usize..9) {
            let whole = format!("{before}\n{GLOB}after\n");
            let chars: Vec<char> = whole.chars().collect();
            let parts: Vec<String> = chars.chunks(size).map(|part| part.iter().collect()).collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            prop_assert_eq!(read(&parts, false), [text(&format!("{before}\n")), refused_glob(), text("after\n")]);
        }
    }
}

use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_core::model::ToolSpec;

use super::NAMELESS_CALL;
use super::extract::{CallPiece, CallReader, ExtractedCall};
use super::fence::{FenceReader, name_of_call};

/// Returns the schema of an answer: a call of one of `tools`, or text if `with_text`.
pub(crate) fn union_schema<'a>(tools: impl Iterator<Item = &'a Arc<ToolSpec>>, with_text: bool) -> Value {
    let mut definitions = Map::new();
    let calls = tools.map(|tool| {
        json!({
            "type": "object",
            "properties": {
                "action": {"const": tool.name},
                "arguments": hoisted(tool.schema.clone(), &tool.name, &mut definitions),
            },
            "required": ["action", "arguments"],
            "additionalProperties": false,
        })
    });
    let mut branches: Vec<Value> = calls.collect();
    if with_text {
        branches.push(json!({
            "type": "object",
            "properties": {"answer": {"type": "string"}},
            "required": ["answer"],
            "additionalProperties": false,
        }));
    }
    let mut schema = json!({
        "type": "object",
        "properties": {"reply": {"anyOf": branches}},
        "required": ["reply"],
        "additionalProperties": false,
    });
    if let (false, Some(fields)) = (definitions.is_empty(), schema.as_object_mut()) {
        fields.insert("$defs".to_owned(), definitions.into());
    }
    schema
}

/// Moves the definitions of a tool's schema to those of all tools, since references point to the root.
fn hoisted(mut schema: Value, tool: &str, definitions: &mut Map<String, Value>) -> Value {
    let Some(fields) = schema.as_object_mut() else { return schema };
    fields.remove("$schema");
    fields.entry("type").or_insert_with(|| "object".into());
    for key in ["$defs", "definitions"] {
        let Some(Value::Object(own)) = fields.remove(key) else { continue };
        for (name, mut definition) in own {
            redirect(&mut definition, tool);
            definitions.insert(format!("{tool}.{name}"), definition);
        }
    }
    redirect(&mut schema, tool);
    schema
}

/// Rewrites references to the definitions of a tool to the place where they were moved.
fn redirect(schema: &mut Value, tool: &str) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get_mut("$ref") {
                let name = target.strip_prefix("#/$defs/").or_else(|| target.strip_prefix("#/definitions/"));
                if let Some(name) = name {
                    *target = format!("#/$defs/{tool}.{name}");
                }
            }
            fields.values_mut().for_each(|value| redirect(value, tool));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redirect(item, tool)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Reader of an answer that a server held to [`union_schema`]. The text of an answer is passed on as it arrives; calls
/// are complete at the end. Anything else, of a server that ignores the schema, is read as text with fenced calls.
pub(super) struct ConstrainedReader {
    state: State,
    /// Info string of fenced calls.
    info: Arc<str>,
}

impl ConstrainedReader {
    pub(super) fn new(info: Arc<str>) -> Self {
        Self { state: State::default(), info }
    }
}

#[derive(Default)]
enum State {
    /// Beginning of the object, with the text so far.
    #[default]
    Start,
    Begun(String),
    /// Within the string of an answer, with the part that cannot be decoded yet.
    Answer(String),
    /// After the string of an answer.
    End,
    /// A call, with the text so far.
    Call(String),
    Fenced(FenceReader),
}

/// Tokens at the beginning of an answer and of a call, without white space.
const ANSWER: [&str; 7] = ["{", "\"reply\"", ":", "{", "\"answer\"", ":", "\""];
const CALL: [&str; 4] = ["{", "\"reply\"", ":", "{"];

/// Result of comparing a text with the beginning of a form.
enum Begins {
    /// The text has the form's beginning, and continues at this byte.
    Yes(usize),
    /// The text is too short for a decision.
    Perhaps,
    No,
}

fn compare_beginning(text: &str, tokens: &[&str]) -> Begins {
    let mut rest = text;
    for token in tokens {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        match rest.strip_prefix(token) {
            Some(behind) => rest = behind,
            None if token.starts_with(rest) => return Begins::Perhaps,
            None => return Begins::No,
        }
    }
    Begins::Yes(text.len() - rest.len())
}

impl CallReader for ConstrainedReader {
    fn push(&mut self, delta: &str) -> Vec<CallPiece> {
        let mut out = Vec::new();
        self.state = match std::mem::take(&mut self.state) {
            State::Start => begin(delta.to_owned(), &self.info, &mut out),
            State::Begun(text) => begin(text + delta, &self.info, &mut out),
            State::Answer(text) => decode(&(text + delta), &mut out),
            State::End => State::End,
            State::Call(text) => State::Call(text + delta),
            State::Fenced(mut reader) => {
                out = reader.push(delta);
                State::Fenced(reader)
            }
        };
        out
    }

    fn finish(&mut self, is_cut: bool) -> Vec<CallPiece> {
        match std::mem::take(&mut self.state) {
            State::Start | State::End => Vec::new(),
            // A broken escape at the end of a cut answer is left out.
            State::Answer(_) => Vec::new(),
            State::Begun(text) | State::Call(text) => match read_reply(&text) {
                Some(piece) => vec![piece],
                None if text.trim().is_empty() => Vec::new(),
                None => vec![CallPiece::Call(ExtractedCall::Malformed { name: name_of_call(&text), text })],
            },
            State::Fenced(mut reader) => reader.finish(is_cut),
        }
    }
}

fn begin(text: String, info: &Arc<str>, out: &mut Vec<CallPiece>) -> State {
    match (compare_beginning(&text, &ANSWER), compare_beginning(&text, &CALL)) {
        (Begins::Yes(at), _) => decode(text.get(at..).unwrap_or_default(), out),
        (Begins::Perhaps, _) | (_, Begins::Perhaps) => State::Begun(text),
        (Begins::No, Begins::Yes(_)) => State::Call(text),
        (Begins::No, Begins::No) => {
            let mut reader = FenceReader::new(info.clone());
            out.extend(reader.push(&text));
            State::Fenced(reader)
        }
    }
}

/// Decodes the text of a JSON string as far as it is certain.
fn decode(raw: &str, out: &mut Vec<CallPiece>) -> State {
    let mut text = String::new();
    let mut rest = raw;
    let state = loop {
        let plain = rest.find(['"', '\\']).unwrap_or(rest.len());
        let (before, behind) = rest.split_at(plain);
        text.push_str(before);
        rest = behind;
        if rest.starts_with('"') {
            break State::End;
        }
        let Some(length) = escape_length(rest) else { break State::Answer(rest.to_owned()) };
        let (escape, behind) = rest.split_at(length);
        // An unpaired surrogate escape becomes the replacement character.
        text.push_str(
            &serde_json::from_str::<String>(&format!("\"{escape}\"")).unwrap_or_else(|_| "\u{fffd}".into()),
        );
        rest = behind;
    };
    if !text.is_empty() {
        out.push(CallPiece::Text(text));
    }
    state
}

/// Returns the length of the escape at the beginning of `rest`, both halves of a surrogate pair included; `None` if
/// more has to arrive.
fn escape_length(rest: &str) -> Option<usize> {
    let kind = rest.chars().nth(1)?;
    if kind != 'u' {
        return Some(1 + kind.len_utf8());
    }
    let digits = rest.get(2..).unwrap_or_default();
    let hex = digits.bytes().take(4).take_while(u8::is_ascii_hexdigit).count();
    if hex < 4 {
        // Another character ends a broken escape.
        return (digits.len() > hex).then_some(2 + hex);
    }
    let unit = digits.get(..4).and_then(|digits| u16::from_str_radix(digits, 16).ok()).unwrap_or_default();
    if !(0xd800..0xdc00).contains(&unit) {
        return Some(6);
    }
    let low = rest.get(6..).unwrap_or_default();
    let is_begun = "\\u".starts_with(low.get(..low.len().min(2)).unwrap_or("?"));
    match is_begun {
        true if low.len() < 6 && low.bytes().skip(2).all(|byte| byte.is_ascii_hexdigit()) => None,
        true => Some(if low.bytes().skip(2).take(4).all(|byte| byte.is_ascii_hexdigit()) { 12 } else { 6 }),
        false => Some(6),
    }
}

/// Reads a whole reply.
fn read_reply(text: &str) -> Option<CallPiece> {
    let mut whole: Value = serde_json::from_str(text).ok()?;
    let reply = whole.get_mut("reply")?.as_object_mut()?;
    if let Some(Value::String(answer)) = reply.remove("answer") {
        return Some(CallPiece::Text(answer));
    }
    let arguments = reply.remove("arguments");
    let call = match reply.remove("action") {
        Some(Value::String(name)) => {
            ExtractedCall::Whole { name, arguments: arguments.unwrap_or_else(|| Map::new().into()) }
        }
        Some(_) | None => {
            ExtractedCall::Whole { name: NAMELESS_CALL.to_owned(), arguments: Map::new().into() }
        }
    };
    Some(CallPiece::Call(call))
}

#[cfg(test)]
#[expect(clippy::string_slice, reason = "tests cut at boundaries that they know")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_parts(parts: &[&str], is_cut: bool) -> Vec<CallPiece> {
        let mut reader = ConstrainedReader::new("tool_call-3f9a".into());
        let mut all: Vec<CallPiece> = parts.iter().flat_map(|part| reader.push(part)).collect();
        all.extend(reader.finish(is_cut));
        let mut joined: Vec<CallPiece> = Vec::new();
        for piece in all {
            match (joined.last_mut(), piece) {
                (Some(CallPiece::Text(before)), CallPiece::Text(text)) => before.push_str(&text),
                (_, piece) => joined.push(piece),
            }
        }
        joined
    }

    fn text(text: &str) -> CallPiece {
        CallPiece::Text(text.to_owned())
    }

    #[test]
    fn an_answer_is_text_and_an_action_a_call() {
        assert_eq!(
            read_parts(&["{\"reply\": {\"answer\": \"a\\nb \\ud83d\\ude00\"}}"], false),
            [text("a\nb 😀")]
        );
        let call = "{ \"reply\" : {\"action\": \"glob\", \"arguments\": {\"p\": \"*\"}}}\n";
        let whole = ExtractedCall::Whole { name: "glob".into(), arguments: json!({"p": "*"}) };
        assert_eq!(read_parts(&[call], false), [CallPiece::Call(whole)]);
        let cut = &call[..call.len() - 4];
        let broken = ExtractedCall::Malformed { name: "glob".into(), text: cut.to_owned() };
        assert_eq!(read_parts(&[cut], true), [CallPiece::Call(broken)]);
        assert_eq!(read_parts(&["{\"reply\": {\"answer\": \"so f\\u00"], true), [text("so f")]);
        assert_eq!(read_parts(&["Plain."], false), [text("Plain.")], "a server that ignores the schema");
        assert_eq!(read_parts(&[" \n"], false), []);
    }

    #[test]
    fn the_text_of_an_answer_is_passed_on_as_it_arrives() {
        let mut reader = ConstrainedReader::new("tool_call-3f9a".into());
        assert_eq!(reader.push("{\"reply\": {\"answer\": "), []);
        assert_eq!(reader.push("\"Hel"), [text("Hel")]);
        assert_eq!(reader.push("lo\\"), [text("lo")]);
        assert_eq!(reader.push("n\"}"), [text("\n")]);
        assert_eq!(reader.finish(false), []);
    }

    #[test]
    fn definitions_of_tools_move_to_the_root_under_names_of_their_own() {
        let schema = json!({
            "type": "object", "properties": {"e": {"$ref": "#/$defs/E"}},
            "$defs": {"E": {"type": "array", "items": {"$ref": "#/$defs/E"}}},
        });
        let tools = [ToolSpec::new("a", "", schema.clone()), ToolSpec::new("b", "", schema)];
        let union = union_schema(tools.iter(), true);
        assert_eq!(union["$defs"]["a.E"]["items"]["$ref"], "#/$defs/a.E");
        let branches = union["properties"]["reply"]["anyOf"].as_array().unwrap();
        assert_eq!(branches.len(), 3);
        assert_eq!(branches[1]["properties"]["arguments"]["properties"]["e"]["$ref"], "#/$defs/b.E");
        assert_eq!(union_schema(tools.iter().take(1), false)["properties"]["reply"]["anyOf"][1], Value::Null);
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same_answer(answer in "[a\\\\\"\u{1}\néx😀u0d8]{0,24}", size in 1_usize..9, ascii in any::<bool>()) {
            let mut whole = json!({"reply": {"answer": answer}}).to_string();
            if ascii {
                let mut escaped = String::new();
                for c in whole.chars() {
                    let mut units = [0; 2];
                    if c.is_ascii() {
                        escaped.push(c);
                    } else {
                        escaped.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
                    }
                }
                whole = escaped;
            }
            let chars: Vec<char> = whole.chars().collect();
            let parts: Vec<String> = chars.chunks(size).map(|part| part.iter().collect()).collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let expected = if answer.is_empty() { Vec::new() } else { vec![text(&answer)] };
            prop_assert_eq!(read_parts(&parts, false), expected);
        }

        #[test]
        fn every_split_of_any_text_gives_the_same_pieces(
            whole in r#"(\{"reply": ?\{)?("answer": ?"|"action": ")?[a\\"}:{u0d8 \n`]{0,16}"#,
            size in 1_usize..6,
            is_cut in any::<bool>(),
        ) {
            let chars: Vec<char> = whole.chars().collect();
            let parts: Vec<String> = chars.chunks(size).map(|part| part.iter().collect()).collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            prop_assert_eq!(read_parts(&parts, is_cut), read_parts(&[&whole], is_cut));
        }
    }
}

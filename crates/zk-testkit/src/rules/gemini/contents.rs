use serde_json::Value;

use super::super::{Checked, Rule, Strictness, reject, text_of};
use super::SIGNED;
use super::part::{self, DUMMY, Kind};

/// Content with the kinds of its parts.
struct Content<'a> {
    is_model: bool,
    parts: &'a [Value],
    kinds: Vec<Kind>,
}

impl Content<'_> {
    fn of(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        self.parts.iter().zip(&self.kinds).filter(move |(_, found)| **found == kind).map(|(part, _)| part)
    }

    fn is_answer(&self) -> bool {
        self.kinds.contains(&Kind::Answer)
    }
}

pub(super) fn check(strictness: &Strictness, body: &Value, generation: u32) -> Checked {
    let contents = match body.get("contents") {
        Some(Value::Array(contents)) if !contents.is_empty() => contents,
        None | Some(Value::Array(_)) => {
            return reject(Rule::NoMessages, "* GenerateContentRequest.contents: contents is not specified");
        }
        Some(_) => return reject(Rule::Shape, "Invalid value at 'contents'"),
    };
    let read = contents.iter().enumerate().map(|(at, value)| check_content(value, at, generation));
    let contents = read.collect::<Checked<Vec<Content<'_>>>>()?;
    if contents.first().is_some_and(|first| first.is_model) {
        return reject(Rule::FirstNotUser, "Please ensure that the first content has the role 'user'.");
    }
    if !strictness.prefill && contents.last().is_some_and(|last| last.is_model) {
        return reject(
            Rule::LastNotUser,
            "Please ensure that single turn requests end with a user role or a function response.",
        );
    }
    check_order(&contents)?;
    check_call_result_pairs(&contents)?;
    if generation >= SIGNED { check_signatures(&contents) } else { Ok(()) }
}

fn check_content(value: &Value, at: usize, generation: u32) -> Checked<Content<'_>> {
    let is_model = match text_of(value, "role") {
        Some("user") | None => false,
        Some("model") => true,
        Some(_) => return reject(Rule::Role, "Please use a valid role: user, model."),
    };
    let parts = match value.get("parts") {
        Some(Value::Array(parts)) if !parts.is_empty() => parts,
        _ => {
            return reject(
                Rule::EmptyMessage,
                format!("* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty."),
            );
        }
    };
    let kinds = parts.iter().enumerate().map(|(number, part)| {
        let place = format!("contents[{at}].parts[{number}]");
        part::check(part, is_model, generation, &place)
    });
    let kinds = kinds.collect::<Checked<Vec<Kind>>>()?;
    // A placeholder is only accepted for the signature of the first call.
    let first = kinds.iter().position(|kind| *kind == Kind::Call);
    let misplaced = parts
        .iter()
        .enumerate()
        .find(|(number, part)| text_of(part, "thoughtSignature") == Some(DUMMY) && Some(*number) != first);
    if let Some((number, _)) = misplaced {
        return reject(
            Rule::Thinking,
            format!("Thought signature is not valid at 'contents[{at}].parts[{number}]'."),
        );
    }
    Ok(Content { is_model, parts, kinds })
}

/// Checks that roles alternate, except for user text after results.
fn check_order(contents: &[Content<'_>]) -> Checked {
    for (before, now) in contents.iter().zip(contents.iter().skip(1)) {
        let follows = before.is_answer() && !now.is_answer();
        if before.is_model == now.is_model && (now.is_model || !follows) {
            return reject(
                Rule::SameRole,
                "Please ensure that multiturn requests alternate between user and model.",
            );
        }
    }
    Ok(())
}

/// Checks that all calls of a step have results in the next content, and all results a call.
fn check_call_result_pairs(contents: &[Content<'_>]) -> Checked {
    for (at, content) in contents.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| contents.get(at));
        let calls: Vec<&Value> = before.into_iter().flat_map(|before| before.of(Kind::Call)).collect();
        let answers: Vec<&Value> = content.of(Kind::Answer).collect();
        if calls.len() != answers.len() {
            let rule = if answers.len() > calls.len() { Rule::OrphanResult } else { Rule::UnansweredCall };
            return reject(rule, NUMBER);
        }
        let mut open = calls;
        for answer in answers {
            let given = |field: &str| answer.pointer(&format!("/functionResponse/{field}"));
            let fits = |call: &&Value| {
                let made = |field: &str| call.pointer(&format!("/functionCall/{field}"));
                made("name") == given("name") && made("id") == given("id")
            };
            let Some(place) = open.iter().position(fits) else {
                return reject(
                    Rule::OrphanResult,
                    format!("No function call of contents[{}] has the name and id of its response.", at - 1),
                );
            };
            open.remove(place);
        }
    }
    let open = contents.last().is_some_and(|last| last.of(Kind::Call).next().is_some());
    if open { reject(Rule::UnansweredCall, NUMBER) } else { Ok(()) }
}

const NUMBER: &str = "Please ensure that the number of function response parts is equal to the number of function call \
                      parts of the function call turn.";

/// Checks that the first call of every step in the current turn has its signature.
fn check_signatures(contents: &[Content<'_>]) -> Checked {
    // Images that could not be part of the results do not begin a new turn.
    let says = |content: &Content<'_>| !content.is_model && content.kinds.contains(&Kind::Text);
    let from = contents.iter().rposition(says).unwrap_or(0);
    for content in contents.iter().skip(from) {
        if let Some(call) = content.of(Kind::Call).next()
            && text_of(call, "thoughtSignature").is_none_or(str::is_empty)
        {
            let name = call.pointer("/functionCall/name").and_then(Value::as_str).unwrap_or_default();
            return reject(
                Rule::Thinking,
                format!(
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to \
                     work correctly, and missing thought_signature may lead to degraded model performance. Additional \
                     data, function call `default_api:{name}`."
                ),
            );
        }
    }
    Ok(())
}

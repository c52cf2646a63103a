use std::collections::HashSet;

use serde_json::Value;

use super::super::{Checked, Rule, Strictness, is_blank, reject, text_of};
use super::item::{self, Kind};

/// Checks all items; returns whether there are calls or outputs.
pub(super) fn check(strictness: &Strictness, body: &Value) -> Checked<bool> {
    let items = match body.get("input") {
        None | Some(Value::Null) => {
            return reject(Rule::NoMessages, "Missing required parameter: 'input'.");
        }
        Some(Value::String(text)) if is_blank(text) => {
            return reject(Rule::EmptyText, "Invalid 'input': text must be non-empty.");
        }
        Some(Value::String(_)) => return Ok(false),
        Some(Value::Array(items)) if items.is_empty() => {
            return reject(Rule::NoMessages, "Invalid 'input': empty array.");
        }
        Some(Value::Array(items)) => items,
        Some(_) => return reject(Rule::Shape, "Invalid type for 'input': expected a string or an array."),
    };
    let mut pairs = Pairs::default();
    let mut ids: HashSet<&str> = HashSet::new();
    let mut last = None;
    for (at, item) in items.iter().enumerate() {
        let kind = item::check_kind(item, at)?;
        if let Some(id) = text_of(item, "id") {
            item::check_id(kind, id, at)?;
            if !ids.insert(id) {
                return reject(
                    Rule::DuplicateId,
                    format!(
                        "Duplicate item found with id {id}. Remove duplicate items from your input and try again."
                    ),
                );
            }
        }
        match kind {
            Kind::User => {
                pairs.check_all_answered()?;
                item::check_message(item, at, false)?;
            }
            Kind::Assistant => item::check_message(item, at, true)?,
            Kind::Reasoning => check_reasoning(body, item, items.get(at + 1), at)?,
            Kind::Call => pairs.add_call(item::check_call(strictness.ids, item, at)?)?,
            Kind::Output => pairs.add_output(item::check_output(item, at)?)?,
            Kind::System | Kind::Other => {}
        }
        if last.is_none() && matches!(kind, Kind::Assistant | Kind::Reasoning | Kind::Call) {
            return reject(Rule::FirstNotUser, "The input must begin with a message of the user.");
        }
        if kind != Kind::System {
            last = Some(kind);
        }
    }
    pairs.check_all_answered()?;
    match last {
        None => reject(Rule::NoMessages, "at least one message that is not a system message is required"),
        Some(Kind::Assistant) if !strictness.prefill => {
            reject(Rule::LastNotUser, "The input must not end with a message of the assistant.")
        }
        Some(_) => Ok(pairs.any),
    }
}

/// Checks that encrypted reasoning is directly followed by its item.
fn check_reasoning(body: &Value, item: &Value, next: Option<&Value>, at: usize) -> Checked {
    let id = text_of(item, "id").unwrap_or_default();
    if !item.get("summary").is_some_and(Value::is_array) {
        return reject(Rule::Shape, format!("Missing required parameter: 'input[{at}].summary'."));
    }
    let is_kept = body.get("store") != Some(&Value::Bool(false));
    if !is_kept && text_of(item, "encrypted_content").is_none_or(str::is_empty) {
        return reject(
            Rule::Thinking,
            format!(
                "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with \
                 `store` set to true, or remove this item from your input."
            ),
        );
    }
    let follows = next.map(|next| item::check_kind(next, at + 1)).transpose()?;
    if !matches!(follows, Some(Kind::Assistant | Kind::Call | Kind::Reasoning | Kind::Other)) {
        return reject(
            Rule::Thinking,
            format!("Item '{id}' of type 'reasoning' was provided without its required following item."),
        );
    }
    Ok(())
}

/// Calls and outputs so far, to match them.
#[derive(Default)]
struct Pairs<'a> {
    open: Vec<&'a str>,
    answered: Vec<&'a str>,
    any: bool,
}

impl<'a> Pairs<'a> {
    fn add_call(&mut self, id: &'a str) -> Checked {
        self.any = true;
        if self.open.contains(&id) || self.answered.contains(&id) {
            return reject(Rule::DuplicateId, format!("Duplicate function call with call_id {id}."));
        }
        self.open.push(id);
        Ok(())
    }

    fn add_output(&mut self, id: &'a str) -> Checked {
        self.any = true;
        if self.answered.contains(&id) {
            return reject(
                Rule::DuplicateResult,
                format!("Duplicate tool output found for function call {id}."),
            );
        }
        let Some(place) = self.open.iter().position(|open| *open == id) else {
            return reject(
                Rule::OrphanResult,
                format!("No tool call found for function call output with call_id {id}."),
            );
        };
        self.answered.push(self.open.remove(place));
        Ok(())
    }

    fn check_all_answered(&self) -> Checked {
        match self.open.first() {
            None => Ok(()),
            Some(id) => reject(Rule::UnansweredCall, format!("No tool output found for function call {id}.")),
        }
    }
}

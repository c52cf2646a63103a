//! Forms of servers as questions to the person.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use zk_core::kernel::{Cx, Scope};
use zk_core::service::{Question, Questions, UiAnswer, visible_line, visible_lines};

use crate::client::{Answers, Form, Sampled, Sampling};
use crate::config::ServerPermission;
use crate::sampling::sample;

/// How long a person may take for one question.
const PATIENCE: Duration = Duration::from_secs(600);
/// The most fields that a form may have.
const MOST: usize = 20;

/// Asks the person in front of the bus. Without one a form is answered with its own defaults if it has one for every field,
/// and declined otherwise: a server that has a value for everything learns nothing.
pub(crate) struct AskPerson(pub(crate) Scope);

#[async_trait]
impl Answers for AskPerson {
    async fn form(&self, server: &str, message: &str, schema: &Value) -> Form {
        let Some(bus) = self.0.bus() else { return Form::Declined };
        let fields = fields(schema);
        let Some(questions) = bus.service::<Questions>().filter(|questions| questions.is_attended()) else {
            return defaults(&fields);
        };
        let cx = bus.cx();
        if fields.len() > MOST {
            return Form::Declined;
        }
        let names: Vec<String> = fields.iter().map(Field::title).collect();
        let text = format!(
            "MCP server {server} asks:\n{}\nIt wants: {}\nWhat you answer goes to that server. Answer it?",
            visible_lines(message).join("\n"),
            if names.is_empty() { "a yes".to_owned() } else { names.join(", ") }
        );
        match questions.ask(Question::Confirm { text }, &cx, PATIENCE).await {
            UiAnswer::Once => {}
            UiAnswer::No { .. } => return Form::Declined,
            _ => return Form::Cancelled,
        }
        let mut filled = Map::new();
        for field in &fields {
            match field.answer(questions.ask(field.question(server), &cx, PATIENCE).await) {
                Filled::Value(value) => {
                    filled.insert(field.name.clone(), value);
                }
                Filled::Nothing => {}
                Filled::Missing => return Form::Cancelled,
            }
        }
        Form::Filled(filled)
    }

    async fn sample(
        &self,
        server: &str,
        policy: ServerPermission,
        asked: Sampling,
        cx: &Cx,
    ) -> Result<Sampled, String> {
        sample(server, policy, asked, cx).await
    }
}

/// The defaults of a form that has one for each field. One without fields asks for consent, which is nobody's to give.
fn defaults(fields: &[Field]) -> Form {
    let filled: Option<Map<String, Value>> =
        fields.iter().map(|field| Some((field.name.clone(), field.schema.get("default")?.clone()))).collect();
    match filled {
        Some(filled) if !filled.is_empty() => Form::Filled(filled),
        Some(_) | None => Form::Declined,
    }
}

/// A field of a form.
struct Field {
    name: String,
    schema: Value,
    is_needed: bool,
}

enum Filled {
    Value(Value),
    /// The field stays empty, and may.
    Nothing,
    /// It must not.
    Missing,
}

fn fields(schema: &Value) -> Vec<Field> {
    let needed: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties
        .map(|(name, schema)| Field {
            name: name.clone(),
            schema: schema.clone(),
            is_needed: needed.contains(&name.as_str()),
        })
        .collect()
}

impl Field {
    fn text(&self, key: &str) -> Option<String> {
        self.schema.get(key).and_then(Value::as_str).map(visible_line)
    }

    fn title(&self) -> String {
        self.text("title").unwrap_or_else(|| visible_line(&self.name))
    }

    /// The values to choose from, each with what is shown of it.
    fn options(&self) -> Vec<(Value, String)> {
        let shown = |value: &Value| visible_line(value.as_str().unwrap_or(&value.to_string()));
        let list = |key: &str| self.schema.get(key).and_then(Value::as_array).into_iter().flatten();
        let titled = list("oneOf").chain(list("anyOf")).filter_map(|one| {
            let value = one.get("const")?;
            let title = one.get("title").and_then(Value::as_str).map_or_else(|| shown(value), visible_line);
            Some((value.clone(), title))
        });
        let names: Vec<&Value> = list("enumNames").collect();
        let plain = list("enum").enumerate();
        let plain = plain.map(|(at, value)| (value.clone(), shown(names.get(at).copied().unwrap_or(value))));
        titled.chain(plain).collect()
    }

    fn question(&self, server: &str) -> Question {
        let mut text = format!("{} (for MCP server {server})", self.title());
        text.extend(self.text("description").map(|about| format!("\n{about}")));
        let options = self.options();
        if !options.is_empty() {
            return Question::Select { text, options: options.into_iter().map(|(_, shown)| shown).collect() };
        }
        if self.schema.get("type").and_then(Value::as_str) == Some("boolean") {
            return Question::Confirm { text };
        }
        let default = self
            .schema
            .get("default")
            .map(|value| visible_line(value.as_str().unwrap_or(&value.to_string())));
        text.extend(default.map(|default| format!("\nNothing means {default}")));
        Question::Input { text }
    }

    fn answer(&self, answer: UiAnswer) -> Filled {
        let kind = self.schema.get("type").and_then(Value::as_str).unwrap_or("string");
        let empty = || match self.schema.get("default") {
            Some(default) => Filled::Value(default.clone()),
            None if self.is_needed => Filled::Missing,
            None => Filled::Nothing,
        };
        match answer {
            UiAnswer::Once => Filled::Value(Value::Bool(true)),
            UiAnswer::No { .. } if kind == "boolean" => Filled::Value(Value::Bool(false)),
            UiAnswer::Choice { index } => match self.options().into_iter().nth(index) {
                Some((value, _)) => Filled::Value(value),
                None => Filled::Missing,
            },
            UiAnswer::Text { text } if text.trim().is_empty() => empty(),
            UiAnswer::Text { text } => match kind {
                "integer" => {
                    text.trim().parse::<i64>().map_or(Filled::Missing, |value| Filled::Value(value.into()))
                }
                "number" => {
                    text.trim().parse::<f64>().map_or(Filled::Missing, |value| Filled::Value(value.into()))
                }
                _ => Filled::Value(text.into()),
            },
            UiAnswer::No { .. } => empty(),
            UiAnswer::Session
            | UiAnswer::Always
            | UiAnswer::WiderSession
            | UiAnswer::WiderAlways
            | UiAnswer::Absent => Filled::Missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(schema: Value, is_needed: bool) -> Field {
        Field { name: "f".to_owned(), schema, is_needed }
    }

    fn text(text: &str) -> UiAnswer {
        UiAnswer::Text { text: text.to_owned() }
    }

    #[test]
    fn answers_become_values_of_the_type_of_their_field() {
        let value = |schema: Value, answer| match field(schema, true).answer(answer) {
            Filled::Value(value) => value,
            Filled::Nothing | Filled::Missing => Value::Null,
        };
        assert_eq!(value(json!({"type": "string"}), text("a")), json!("a"));
        assert_eq!(value(json!({"type": "integer"}), text(" 7 ")), json!(7));
        assert_eq!(value(json!({"type": "integer"}), text("seven")), Value::Null);
        assert_eq!(value(json!({"type": "number"}), text("1.5")), json!(1.5));
        assert_eq!(value(json!({"type": "boolean"}), UiAnswer::Once), json!(true));
        assert_eq!(value(json!({"type": "boolean"}), UiAnswer::No { message: None }), json!(false));
        let colours = json!({"type": "string", "enum": ["r", "g"], "enumNames": ["red", "green"]});
        assert_eq!(field(colours.clone(), true).options()[1].1, "green");
        assert_eq!(value(colours, UiAnswer::Choice { index: 1 }), json!("g"));
        assert_eq!(value(json!({"type": "string", "default": "d"}), text("")), json!("d"));
        assert_eq!(value(json!({"type": "string"}), UiAnswer::Absent), Value::Null);
    }

    #[test]
    fn a_field_that_may_stay_empty_does_and_one_that_may_not_cancels_the_form() {
        assert!(matches!(field(json!({"type": "string"}), false).answer(text(" ")), Filled::Nothing));
        assert!(matches!(field(json!({"type": "string"}), true).answer(text(" ")), Filled::Missing));
    }

    #[test]
    fn a_form_that_nobody_sees_is_answered_by_its_own_defaults_or_not_at_all() {
        let form = |properties: Value| defaults(&fields(&json!({ "properties": properties })));
        let filled = form(json!({"a": {"type": "string", "default": "x"}, "b": {"default": 2}}));
        let Form::Filled(filled) = filled else { panic!("{filled:?}") };
        assert_eq!(Value::Object(filled), json!({"a": "x", "b": 2}));
        assert_eq!(form(json!({"a": {"default": "x"}, "b": {"type": "string"}})), Form::Declined);
        assert_eq!(form(json!({})), Form::Declined);
    }

    #[test]
    fn what_a_server_writes_into_a_question_is_visible() {
        let Question::Input { text } = field(json!({"title": "a\u{202e}b"}), true).question("s") else {
            panic!()
        };
        assert!(text.contains("U+202E"), "{text}");
    }
}

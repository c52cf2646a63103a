//! Asks a person the questions of a server's form.

mod limits;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use zk_core::kernel::{Cx, Scope};
use zk_core::service::{Question, Questions, Selection, UiAnswer, visible_line, visible_lines};

use crate::client::{Answers, Form, Sampled, Sampling};
use crate::config::server_config::ServerPermission;
use crate::server::model_sampling::sample;

/// Time limit for a person to answer one question.
const PERSON_TIME_LIMIT: Duration = Duration::from_secs(600);
/// Maximum number of fields of a form.
const MAX_FIELDS: usize = 20;
/// Maximum number of questions for one field with invalid answers.
const MAX_TRIES: usize = 3;
/// Words in names of secret fields, which no server may request this way.
const SECRET_WORDS: [&str; 9] = [
    "password",
    "passwort",
    "passphrase",
    "secret",
    "token",
    "credential",
    "api_key",
    "apikey",
    "private_key",
];

/// Asks the person through the bus. Without a person, a form is filled with its defaults if every field has
/// one, which reveals nothing, and declined otherwise.
pub(crate) struct AskPerson(pub(crate) Scope);

#[async_trait]
impl Answers for AskPerson {
    async fn form(&self, server: &str, message: &str, schema: &Value, cx: Option<&Cx>) -> Form {
        let Some(bus) = self.0.bus() else { return Form::Declined };
        let fields = parse_fields(schema);
        let Some(questions) = bus.service::<Questions>().filter(|questions| questions.is_attended()) else {
            return defaults(&fields);
        };
        // A form without a call is withdrawn with the conversation.
        let cx = cx.cloned().unwrap_or_else(|| bus.cx());
        if fields.len() > MAX_FIELDS {
            return Form::Declined;
        }
        let names: Vec<String> = fields.iter().map(Field::title).collect();
        let secret: Vec<String> = fields.iter().filter(|field| field.is_secret()).map(Field::title).collect();
        let warning = if secret.is_empty() {
            String::new()
        } else {
            format!("\nA server should never ask for secrets like this: {}.", secret.join(", "))
        };
        let text = format!(
            "MCP server {server} asks:\n{}\nIt wants: {}{warning}\nWhat you answer goes to that server. Answer it?",
            visible_lines(message).join("\n"),
            if names.is_empty() { "a yes".to_owned() } else { names.join(", ") }
        );
        match questions.ask(Question::Confirm { text }, &cx, PERSON_TIME_LIMIT).await {
            UiAnswer::Once => {}
            UiAnswer::No { .. } => return Form::Declined,
            _ => return Form::Cancelled,
        }
        let mut filled = Map::new();
        for field in &fields {
            let ask = async |why: &str| {
                field.answer(questions.ask(field.question(server, why), &cx, PERSON_TIME_LIMIT).await)
            };
            let mut answer = ask("").await;
            for _ in 1..MAX_TRIES {
                let Filled::Wrong(why) = &answer else { break };
                answer = ask(why).await;
            }
            match answer {
                Filled::Value(value) => {
                    filled.insert(field.name.clone(), value);
                }
                Filled::Nothing => {}
                Filled::Wrong(_) | Filled::Missing => return Form::Cancelled,
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

/// Fills a form with its defaults, if each field has one. A form without fields asks for consent, which only
/// a person can give.
fn defaults(fields: &[Field]) -> Form {
    let filled: Option<Map<String, Value>> =
        fields.iter().map(|field| Some((field.name.clone(), field.schema.get("default")?.clone()))).collect();
    match filled {
        Some(filled) if !filled.is_empty() => Form::Filled(filled),
        Some(_) | None => Form::Declined,
    }
}

/// Field of a form.
struct Field {
    name: String,
    schema: Value,
    is_needed: bool,
}

enum Filled {
    Value(Value),
    /// The field stays empty, which is allowed.
    Nothing,
    /// The value is invalid, for this reason.
    Wrong(String),
    /// The field stays empty, although it is required.
    Missing,
}

fn parse_fields(schema: &Value) -> Vec<Field> {
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
    fn schema_text(&self, key: &str) -> Option<String> {
        self.schema.get(key).and_then(Value::as_str).map(visible_line)
    }

    fn title(&self) -> String {
        self.schema_text("title").unwrap_or_else(|| visible_line(&self.name))
    }

    /// Whether the field asks for a secret.
    fn is_secret(&self) -> bool {
        let name = format!("{} {}", self.name, self.title()).to_lowercase().replace([' ', '-'], "_");
        SECRET_WORDS.iter().any(|secret| name.contains(secret))
            || name.split('_').any(|word| ["key", "pin"].contains(&word))
    }

    fn kind(&self) -> &str {
        self.schema.get("type").and_then(Value::as_str).unwrap_or("string")
    }

    /// Returns the values to choose from, each with its label.
    fn options(&self) -> Vec<(Value, String)> {
        let of = if self.kind() == "array" { self.schema.get("items") } else { Some(&self.schema) };
        let shown = |value: &Value| visible_line(value.as_str().unwrap_or(&value.to_string()));
        let list = |key: &str| of.and_then(|of| of.get(key)?.as_array()).into_iter().flatten();
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

    /// Returns the question for the field, with the problem of the previous answer.
    fn question(&self, server: &str, wrong: &str) -> Question {
        let mut text = format!("{} (for MCP server {server})", self.title());
        text.extend(self.schema_text("description").map(|about| format!("\n{about}")));
        let options = self.options();
        let is_list = self.kind() == "array";
        if !options.is_empty() && !is_list {
            return Selection::new(text, options.into_iter().map(|(_, shown)| shown).collect()).into();
        }
        if self.kind() == "boolean" {
            return Question::Confirm { text };
        }
        if is_list {
            let lines = options.iter().enumerate().map(|(at, (_, shown))| format!("\n{} {shown}", at + 1));
            text.extend(lines);
            text.push_str("\nSeveral, with commas between them: numbers or words of these");
        }
        let shown = |value: &Value| match value {
            Value::Array(items) => {
                let items =
                    items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
                items.collect::<Vec<_>>().join(", ")
            }
            other => other.as_str().map_or_else(|| other.to_string(), str::to_owned),
        };
        let default = self.schema.get("default").map(|value| visible_line(&shown(value)));
        text.extend(default.map(|default| format!("\nNothing means {default}")));
        if !wrong.is_empty() {
            text.push_str(&format!("\nThat does not fit: {wrong}"));
        }
        Question::Input { text }
    }

    fn answer(&self, answer: UiAnswer) -> Filled {
        let kind = self.kind();
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
            UiAnswer::Text { text } => {
                let read = match kind {
                    "integer" => {
                        text.trim().parse::<i64>().map(Value::from).map_err(|_| "a whole number".to_owned())
                    }
                    "number" => {
                        text.trim().parse::<f64>().map(Value::from).map_err(|_| "a number".to_owned())
                    }
                    "array" => self.parse_choices(&text),
                    _ => Ok(Value::from(text)),
                };
                let read = read.map_err(|wanted| format!("it has to be {wanted}"));
                match read.and_then(|value| limits::check(&self.schema, &value).map(|()| value)) {
                    Ok(value) => Filled::Value(value),
                    Err(why) => Filled::Wrong(why),
                }
            }
            UiAnswer::No { .. } => empty(),
            UiAnswer::Session
            | UiAnswer::Always
            | UiAnswer::WiderSession
            | UiAnswer::WiderAlways
            | UiAnswer::MoreSession { .. }
            | UiAnswer::MoreAlways { .. }
            | UiAnswer::Contained
            | UiAnswer::Absent => Filled::Missing,
        }
    }

    /// Parses a list of values, given by number, label or value.
    fn parse_choices(&self, text: &str) -> Result<Value, String> {
        let options = self.options();
        let mut chosen: Vec<Value> = Vec::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let number = word.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let named = options.iter().find(|(value, shown)| shown == word || value.as_str() == Some(word));
            let found = named.or_else(|| options.get(number?));
            match found {
                Some((value, _)) if !chosen.contains(value) => chosen.push(value.clone()),
                Some(_) => {}
                None => return Err(format!("one of those listed, which {} is not", visible_line(word))),
            }
        }
        Ok(Value::Array(chosen))
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
            Filled::Nothing | Filled::Missing | Filled::Wrong(_) => Value::Null,
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
    fn several_values_are_chosen_by_number_title_or_value_and_become_a_list() {
        let titled = json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"anyOf": [
            {"const": "r", "title": "red"}, {"const": "g", "title": "green"}, {"const": "b", "title": "blue"},
        ]}});
        let plain = json!({"type": "array", "items": {"type": "string", "enum": ["r", "g", "b"]}});
        let chosen = |schema: &Value, typed: &str| match field(schema.clone(), true).answer(text(typed)) {
            Filled::Value(value) => value,
            Filled::Wrong(why) => Value::from(why),
            Filled::Nothing | Filled::Missing => Value::Null,
        };
        assert_eq!(chosen(&titled, "1, green"), json!(["r", "g"]));
        assert_eq!(chosen(&plain, "b,b, 1"), json!(["b", "r"]));
        for (schema, typed, why) in [(&titled, "1,2,3", "at most 2"), (&plain, "pink", "pink is not")] {
            let told = chosen(schema, typed);
            assert!(told.as_str().is_some_and(|told| told.contains(why)), "{typed}: {told}");
        }
        let Question::Input { text } = field(titled, true).question("s", "too many") else { panic!() };
        assert!(text.contains("\n2 green") && text.contains("too many"), "{text}");
    }

    #[test]
    fn fields_that_ask_for_secrets_are_known_by_their_names() {
        let named = |name: &str, title: &str| {
            let schema = json!({"type": "string", "title": title});
            Field { name: name.to_owned(), schema, is_needed: true }.is_secret()
        };
        for (name, title) in [
            ("pw", "Your Password"),
            ("access_token", "x"),
            ("k", "API key"),
            ("clientSecret", "x"),
            ("p", "PIN"),
        ] {
            assert!(named(name, title), "{name} {title}");
        }
        for (name, title) in [("name", "Your name"), ("keyboard", "Layout"), ("spinning", "x")] {
            assert!(!named(name, title), "{name} {title}");
        }
    }

    #[test]
    fn a_form_that_nobody_sees_is_answered_by_its_own_defaults_or_not_at_all() {
        let form = |properties: Value| defaults(&parse_fields(&json!({ "properties": properties })));
        let filled = form(json!({"a": {"type": "string", "default": "x"}, "b": {"default": 2}}));
        let Form::Filled(filled) = filled else { panic!("{filled:?}") };
        assert_eq!(Value::Object(filled), json!({"a": "x", "b": 2}));
        assert_eq!(form(json!({"a": {"default": "x"}, "b": {"type": "string"}})), Form::Declined);
        assert_eq!(form(json!({})), Form::Declined);
    }

    #[test]
    fn what_a_server_writes_into_a_question_is_visible() {
        let Question::Input { text } = field(json!({"title": "a\u{202e}b"}), true).question("s", "") else {
            panic!()
        };
        assert!(text.contains("U+202E"), "{text}");
    }
}

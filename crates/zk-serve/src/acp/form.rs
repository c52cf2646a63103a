use serde_json::{Map, Value, json};
use zk_core::service::{Question, Selection, UiAnswer as Answer};

/// Field of an answer in free text.
const WORDS: &str = "answer";

/// Field of the chosen option.
const CHOICE: &str = "choice";

/// Returns message and schema of the form for a question that accepts free text; `None` for other questions.
pub(super) fn form(question: &Question) -> Option<(String, Value)> {
    let words = json!({ "type": "string", "title": "Answer" });
    match question {
        Question::Input { text } => Some((text.clone(), schema(vec![(WORDS, words)], &[WORDS]))),
        Question::Select(selection) if selection.accepts_words && selection.preview.is_none() => {
            let text = selection.text.clone();
            if selection.options.is_empty() {
                return Some((text, schema(vec![(WORDS, words)], &[WORDS])));
            }
            let own = json!({ "type": "string", "title": "In your own words" });
            Some((text, schema(vec![(CHOICE, choices(selection)), (WORDS, own)], &[])))
        }
        Question::Select(_) | Question::Approve(_) | Question::Confirm { .. } | Question::Trust(_) => None,
    }
}

fn schema(fields: Vec<(&str, Value)>, required: &[&str]) -> Value {
    let properties: Map<String, Value> =
        fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

fn choices(selection: &Selection) -> Value {
    let option = |(index, option): (usize, &String)| {
        let described = selection.descriptions.get(index).filter(|words| !words.is_empty());
        let title = described.map_or_else(|| option.clone(), |words| format!("{option}: {words}"));
        json!({ "const": index.to_string(), "title": title })
    };
    let options: Vec<Value> = selection.options.iter().enumerate().map(option).collect();
    json!({ "type": "string", "title": "Choice", "oneOf": options })
}

/// Converts a completed form to an answer. Free text takes precedence over a chosen option; a form that was
/// not accepted counts as no.
pub(super) fn to_answer(question: &Question, answered: &Value) -> Answer {
    let is_accepted = answered.get("action").is_some_and(|action| action == "accept");
    let field = |name: &str| {
        let text = answered.get("content")?.get(name)?.as_str()?;
        Some(text).filter(|text| is_accepted && !text.trim().is_empty())
    };
    if let Some(words) = field(WORDS) {
        return Answer::Text { text: words.to_owned() };
    }
    let count = if let Question::Select(selection) = question { selection.options.len() } else { 0 };
    let index = field(CHOICE).and_then(|index| index.parse().ok()).filter(|index| *index < count);
    index.map_or(Answer::No { message: None }, |index| Answer::Choice { index })
}

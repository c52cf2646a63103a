//! Parses error bodies in their various forms.

use serde_json::Value;

/// Length limit of a quoted provider text in characters.
const MAX_QUOTE_CHARS: usize = 500;
/// Length limit of an error message in characters.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// Contents of an error body.
#[derive(Debug, Default, Clone)]
pub(crate) struct ErrorBody {
    /// Message for people, sanitised for quoting.
    pub(crate) message: String,
    /// Most specific name of the error.
    pub(crate) code: Option<String>,
    /// All names of the error, most specific first.
    pub(crate) names: Vec<String>,
    pub(crate) request_id: Option<String>,
    pub(crate) json: Option<Value>,
    /// Whether the body is an HTML page.
    pub(crate) is_html: bool,
}

impl ErrorBody {
    /// Parses a response body.
    pub(crate) fn parse(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let text = text.trim_start_matches('\u{feff}').trim();
        if let Ok(json) = serde_json::from_str::<Value>(text) {
            return Self::of(json);
        }
        // Some servers answer a streamed request with a stream that contains only the error.
        let in_stream = text.lines().filter_map(|line| line.strip_prefix("data:"));
        if let Some(json) = in_stream.filter_map(|data| serde_json::from_str(data.trim()).ok()).next() {
            return Self::of(json);
        }
        if is_html(text) {
            return Self { message: describe_page(text), is_html: true, ..Self::default() };
        }
        Self { message: quote(text), ..Self::default() }
    }

    /// Parses a JSON body, or the data of an error event.
    pub(crate) fn of(json: Value) -> Self {
        let body = match &json {
            Value::Array(items) => items.first().unwrap_or(&Value::Null),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => &json,
        };
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let message = match error {
            Value::String(text) => text.clone(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                message_of(error).unwrap_or_else(|| error.to_string())
            }
        };
        // A gateway wraps the error of the vendor behind it.
        let raw = error.pointer("/metadata/raw").and_then(Value::as_str);
        let message = raw.map_or_else(|| quote(&message), |raw| quote(&format!("{message}: {raw}")));
        let reasons = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let named = [
            reasons.filter_map(|detail| detail.get("reason")).next(),
            error.pointer("/details/error_code"),
            error.get("code"),
            error.get("type"),
            error.get("status"),
            body.get("code"),
        ];
        // A gateway may report a filter's finding without naming the error.
        let flagged = error.pointer("/metadata/flagged_input").map(|_| "moderation".to_owned());
        let names: Vec<String> =
            flagged.into_iter().chain(named.into_iter().flatten().filter_map(name)).collect();
        let code = names
            .iter()
            .find(|name| !name.bytes().all(|byte| byte.is_ascii_digit()))
            .or_else(|| names.first())
            .cloned();
        let request_id = body.get("request_id").and_then(Value::as_str).map(str::to_owned);
        Self { message, code, names, request_id, is_html: false, json: Some(json) }
    }

    /// Whether the JSON reports a failure, for responses with a successful status.
    pub(crate) fn is_error(&self) -> bool {
        self.json.as_ref().is_some_and(|json| {
            json.get("error").is_some_and(|error| !error.is_null())
                || json.get("type").is_some_and(|kind| kind == "error")
                || json.get("object").is_some_and(|kind| kind == "error")
        })
    }

    /// Returns the message and the names as one text, to match phrases.
    pub(crate) fn text(&self) -> String {
        let mut text = self.message.clone();
        for name in &self.names {
            text.push(' ');
            text.push_str(name);
        }
        text
    }
}

fn message_of(error: &Value) -> Option<String> {
    let found = ["message", "detail", "error_description", "msg"].iter().find_map(|key| error.get(key))?;
    match found {
        Value::String(text) => Some(text.clone()),
        Value::Object(_) => message_of(found).or_else(|| Some(found.to_string())),
        Value::Array(items) => {
            let parts: Vec<String> = items
                .iter()
                .map(|item| match item.get("msg").and_then(Value::as_str) {
                    Some(text) => match item.get("loc") {
                        Some(place) => format!("{text} at {place}"),
                        None => text.to_owned(),
                    },
                    None => item.to_string(),
                })
                .collect();
            Some(parts.join("; "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn name(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Sanitises a text for quoting: one line without control characters, of limited length.
pub(crate) fn quote(text: &str) -> String {
    one_line(text, MAX_QUOTE_CHARS)
}

/// Sanitises a message for display, whatever its origin.
pub(super) fn sanitise(message: &str) -> String {
    one_line(message, MAX_MESSAGE_CHARS)
}

fn one_line(text: &str, longest: usize) -> String {
    let mut out = String::new();
    let mut blank = false;
    for (count, char) in text.trim().chars().enumerate() {
        if count == longest {
            out.push('…');
            break;
        }
        if char.is_whitespace() {
            blank = true;
        } else if !is_invisible(char) {
            if std::mem::take(&mut blank) && !out.is_empty() {
                out.push(' ');
            }
            out.push(char);
        }
    }
    out
}

/// Whether the character is a control character or changes the text direction.
fn is_invisible(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
}

fn is_html(text: &str) -> bool {
    let start: String = text.chars().take(200).collect::<String>().to_lowercase();
    start.starts_with("<!doctype html") || start.contains("<html") || start.starts_with("<head")
}

fn describe_page(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|at| {
        let from = at + lower.get(at..)?.find('>')? + 1;
        let to = from + lower.get(from..)?.find("</title")?;
        text.get(from..to)
    });
    match title.map(quote) {
        Some(title) if !title.is_empty() => format!("an HTML page titled “{title}”"),
        Some(_) | None => "an HTML page".to_owned(),
    }
}

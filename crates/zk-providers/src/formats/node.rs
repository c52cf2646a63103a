//! A JSON value with its path, for error messages that name the place.

use serde_json::{Map, Value};

use super::error::{FormatError, describe_value};

type Result<T> = std::result::Result<T, FormatError>;

/// Fields without content for a model, which may be ignored.
const IGNORED: [&str; 2] = ["cache_control", "type"];

#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    pub(super) path: String,
    pub(super) value: &'a Value,
}

impl<'a> Node<'a> {
    pub(super) fn new(path: &str, value: &'a Value) -> Self {
        Self { path: path.to_owned(), value }
    }

    /// Returns the value of a field; `None` if it is missing or `null`.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        let field = self.at(name);
        (!field.value.is_null()).then_some(field)
    }

    /// Returns the value of a field, with `null` for a missing one.
    pub(super) fn at(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Self { path, value: self.value.get(name).unwrap_or(&Value::Null) }
    }

    pub(super) fn object(&self) -> Result<&'a Map<String, Value>> {
        self.value.as_object().ok_or_else(|| self.unexpected("an object"))
    }

    pub(super) fn items(&self) -> Result<Vec<Self>> {
        let items = self.value.as_array().ok_or_else(|| self.unexpected("a list"))?;
        let item = |(at, value)| Self { path: format!("{}[{at}]", self.path), value };
        Ok(items.iter().enumerate().map(item).collect())
    }

    pub(super) fn text(&self) -> Result<&'a str> {
        self.value.as_str().ok_or_else(|| self.unexpected("a text"))
    }

    /// Returns the text of a required field.
    pub(super) fn required_text(&self, name: &str) -> Result<&'a str> {
        self.object()?;
        self.at(name).text()
    }

    /// Returns the media type and the base64 data of a `data:` URL.
    pub(super) fn inline_data(&self) -> Result<(String, String)> {
        let text = self.text()?;
        let parts = text.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        let (media_type, data) = parts.ok_or_else(|| match text.split_once(':') {
            Some(("data", _)) => self.unsupported("its bytes are not in base64: write them so"),
            Some(("http" | "https" | "file" | "gs" | "s3", _)) => self.unsupported(
                "it is an address, and a history holds bytes: fetch them and put them here as base64",
            ),
            Some(_) | None => self.unexpected("a URL that begins with `data:`"),
        })?;
        Ok((media_type.to_owned(), data.to_owned()))
    }

    /// Returns the text of an optional field; `None` if it is empty.
    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&'a str>> {
        let text = self.field(name).map(|field| field.text()).transpose()?;
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// Returns a boolean field; false if it is missing.
    pub(super) fn boolean_field(&self, name: &str) -> Result<bool> {
        let field = self.at(name);
        match field.value {
            Value::Null => Ok(false),
            Value::Bool(flag) => Ok(*flag),
            Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                Err(field.unexpected("true or false"))
            }
        }
    }

    /// Returns the `type` of a block or a part.
    pub(super) fn kind(&self) -> Result<&'a str> {
        self.required_text("type")
    }

    /// Checks that no content is dropped: every field is one of `known` or empty.
    pub(super) fn refuse_fields_besides(&self, known: &[&str]) -> Result<()> {
        let is_known = |name: &str| known.contains(&name) || IGNORED.contains(&name);
        let fields = self.object()?.iter();
        let mut others = fields.filter(|(name, value)| !is_known(name) && is_not_empty(value));
        match others.next() {
            Some((name, _)) => Err(FormatError::Unknown { path: self.at(name).path }),
            None => Ok(()),
        }
    }

    pub(super) fn unexpected(&self, expected: &str) -> FormatError {
        let found = describe_value(self.value);
        FormatError::Unexpected { path: self.path.clone(), expected: expected.to_owned(), found }
    }

    pub(super) fn unsupported(&self, reason: impl Into<String>) -> FormatError {
        FormatError::Unsupported { path: self.path.clone(), reason: reason.into() }
    }
}

fn is_not_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) | Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

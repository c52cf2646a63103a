//! Fields of one chunk, parsed without copies and tolerant of deviations.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::encode::json_str::Str;

#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) choices: First<'a, Choice<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    /// Raw index of the answer that the choice belongs to, if several were requested; only compared.
    #[serde(borrow)]
    pub(super) index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    /// The whole message, which some servers send here.
    #[serde(borrow)]
    pub(super) message: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) native_finish_reason: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) reasoning: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) reasoning_text: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) refusal: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<CallPiece<'a>>>,
    /// Old format of `tool_calls`; servers that send both repeat the same call.
    #[serde(borrow)]
    pub(super) function_call: Option<Function<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CallPiece<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) function: Option<Function<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    /// A string, or the object itself on some servers.
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

impl Function<'_> {
    /// Returns the delta of the argument text.
    pub(super) fn arguments(&self) -> Cow<'_, str> {
        let raw = self.arguments.map_or("null", RawValue::get);
        match serde_json::from_str::<Option<Str<'_>>>(raw) {
            _ if raw.starts_with(['{', '[']) => Cow::Borrowed(raw),
            Ok(Some(text)) => Cow::Owned(text.into_string()),
            Ok(None) | Err(_) => Cow::Borrowed(""),
        }
    }
}

/// The first element of a list; the rest is skipped, since only one choice is requested.
#[derive(Debug)]
pub(super) struct First<'a, T>(pub(super) Option<T>, PhantomData<&'a ()>);

impl<T> Default for First<'_, T> {
    fn default() -> Self {
        Self(None, PhantomData)
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for First<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = Option<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<T>, A::Error> {
                let first = seq.next_element()?;
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(first)
            }

            fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
                Ok(None)
            }
        }
        deserializer.deserialize_any(Elements(PhantomData)).map(|first| Self(first, PhantomData))
    }
}

/// Content of a delta: a text, or a list of parts with text and thoughts.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Text(Cow<'a, str>),
    Parts { thoughts: String, text: String },
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, or a list of parts")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let (mut thoughts, mut text) = (String::new(), String::new());
        while let Some(part) = seq.next_element::<Value>()? {
            match part.get("type").and_then(Value::as_str) {
                Some("thinking") => collect(part.get("thinking"), &mut thoughts),
                Some("text") | None => collect(Some(&part), &mut text),
                Some(_) => {}
            }
        }
        Ok(Content::Parts { thoughts, text })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Content::Text(Cow::Borrowed("")))
    }
}

/// Collects all text in a part: the part itself, its `text`, or that of its elements.
fn collect(part: Option<&Value>, out: &mut String) {
    match part {
        Some(Value::String(text)) => out.push_str(text),
        Some(Value::Array(parts)) => parts.iter().for_each(|part| collect(Some(part), out)),
        Some(Value::Object(fields)) => collect(fields.get("text"), out),
        Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => {}
    }
}

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use zk_core::service::QuestionDigest;
use zk_view::Patch;

/// Digest of a question, as a text: a number of 64 bits is not kept by programs whose numbers are floating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestText(pub QuestionDigest);

impl Serialize for DigestText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = serde_json::to_value(self.0).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&number.to_string())
    }
}

impl<'de> Deserialize<'de> for DigestText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number: u64 =
            text.parse().map_err(|_| serde::de::Error::custom("it is the digest of no card"))?;
        serde_json::from_value(Value::from(number)).map(Self).map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for DigestText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DigestText".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "Digest of a question's content, which proves what a front-end showed."
        })
    }
}

/// A patch with digests as texts.
pub(in crate::rpc) fn serialize_patch<S: Serializer>(
    patch: &Patch,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let has_cards = match patch {
        Patch::Ask { .. } => true,
        Patch::Reset { view } => !view.cards.is_empty(),
        _ => false,
    };
    if !has_cards {
        return patch.serialize(serializer);
    }
    let mut value = serde_json::to_value(patch).map_err(serde::ser::Error::custom)?;
    let cards = value.pointer_mut("/view/cards").and_then(Value::as_array_mut);
    cards.into_iter().flatten().for_each(digest_as_text);
    value.get_mut("card").into_iter().for_each(digest_as_text);
    value.serialize(serializer)
}

fn digest_as_text(card: &mut Value) {
    if let Some(digest) = card.get_mut("digest") {
        *digest = digest.to_string().into();
    }
}

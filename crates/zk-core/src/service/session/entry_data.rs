use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Data of a plugin's entry: unparsed JSON text, parsed only on access. A session may have thousands of
/// entries that are never read.
///
/// ```
/// use serde::Deserialize;
/// use zk_core::service::EntryData;
///
/// #[derive(Deserialize)]
/// struct Goal {
///     done: u32,
/// }
///
/// let data = EntryData::from(serde_json::json!({"done": 2}));
/// assert_eq!(data.read::<Goal>().unwrap().done, 2);
/// assert_eq!(data.value()["done"], 2);
/// ```
#[derive(Clone)]
pub struct EntryData(Box<RawValue>);

impl EntryData {
    /// Deserialises the data as a `T`.
    ///
    /// # Errors
    /// When the data is no valid `T`.
    pub fn read<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.0.get())
    }

    /// Returns the data as a tree of JSON values.
    #[must_use]
    pub fn value(&self) -> Value {
        self.read().unwrap_or_default()
    }

    /// Returns the data as JSON text.
    #[must_use]
    pub fn as_json(&self) -> &str {
        self.0.get()
    }
}

impl From<Value> for EntryData {
    fn from(data: Value) -> Self {
        Self(serde_json::value::to_raw_value(&data).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

impl From<Box<RawValue>> for EntryData {
    fn from(data: Box<RawValue>) -> Self {
        Self(data)
    }
}

impl fmt::Debug for EntryData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_json())
    }
}

impl PartialEq for EntryData {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json() || self.value() == other.value()
    }
}

impl Serialize for EntryData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Reads from any format; data that does not come from JSON is converted to JSON text.
impl<'de> Deserialize<'de> for EntryData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let data = Value::deserialize(deserializer)?;
        serde_json::value::to_raw_value(&data).map(Self).map_err(D::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for EntryData {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "EntryData".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Value::json_schema(generator)
    }
}

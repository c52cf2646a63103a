use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::ToolSpec;

/// Returns the JSON Schema of `T` in the form for models: without keywords they do not need, which would cost
/// tokens in every request.
///
/// ```
/// use schemars::JsonSchema;
/// use zk_core::model::schema_of;
///
/// #[derive(JsonSchema)]
/// struct Roll {
///     /// How many dice
///     dice: u32,
/// }
///
/// let schema = schema_of::<Roll>();
/// assert_eq!(schema["properties"]["dice"]["description"], "How many dice");
/// assert_eq!(schema["required"][0], "dice");
/// ```
#[must_use]
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = Value::from(settings.into_generator().into_root_schema_for::<T>());
    drop_unused_keywords(&mut schema);
    schema
}

impl ToolSpec {
    /// Creates the specification of a tool whose arguments are an `A`: its fields are the parameters, and
    /// their doc comments the descriptions for the model.
    #[must_use]
    pub fn of<A: JsonSchema>(name: impl Into<String>, description: impl Into<String>) -> Arc<Self> {
        Self::new(name, description, schema_of::<A>())
    }
}

/// Prefixes of the `format` values that schemars gives to numbers.
const NUMBERS: [&str; 4] = ["int", "uint", "float", "double"];

/// Removes keywords that tell a model nothing, because each byte costs tokens in every request.
fn drop_unused_keywords(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    for noise in ["$schema", "title", "default"] {
        object.remove(noise);
    }
    // Drops the minimum of unsigned numbers, and formats that are names of Rust types.
    object.retain(|key, value| match key.as_str() {
        "minimum" => value.as_f64() != Some(0.0),
        "format" => {
            value.as_str().is_some_and(|format| !NUMBERS.iter().any(|number| format.starts_with(number)))
        }
        _ => true,
    });
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            object.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|one| !one.is_null());
    }
    if let Some(Value::Array(variants)) = object.get_mut("anyOf") {
        variants.retain(|one| one.get("type") != Some(&Value::from("null")));
        if let [one] = variants.as_mut_slice() {
            let one = one.take();
            object.remove("anyOf");
            if let Value::Object(inner) = one {
                for (key, value) in inner {
                    object.entry(key).or_insert(value);
                }
            }
            drop_unused_keywords(schema);
            return;
        }
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(drop_unused_keywords);
    }
    if let Some(items) = object.get_mut("items") {
        drop_unused_keywords(items);
    }
}

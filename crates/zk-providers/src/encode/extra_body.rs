//! Fields that a connection adds to every request.

use serde_json::{Map, Value};

/// Adds `extra` to `fields`, over what stands there. Of the fields in `shared` the two objects are joined: more
/// settings of the same kind do not take the others away.
pub(crate) fn add(fields: &mut Map<String, Value>, extra: &Map<String, Value>, shared: &[&str]) {
    for (name, value) in extra {
        match (fields.get_mut(name), value) {
            (Some(Value::Object(known)), Value::Object(more)) if shared.contains(&&**name) => {
                known.extend(more.clone());
            }
            _ => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
}

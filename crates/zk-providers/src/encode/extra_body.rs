//! Fields that a connection adds to every request.

use serde_json::{Map, Value};

/// Merges `extra` into `fields`. What stands there already, because an option or the request asked for it, wins. The
/// objects in the fields `shared` are joined by the same rule: more settings of the same kind do not take the
/// others away.
pub(crate) fn merge(fields: &mut Map<String, Value>, extra: &Map<String, Value>, shared: &[&str]) {
    for (name, value) in extra {
        match (fields.get_mut(name), value) {
            (Some(Value::Object(known)), Value::Object(more)) if shared.contains(&&**name) => {
                for (name, value) in more {
                    known.entry(name).or_insert_with(|| value.clone());
                }
            }
            (Some(_), _) => {}
            (None, _) => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
}

//! Fields of a request that follow its messages.

use serde_json::{Map, Value};

/// Completes a body that ends within the array of messages: closes the array, adds these fields and closes
/// the object.
pub(crate) fn end(out: &mut Vec<u8>, fields: Map<String, Value>) -> serde_json::Result<()> {
    out.push(b']');
    for (name, value) in fields {
        out.push(b',');
        serde_json::to_writer(&mut *out, &name)?;
        out.push(b':');
        serde_json::to_writer(&mut *out, &value)?;
    }
    out.push(b'}');
    Ok(())
}

/// Merges `extra`, which a connection adds to every request, into `fields`. Existing fields win. Objects in
/// the fields `shared` are merged key by key, so that extra keys do not remove the existing ones.
pub(crate) fn merge_extra(fields: &mut Map<String, Value>, extra: &Map<String, Value>, shared: &[&str]) {
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

//! Short descriptions of tools, in the text that a model reads.

use zk_core::model::ToolSpec;

/// Longest short description of a tool in characters.
const MAX_SUMMARY_CHARS: usize = 100;

/// Returns the name of a tool with its arguments, optional ones with `?`, and the first sentence about it.
pub(crate) fn signature(spec: &ToolSpec) -> String {
    let required: Vec<&str> = spec
        .schema
        .get("required")
        .and_then(|required| required.as_array())
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str())
        .collect();
    let properties = spec.schema.get("properties").and_then(|properties| properties.as_object());
    let mut optional: Vec<String> = properties
        .into_iter()
        .flat_map(|properties| properties.keys())
        .filter(|name| !required.contains(&name.as_str()))
        .map(|name| format!("{name}?"))
        .collect();
    let mut arguments: Vec<String> = required.into_iter().map(str::to_owned).collect();
    arguments.append(&mut optional);
    format!("{}({}): {}", spec.name, arguments.join(", "), summary(&spec.description))
}

/// Returns the first sentence of a description, cut to its limit.
fn summary(description: &str) -> String {
    let line = description.trim().lines().next().unwrap_or_default();
    let sentence = line.split_once(". ").map_or(line, |(first, _)| first).trim_end_matches('.');
    if sentence.chars().count() <= MAX_SUMMARY_CHARS {
        return sentence.to_owned();
    }
    let cut: String = sentence.chars().take(MAX_SUMMARY_CHARS - 1).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_signature_has_required_arguments_first_and_one_sentence() {
        let schema = json!({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "required": ["c"]});
        let spec = ToolSpec::new("find", "Finds files. By name.\nMore.", schema);
        assert_eq!(signature(&spec), "find(c, a?, b?): Finds files");
        let spec = ToolSpec::new("long", "x".repeat(200), json!({"type": "object"}));
        assert_eq!(signature(&spec).chars().count(), "long(): ".len() + MAX_SUMMARY_CHARS);
    }
}

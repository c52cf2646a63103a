use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;
use zk_core::model::ToolSpec;

use super::CallFormat;

/// Returns the part of the system prompt that describes the tools and the form of calls.
pub(crate) fn describe(tools: &[Arc<ToolSpec>], format: CallFormat, info: &str) -> String {
    let mut text = match format {
        CallFormat::Fenced => format!(
            "# Tools\n\n\
             You can call tools. To call one, write a fence with the info string `{info}` at the start of a \
             line, and in it one JSON object with the name of the tool and its arguments:\n\n\
             ```{info}\n{{\"name\": \"NAME\", \"arguments\": {{}}}}\n```\n\n\
             Each call has a fence of its own. End your answer after the calls: the results come in the next message, \
             and a call with text behind it is not run. \
             Never write a result yourself. An answer without a call is your final answer.\n"
        ),
        CallFormat::Constrained => "# Tools\n\n\
             You can call tools. Answer with one JSON object. To call a tool:\n\n\
             {\"reply\": {\"action\": \"NAME\", \"arguments\": {}}}\n\n\
             The result comes in the next message. To give your final answer:\n\n\
             {\"reply\": {\"answer\": \"TEXT\"}}\n"
            .to_owned(),
    };
    for tool in tools {
        let schema = argument_schema(tool);
        let description = tool.description.trim();
        let _ = write!(text, "\n## {}\n\n{description}\n\nArguments, as JSON Schema: {schema}\n", tool.name);
    }
    text
}

/// Returns the schema of a tool's arguments on one line, without what says nothing to a model.
fn argument_schema(tool: &ToolSpec) -> String {
    let mut schema = tool.schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("$schema");
        fields.remove("title");
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    schema.to_string()
}

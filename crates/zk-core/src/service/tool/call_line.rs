use serde_json::Value;

use super::SERVER_TOOL_PREFIX;

/// Maximum length of an argument in a call's line, in characters.
const MAX_LINE_ARGUMENT_CHARS: usize = 200;

/// Line that names a call by its tool and its main argument, in the words of the built-in tools.
///
/// ```
/// use serde_json::json;
/// use zk_core::service::call_line;
///
/// assert_eq!(call_line("read_file", &json!({ "path": "src/main.rs" })), "read src/main.rs");
/// assert_eq!(call_line("mcp_files_search", &json!({ "pattern": "*.rs" })), "mcp_files_search *.rs");
/// ```
#[must_use]
pub fn call_line(name: &str, args: &Value) -> String {
    let Some((main, _)) = main_argument(args) else { return name.to_owned() };
    let main: String = main.chars().take(MAX_LINE_ARGUMENT_CHARS).collect();
    format!("{} {main}", verb(name, args))
}

fn verb<'a>(name: &'a str, args: &Value) -> &'a str {
    // The name of a server's tool says whose it is.
    if name.starts_with(SERVER_TOOL_PREFIX) {
        return name;
    }
    if args.get("command").is_some_and(Value::is_string) {
        return "$";
    }
    ["_file", "_files"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// Main argument of a call: its first line that is not blank, and the full text.
#[must_use]
pub fn main_argument(args: &Value) -> Option<(&str, &str)> {
    let args = args.as_object()?;
    let usual = ["command", "path", "pattern", "url", "query"].into_iter().filter_map(|name| args.get(name));
    let mut texts = usual.chain(args.values()).filter_map(Value::as_str);
    texts.find_map(|text| Some((text.lines().find(|line| !line.trim().is_empty())?, text)))
}

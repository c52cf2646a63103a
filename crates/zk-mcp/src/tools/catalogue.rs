//! Section of the system prompt that lists the tools a model can search for.

use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{PromptSection, RunTool, RunTools, Tool, section_order};

use crate::tools::search::{NAME, is_searched};

/// Id of the section.
pub(crate) const ID: &str = "mcp-tools";
/// Position of the section, behind all sections that change less often.
const ORDER: i32 = section_order::AT_END - 50;
/// Length limit of a tool's description in characters.
const MAX_DESCRIPTION_CHARS: usize = 60;
/// Size limit of all descriptions in bytes; a longer list has only names.
const MAX_DESCRIBED_BYTES: usize = 16_000;

/// Lists the lazy tools of servers that the run may use, sorted by name, so that the text is stable while the
/// tools are.
pub(crate) struct Catalogue;

#[async_trait]
impl PromptSection for Catalogue {
    fn order(&self) -> i32 {
        ORDER
    }

    async fn text(&self, cx: &Cx) -> Result<String, BoxError> {
        let tools = match cx.service::<dyn RunTools>() {
            Some(tools) => tools.tools(),
            None => cx.items::<dyn Tool>().into_iter().map(locked_tool).collect(),
        };
        Ok(list_tools(&tools))
    }
}

/// Returns the tool as seen by a run that has not begun.
fn locked_tool(item: zk_core::kernel::Item<dyn Tool>) -> RunTool {
    RunTool { spec: Arc::clone(item.value.spec()), name: item.name, is_lazy: true, unlocked: false }
}

fn list_tools(tools: &[RunTool]) -> String {
    let mut lazy: Vec<&RunTool> = tools.iter().filter(|tool| is_searched(tool)).collect();
    if lazy.is_empty() {
        return String::new();
    }
    lazy.sort_unstable_by(|one, other| one.spec.name.cmp(&other.spec.name));
    let mut lines: Vec<String> = lazy.iter().map(|tool| tool_line(tool)).collect();
    if lines.iter().map(String::len).sum::<usize>() > MAX_DESCRIBED_BYTES {
        lines = lazy.iter().map(|tool| tool.spec.name.clone()).collect();
    }
    // Without this search tool, the host gives the model lazy tools by another tool.
    let about = match tools.iter().find(|tool| &*tool.name == NAME) {
        Some(search) => {
            format!("These tools of MCP servers can be called once `{}` found them:", search.spec.name)
        }
        None => "There are more tools of MCP servers:".to_owned(),
    };
    format!("{about}\n<tools>\n{}\n</tools>", lines.join("\n"))
}

/// Returns a tool's name for the model with the beginning of its description, sanitised so that it cannot end
/// the list.
fn tool_line(tool: &RunTool) -> String {
    let about = tool.spec.description.split_whitespace().collect::<Vec<_>>().join(" ");
    if about.is_empty() {
        return tool.spec.name.clone();
    }
    let about = match about.char_indices().nth(MAX_DESCRIPTION_CHARS) {
        Some((end, _)) => format!("{}…", about.get(..end).unwrap_or_default().trim_end()),
        None => about,
    };
    let escaped = about.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("{}: {escaped}", tool.spec.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zk_core::model::{Disclosure, ToolSpec};

    use super::*;

    fn tool(name: &str, about: &str, disclosure: Disclosure) -> RunTool {
        let spec = ToolSpec::clone(&ToolSpec::new(name, about, json!({"type": "object"})));
        let spec = Arc::new(ToolSpec { disclosure, ..spec });
        RunTool { name: name.into(), spec, is_lazy: disclosure == Disclosure::Lazy, unlocked: false }
    }

    fn lazy(name: &str, about: &str) -> RunTool {
        tool(name, about, Disclosure::Lazy)
    }

    #[test]
    fn lazy_tools_are_listed_by_name_with_one_line_that_can_end_nothing() {
        let long = "many words ".repeat(30);
        let tools = [
            lazy("mcp_b", "Says\n</tools> & more"),
            lazy("mcp_a", &long),
            lazy("mcp_c", ""),
            tool("mcp_eager", "Told at once", Disclosure::Always),
            tool("tool_search", "Finds", Disclosure::Always),
        ];
        let text = list_tools(&tools);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("`tool_search`"), "{text}");
        assert!(lines[2].starts_with("mcp_a: many words") && lines[2].ends_with('…'), "{text}");
        assert!(lines[2].chars().count() <= "mcp_a: ".len() + MAX_DESCRIPTION_CHARS + 1, "{text}");
        assert_eq!(lines[3..], ["mcp_b: Says &lt;/tools&gt; &amp; more", "mcp_c", "</tools>"]);
        let turned: Vec<RunTool> = tools.into_iter().rev().collect();
        assert_eq!(list_tools(&turned), text, "the order of registration does not count");
    }

    #[test]
    fn tools_are_listed_as_the_model_calls_them() {
        let mut search = tool("tool_search", "Finds", Disclosure::Always);
        search.spec = ToolSpec::new("ToolSearch", "Finds", json!({"type": "object"}));
        let mut tools = [lazy("mcp_a", "One"), lazy("mcp_b", ""), search];
        for (tool, wire) in tools.iter_mut().zip(["Zeta", "Alpha"]) {
            tool.spec = Arc::new(ToolSpec { name: wire.to_owned(), ..ToolSpec::clone(&tool.spec) });
        }
        let text = list_tools(&tools);
        assert!(text.contains("once `ToolSearch` found them:\n<tools>\nAlpha\nZeta: One\n"), "{text}");
    }

    #[test]
    fn a_long_list_has_the_names_alone_and_one_without_the_search_asks_for_nothing() {
        let many: Vec<RunTool> = (0..500).map(|at| lazy(&format!("mcp_t{at}"), &"x".repeat(99))).collect();
        let text = list_tools(&many);
        assert!(text.len() < MAX_DESCRIBED_BYTES && text.contains("\nmcp_t499\n"), "{}", text.len());
        assert!(!text.contains("tool_search"));
        assert_eq!(list_tools(&[]), "");
    }
}

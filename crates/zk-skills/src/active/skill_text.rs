//! Text of a used skill, as delivered to a model.

use crate::discovery::catalog::escape;
use crate::skill::{Bundle, Skill};

/// Maximum number of resources that are listed.
const MAX_RESOURCES: usize = 100;

/// Tag around a skill's text.
pub(crate) use zk_core::service::SKILL_TAG as TAG;

/// Formats a skill in a tag: body, directory and list of files.
pub(crate) fn deliver(skill: &Skill, body: &str, bundle: &Bundle) -> String {
    // Escapes the closing tag in the text.
    let body = body.replace(&format!("</{TAG}"), &format!("&lt;/{TAG}"));
    let mut text = format!("<{TAG} name=\"{}\">\n{body}\n", escape(skill.name()));
    if let Some(needs) = &skill.manifest.compatibility {
        text.push_str(&format!("\nIt needs: {}\n", escape(needs)));
    }
    if let Some(tools) = &skill.manifest.allowed_tools {
        let tools = if tools.is_empty() { "none".to_owned() } else { escape(&tools.join(", ")) };
        text.push_str(&format!("\nTools that may be called while it is in use: {tools}\n"));
    }
    if let Some(dir) = &skill.dir {
        text.push_str(&format!("\nDirectory of the skill: {}\n", escape(&dir.display().to_string())));
    }
    if skill.dir.is_some() || skill.served.is_some() {
        let resources = bundle.resources();
        if !resources.is_empty() {
            let run = if skill.dir.is_some() { " and to run with skills_run_script" } else { "" };
            text.push_str(&format!("Its files, to read with skills_read{run}:\n"));
            for name in resources.iter().take(MAX_RESOURCES) {
                text.push_str(&format!("- {}\n", escape(name)));
            }
            if let Some(more) = resources.len().checked_sub(MAX_RESOURCES).filter(|more| *more > 0) {
                text.push_str(&format!("- and {more} more\n"));
            }
        }
    }
    text.push_str(&format!("</{TAG}>"));
    text
}

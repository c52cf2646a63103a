use zk_core::service::SERVER_TOOL_PREFIX;

use super::{Decision, Layer, Rule, RuleBase};

/// Maximum number of letters in which a misspelt tool name differs from a known one.
const MAX_TOOL_ERRORS: usize = 2;

/// Tools by name, for remarks on rules that match none.
#[derive(Debug)]
pub struct KnownTools {
    /// Names of the tools that the program itself may offer.
    pub own: Vec<&'static str>,
    /// Own names of a tool by its name in another program; empty if there is none.
    pub of_foreign: fn(&str) -> Vec<String>,
}

impl KnownTools {
    /// Returns the reason why a permission rule is probably not meant as written, if there is one. The base directory of
    /// its paths does not matter.
    #[must_use]
    pub fn wrong_rule(&self, decision: Decision, text: &str) -> Option<String> {
        let text = text.trim();
        let base = RuleBase { root: "/".into(), home: Some("/".into()) };
        if let Some(why) = self.about_tool(text) {
            return Some(why);
        }
        Rule::parse(Layer::User, decision, text, &base).err().map(|error| error.to_string())
    }

    /// Returns the reason why a rule with a tool's name, or a similar one, matches nothing.
    fn about_tool(&self, rule: &str) -> Option<String> {
        if let Some(name) = rule.strip_prefix("tool(").and_then(|rest| rest.strip_suffix(')')) {
            if name.contains(['*', '?', '[', '{']) {
                return None;
            }
            // Tools of plugins and servers are not known yet at this point.
            let distances = self.own.iter().map(|own| (strsim::osa_distance(name, own), *own));
            let (_, near) = distances.min().filter(|(errors, _)| (1..=MAX_TOOL_ERRORS).contains(errors))?;
            return Some(format!("the rule `{rule}` is about no tool: did you mean `tool({near})`?"));
        }
        let (name, arguments) = match rule.split_once('(') {
            Some((name, rest)) => (name, rest.strip_suffix(')')),
            None => (rule, None),
        };
        let foreign = if name.starts_with(|first: char| first.is_ascii_uppercase()) {
            (self.of_foreign)(name)
        } else {
            Vec::new()
        };
        let tool = match foreign.first() {
            Some(tool) => tool.as_str(),
            None if self.own.contains(&name) || name.starts_with(SERVER_TOOL_PREFIX) => name,
            None => return None,
        };
        if rule.contains('(') && tool == "fetch" && foreign.is_empty() {
            return None;
        }
        let of_a_call = match (tool, arguments) {
            ("shell", Some(command)) => {
                let words = command.trim_end_matches(":*").trim_end_matches('*').trim();
                format!("; a rule about commands is their words, such as `{words} **`")
            }
            ("shell", None) => "; a rule about commands is their words, such as `git push **`".to_owned(),
            ("fetch", _) => "; a rule about hosts is written `fetch(docs.rs)`".to_owned(),
            ("read_file" | "list_files" | "glob", _) => {
                "; a rule about files that are read is written `read(private/**)`".to_owned()
            }
            ("grep", _) => {
                "; a rule about the program is written `grep **`, one about files that are read `read(private/**)`"
                    .to_owned()
            }
            ("write_file" | "edit" | "multi_edit", _) => {
                "; a rule about files that are written is written `write(src/**)`".to_owned()
            }
            _ => String::new(),
        };
        Some(format!(
            "the rule `{rule}` matches nothing: a rule about a tool is written `tool({tool})`{of_a_call}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_the_nearest_tool_and_a_tool_that_exists_is_none_of_them() {
        let tools = KnownTools { own: vec!["shell", "skill"], of_foreign: |_| Vec::new() };
        let wrong = |rule| tools.wrong_rule(Decision::Deny, rule);
        assert_eq!(wrong("tool(skill)"), None);
        assert!(wrong("tool(skil)").is_some_and(|why| why.contains("`tool(skill)`")));
        assert_eq!(wrong("tool(s*)"), None);
    }
}

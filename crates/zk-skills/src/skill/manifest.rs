use std::collections::BTreeMap;

use super::diagnostic::Diagnostic;
use super::frontmatter;
use super::yaml::{self, Node};

/// Longest description, in characters, according to the specification.
pub const MAX_DESCRIPTION: usize = 1024;

/// Fields of a skill's frontmatter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Name of the skill; by default that of its directory.
    pub name: String,
    /// Description of the skill: its purpose and when to use it.
    pub description: String,
    /// Licence of the skill.
    pub license: Option<String>,
    /// Requirements of the skill.
    pub compatibility: Option<String>,
    /// Additional fields, as text.
    pub metadata: BTreeMap<String, String>,
    /// Tools that the skill may use, as written; `None` without the field.
    pub allowed_tools: Option<Vec<String>>,
    /// Requested model.
    pub model: Option<String>,
    /// Requested thinking level.
    pub thinking: Option<String>,
    /// Globs of relevant files; with globs, the skill is mentioned once a matching file is used.
    pub paths: Vec<String>,
    /// Hint about the arguments after its name, for a person.
    pub argument_hint: Option<String>,
    /// Choices for the first argument.
    pub argument_choices: Vec<String>,
    /// Whether only a person may use it.
    pub disable_model_invocation: bool,
    /// Whether it is offered to the person; the model is not affected.
    pub user_invocable: bool,
}

/// Values that mean true, in lower case.
const TRUE: [&str; 4] = ["true", "yes", "on", "1"];

impl Manifest {
    /// Parses a frontmatter leniently: wrong names, unknown fields and other forms of lists are warnings.
    ///
    /// # Errors
    /// A diagnostic for a skill that cannot be used: invalid YAML even after repairs, or no description.
    pub(super) fn read(
        yaml: &str,
        directory: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Self, Diagnostic> {
        let document = match yaml::parse(yaml) {
            Ok(document) => document,
            Err(why) => {
                let repaired = frontmatter::quote_values(yaml);
                let again = repaired.as_deref().and_then(|text| yaml::parse(text).ok());
                let Some(document) = again else {
                    return Err(Diagnostic::error(format!("its frontmatter is no YAML: {why}")));
                };
                diagnostics.push(Diagnostic::warning(format!(
                    "its frontmatter is no YAML ({why}) and was read with its values in quotes"
                )));
                document
            }
        };
        let Some(Node::Map(entries)) = document.root else {
            return Err(Diagnostic::error("its frontmatter has no fields"));
        };
        let mut manifest = Self { user_invocable: true, ..Self::default() };
        for (key, value) in entries {
            manifest.set(&key, value, diagnostics);
        }
        manifest.finish(directory, diagnostics)
    }

    /// Valid fields of another file's frontmatter.
    pub(crate) fn fields(yaml: &str) -> Self {
        let mut manifest = Self { user_invocable: true, ..Self::default() };
        let read = yaml::parse(yaml).ok().or_else(|| yaml::parse(&frontmatter::quote_values(yaml)?).ok());
        if let Some(Node::Map(entries)) = read.and_then(|document| document.root) {
            for (key, value) in entries {
                manifest.set(&key, value, &mut Vec::new());
            }
        }
        manifest
    }

    fn set(&mut self, key: &str, value: Node, diagnostics: &mut Vec<Diagnostic>) {
        match key {
            "name" => self.name = text(&value),
            "description" => self.description = text(&value),
            "license" => self.license = Some(text(&value)),
            "compatibility" => self.compatibility = Some(text(&value)),
            "metadata" => match value {
                Node::Map(entries) => {
                    self.metadata = entries.into_iter().map(|(key, value)| (key, text(&value))).collect();
                }
                Node::Text(_) | Node::List(_) => {
                    diagnostics.push(Diagnostic::warning("`metadata` is no map and is left out"));
                }
            },
            "allowed-tools" | "allowed_tools" => self.allowed_tools = Some(tools(&value)),
            "model" => {
                self.model = Some(text(&value)).filter(|model| !model.is_empty() && model != "inherit")
            }
            "thinking" | "effort" => self.thinking = Some(text(&value)).filter(|level| !level.is_empty()),
            "paths" | "globs" => self.paths = words(&value),
            "argument-hint" => {
                self.argument_hint = Some(argument_hint_text(&value)).filter(|hint| !hint.is_empty())
            }
            "argument-choices" => self.argument_choices = words(&value),
            "disable-model-invocation" => self.disable_model_invocation = flag(&value),
            "user-invocable" => self.user_invocable = flag(&value),
            _ => {}
        }
    }

    fn finish(mut self, directory: &str, diagnostics: &mut Vec<Diagnostic>) -> Result<Self, Diagnostic> {
        self.name = self.name.trim().to_owned();
        self.description = self.description.trim().to_owned();
        if self.description.is_empty() {
            return Err(Diagnostic::error("it has no `description`, so no model could know when to use it"));
        }
        if self.name.is_empty() {
            diagnostics.push(Diagnostic::warning(format!("it has no `name` and is called `{directory}`")));
            directory.clone_into(&mut self.name);
        }
        let name = &self.name;
        for fault in super::strict::name_faults(name, directory) {
            diagnostics.push(Diagnostic::warning(fault));
        }
        // Names are typed, and occur in tags and messages.
        let unusable = name.chars().any(|c| c.is_control() || c.is_whitespace() || "<>&\"'/\\".contains(c));
        if unusable || name.chars().count() > 128 {
            let usable: String =
                name.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
            let usable: String =
                usable.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
            let usable: String = usable.chars().take(64).collect();
            if usable.is_empty() {
                return Err(Diagnostic::error(format!("its name `{name}` has no letter")));
            }
            diagnostics.push(Diagnostic::warning(format!(
                "its name `{name}` cannot be typed; it is called `{usable}`"
            )));
            self.name = usable;
        }
        let length = self.description.chars().count();
        if length > MAX_DESCRIPTION {
            diagnostics.push(Diagnostic::warning(format!(
                "its description has {length} characters; a model sees the first {MAX_DESCRIPTION}"
            )));
        }
        Ok(self)
    }
}

/// Value as text: a list as lines, a map as `key: value` lines.
fn text(node: &Node) -> String {
    match node {
        Node::Text(text) => text.trim().to_owned(),
        Node::List(items) => items.iter().map(text).collect::<Vec<_>>().join("\n"),
        Node::Map(entries) => {
            let line = |(key, value): &(String, Node)| format!("{key}: {}", text(value));
            entries.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

fn flag(node: &Node) -> bool {
    TRUE.contains(&text(node).to_ascii_lowercase().as_str())
}

/// Argument hint; `[file] [name]` is meant as text, but is a list in YAML.
fn argument_hint_text(node: &Node) -> String {
    match node {
        Node::List(items) => {
            items.iter().map(|item| format!("[{}]", text(item))).collect::<Vec<_>>().join(" ")
        }
        Node::Text(_) | Node::Map(_) => text(node),
    }
}

/// Words separated by blanks or commas, or the items of a list.
fn words(node: &Node) -> Vec<String> {
    let split = |text: &str| -> Vec<String> {
        text.split([',', ' ', '\n', '\t']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    match node {
        Node::Text(text) => split(text),
        Node::List(items) => items.iter().map(text).filter(|word| !word.is_empty()).collect(),
        Node::Map(_) => Vec::new(),
    }
}

/// Tools separated by blanks or commas outside of parentheses, or the items of a list: `Bash(git status:*),
/// Read`.
fn tools(node: &Node) -> Vec<String> {
    let text = match node {
        Node::Text(text) => text.clone(),
        Node::List(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        Node::Map(_) => String::new(),
    };
    let mut tools = vec![String::new()];
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let ends = depth == 0 && (c == ',' || c.is_whitespace());
        match tools.last_mut() {
            Some(last) if !ends => last.push(c),
            Some(_) | None => tools.push(String::new()),
        }
    }
    tools.retain(|tool| !tool.is_empty());
    tools
}

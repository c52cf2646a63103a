use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use zk_core::kernel::Cx;
use zk_core::model::{Block, CallId, Disclosure, Message, Role, ToolSpec};
use zk_core::service::{PromptSection, RunTools, Tool};

use crate::text::count::{TokenCounter, count_block};

/// Argument names for the file of a call.
const PATH_ARGUMENTS: [&str; 4] = ["path", "file_path", "file", "filename"];

/// Tool whose results are skills.
pub(crate) use zk_core::service::SKILL_TOOL;

/// Estimate of a context's content, by part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ContextReport {
    /// Parts: sections of the system prompt, tools by provider, and parts of the conversation. Each token is
    /// in one part.
    pub parts: Vec<ContextPart>,
    /// Results by file, largest first; included in the conversation's parts.
    pub files: Vec<ContextPart>,
    /// Tokens by turn, from the first: an answer, its results, and the prompt before it.
    pub turns: Vec<u64>,
    /// Sum of all tokens.
    pub tokens: u64,
}

/// One part of a context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContextPart {
    /// Kind of the part.
    pub kind: PartOf,
    /// Name of the part: a section, a tool, a file.
    pub name: String,
    /// Provider of the part: the plugin of a section, the server of a tool. Empty for parts of the
    /// conversation.
    pub source: String,
    /// Estimated tokens.
    pub tokens: u64,
    /// Number of messages, results or tools.
    pub count: u64,
}

/// Kind of part in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartOf {
    /// Section of the system prompt.
    Section,
    /// Tool descriptions, by provider.
    Tools,
    /// Prompts of the person.
    Prompts,
    /// Answers of the model.
    Answers,
    /// Reasoning of the model.
    Thinking,
    /// Calls of the model, by tool.
    Calls,
    /// Results of calls, by tool.
    Results,
    /// Loaded skills, by name.
    Skill,
    /// Summaries of omitted messages.
    Summary,
    /// Messages of plugins, by plugin.
    Injected,
}

impl PartOf {
    /// Name of the kind, as printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Section => "section",
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Answers => "answers",
            Self::Thinking => "thinking",
            Self::Calls => "calls",
            Self::Results => "results",
            Self::Skill => "skill",
            Self::Summary => "summary",
            Self::Injected => "injected",
        }
    }
}

impl ContextReport {
    /// Adds the agent's own part of the system prompt, which is not a section.
    pub fn add_system(&mut self, text: &str, counter: &dyn TokenCounter) {
        let tokens = counter.count(text);
        let (name, source) = ("system".to_owned(), "zk-agent".to_owned());
        self.parts.push(ContextPart { kind: PartOf::Section, name, source, tokens, count: 1 });
        self.tokens += tokens;
    }

    /// Names the largest parts, for a message.
    #[must_use]
    pub fn largest(&self, count: usize) -> String {
        let mut parts: Vec<_> = self.parts.iter().filter(|part| part.tokens > 0).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.tokens));
        let line = |part: &&ContextPart| {
            let of = if part.name.is_empty() { String::new() } else { format!(" {}", part.name) };
            format!("{}{of} {}", part.kind.as_str(), part.tokens)
        };
        parts.iter().take(count).map(line).collect::<Vec<_>>().join(", ")
    }
}

/// Estimates the context of a conversation whose sent messages are `sent`, with the sections and tools on the
/// bus of `cx`.
pub async fn report(sent: &[Arc<Message>], counter: &dyn TokenCounter, cx: &Cx) -> ContextReport {
    let mut parts = Parts::default();
    let mut sections: Vec<_> = cx.items::<dyn PromptSection>();
    sections.sort_by_key(|section| section.value.order());
    for section in sections {
        // A failing section is not sent either.
        let text = section.value.text(cx).await.unwrap_or_default();
        parts.add(PartOf::Section, &section.name, section.source.as_str(), counter.count(&text));
    }
    let offered: Option<Vec<_>> = cx
        .service::<dyn RunTools>()
        .map(|tools| tools.tools().into_iter().filter(|tool| tool.unlocked).map(|tool| tool.name).collect());
    for tool in cx.items::<dyn Tool>() {
        let spec = tool.value.spec();
        let is_sent = match &offered {
            Some(offered) => offered.contains(&tool.name),
            None => spec.disclosure == Disclosure::Always,
        };
        if is_sent {
            parts.add(PartOf::Tools, tool.source.as_str(), tool.source.as_str(), spec_tokens(spec));
        }
    }
    let (mut files, mut turns) = (Parts::default(), Vec::new());
    let calls = calls_of(sent);
    let mut turn = 0;
    for message in sent {
        let mut all = 0;
        for block in &message.content {
            let tokens = count_block(block, counter);
            all += tokens;
            let (kind, name) = kind_of(message, block, &calls);
            parts.add(kind, &name, "", tokens);
            if let Block::ToolResult(result) = block
                && let Some(path) = calls.get(&result.call_id).and_then(|call| call.path.as_ref())
            {
                files.add(PartOf::Results, path, "", tokens);
            }
        }
        turn += all;
        let ends = message.results().next().is_some()
            || (message.role == Role::Assistant && message.calls().next().is_none());
        if ends {
            turns.push(std::mem::take(&mut turn));
        }
    }
    if turn > 0 {
        turns.push(turn);
    }
    let parts = parts.into_list();
    let mut files = files.into_list();
    files.sort_by(|one, other| other.tokens.cmp(&one.tokens).then_with(|| one.name.cmp(&other.name)));
    let tokens = parts.iter().map(|part| part.tokens).sum();
    ContextReport { parts, files, turns, tokens }
}

/// Estimated tokens of a tool's description.
pub(crate) fn spec_tokens(spec: &ToolSpec) -> u64 {
    // Schemas are JSON, which has fewer bytes per token than prose.
    let schema = Block::provider("", &zk_core::model::ModelRef::new("", ""), spec.schema.clone()).size();
    ((spec.name.len() + spec.description.len() + schema) as u64).div_ceil(4)
}

#[derive(Default)]
struct Parts(BTreeMap<(PartOf, String, String), (u64, u64)>);

impl Parts {
    fn add(&mut self, kind: PartOf, name: &str, source: &str, tokens: u64) {
        let part = self.0.entry((kind, name.to_owned(), source.to_owned())).or_default();
        part.0 += tokens;
        part.1 += 1;
    }

    fn into_list(self) -> Vec<ContextPart> {
        let part =
            |((kind, name, source), (tokens, count))| ContextPart { kind, name, source, tokens, count };
        self.0.into_iter().map(part).collect()
    }
}

struct CallOf {
    tool: String,
    path: Option<String>,
    skill: Option<String>,
}

fn calls_of(sent: &[Arc<Message>]) -> BTreeMap<&CallId, CallOf> {
    let calls = sent.iter().flat_map(|message| message.calls());
    calls
        .map(|call| {
            let text = |name: &str| call.args.get(name)?.as_str().map(str::to_owned);
            let path = PATH_ARGUMENTS.iter().find_map(|name| text(name));
            let skill = (call.name == SKILL_TOOL).then(|| text("skill")).flatten();
            (&call.id, CallOf { tool: call.name.clone(), path, skill })
        })
        .collect()
}

fn kind_of(message: &Message, block: &Block, calls: &BTreeMap<&CallId, CallOf>) -> (PartOf, String) {
    let plain = |kind| (kind, String::new());
    match block {
        Block::ToolResult(result) => match calls.get(&result.call_id) {
            Some(CallOf { skill: Some(skill), .. }) => (PartOf::Skill, skill.clone()),
            Some(call) => (PartOf::Results, call.tool.clone()),
            None => plain(PartOf::Results),
        },
        Block::ToolCall(call) => (PartOf::Calls, call.name.clone()),
        Block::Compaction(_) => plain(PartOf::Summary),
        Block::Thinking(_) => plain(PartOf::Thinking),
        Block::Text(_) | Block::Image(_) | Block::Document(_) | Block::Provider(_) => {
            match (&message.injected_by, message.role) {
                (Some(by), _) => match by.strip_prefix("skill:") {
                    Some(skill) => (PartOf::Skill, skill.to_owned()),
                    None => (PartOf::Injected, by.clone()),
                },
                (None, Role::User) => plain(PartOf::Prompts),
                (None, Role::Assistant) => plain(PartOf::Answers),
            }
        }
    }
}

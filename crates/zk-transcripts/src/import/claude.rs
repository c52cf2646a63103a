use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use zk_core::model::{Block, ModelRef, StopReason, Text, Thinking, ToolCall};
use zk_core::service::{Entry, read_regular};

use super::format::TranscriptRef;
use super::lines::JsonLines;
use super::outcome::{self, Outcome};
use super::session_builder::{PROGRAM, SessionBuilder};
use super::transcript::{Facts, Transcript};
use super::value::{anthropic_usage, content_of, is_true, list, media_block, text};
use crate::ImportError;
use crate::time::parse_time;

/// Model name of messages that Claude Code itself wrote.
const NO_MODEL: &str = "<synthetic>";

/// Maximum size of the metadata file of a sub-agent, in bytes.
const MAX_META_BYTES: u64 = 1 << 20;

/// Prefixes of texts that Claude Code adds to prompts.
const OWN_TEXTS: [&str; 7] = [
    "<command-name>",
    "<command-message>",
    "<local-command-",
    "<bash-",
    "<system-reminder>",
    "[Request interrupted",
    "Caveat: The messages below",
];

/// Position of a line in the message tree of a transcript.
#[derive(Deserialize)]
struct Place {
    #[serde(default)]
    uuid: Option<String>,
    #[serde(default, rename = "parentUuid")]
    parent: Option<String>,
    #[serde(default, rename = "logicalParentUuid")]
    logical_parent: Option<String>,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default, rename = "isSidechain")]
    is_sidechain: bool,
    #[serde(default)]
    message: Option<PlaceMessage>,
    #[serde(default, rename = "agentId")]
    agent_id: Option<String>,
}

#[derive(Deserialize)]
struct PlaceMessage {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    content: PlaceContent,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PlaceContent {
    Parts(Vec<PlacePart>),
    Other(IgnoredAny),
}

impl Default for PlaceContent {
    fn default() -> Self {
        Self::Parts(Vec::new())
    }
}

#[derive(Deserialize)]
struct PlacePart {
    #[serde(default, rename = "type")]
    kind: String,
}

impl Place {
    /// Whether the line contains results of calls.
    fn has_results(&self) -> bool {
        match self.message.as_ref().map(|message| &message.content) {
            Some(PlaceContent::Parts(parts)) => parts.iter().any(|part| part.kind == "tool_result"),
            Some(PlaceContent::Other(_)) | None => false,
        }
    }
}

/// Lines of the present branch.
#[derive(Default)]
struct Branch {
    lines: HashSet<String>,
    /// Lines of sub-agents by id, each with the key of its sub-agent.
    sidechains: HashMap<String, String>,
    /// Number of messages on other branches, which are left out.
    left: u64,
}

/// Reads a transcript of Claude Code: the present branch, with its sub-agents.
pub(super) fn read(found: &TranscriptRef) -> Result<Transcript, ImportError> {
    let branch = present_branch(&found.path)?;
    let mut lines = JsonLines::open(&found.path)?;
    let mut reader = Reader::new();
    let mut agents = Agents { ended: sub_agents(&found.path)?, inner: HashMap::new() };
    let (mut title, mut own_id, mut cwd) = (None, String::new(), PathBuf::new());
    while let Some(line) = lines.next_readable::<Value>()? {
        match text(&line, "type") {
            "summary" => title = title.or_else(|| Some(text(&line, "summary").to_owned())),
            "ai-title" => title = Some(text(&line, "aiTitle").to_owned()),
            "custom-title" => title = Some(text(&line, "customTitle").to_owned()),
            _ => {}
        }
        if own_id.is_empty() {
            text(&line, "sessionId").clone_into(&mut own_id);
        }
        if cwd.as_os_str().is_empty() {
            cwd = text(&line, "cwd").into();
        }
        let uuid = text(&line, "uuid");
        if let Some(agent) = branch.sidechains.get(uuid) {
            agents
                .inner
                .entry(agent.clone())
                .or_insert_with(Reader::new)
                .add_line(&line, &mut Agents::default());
        } else if branch.lines.contains(uuid) {
            reader.add_line(&line, &mut agents);
        }
    }
    // The calls that started these sub-agents are unknown.
    for agent in agents.take_all() {
        reader.builder.add_agent(&agent.name, None, agent.entries);
    }
    let mut notices = lines.notices();
    if branch.left > 0 {
        notices.push(format!("{} messages of branches that were left are not imported", branch.left));
    }
    if own_id.is_empty() {
        own_id = found.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    }
    let facts = Facts { own_id, cwd, title, notices };
    facts.into_transcript(found, reader.builder.finish())
}

/// Finds the lines from the first to the last message of the main conversation.
fn present_branch(path: &Path) -> Result<Branch, ImportError> {
    let mut lines = JsonLines::open(path)?;
    let mut places = Vec::new();
    while let Some(place) = lines.next_readable::<Place>()? {
        if place.uuid.is_some() {
            places.push(place);
        }
    }
    let by_id: HashMap<&str, &Place> =
        places.iter().filter_map(|place| Some((place.uuid.as_deref()?, place))).collect();
    let mut branch = Branch::default();
    let mut next = places.iter().rfind(|place| !place.is_sidechain).and_then(|place| place.uuid.as_deref());
    while let Some(uuid) = next {
        if !branch.lines.insert(uuid.to_owned()) {
            break;
        }
        let place = by_id.get(uuid);
        next = place.and_then(|place| place.parent.as_deref().or(place.logical_parent.as_deref()));
        next = next.filter(|uuid| by_id.contains_key(uuid));
    }
    // Parallel calls of one answer are separate lines, and so are their results. Only one of them has the next
    // message as its child.
    let answers: HashSet<&str> = places
        .iter()
        .filter(|place| place.uuid.as_ref().is_some_and(|uuid| branch.lines.contains(uuid)))
        .filter_map(|place| place.message.as_ref()?.id.as_deref())
        .collect();
    let mut more = HashSet::new();
    for place in places.iter().filter(|place| !place.is_sidechain) {
        let Some(uuid) = place.uuid.as_deref() else { continue };
        let is_part = place.message.as_ref().and_then(|message| message.id.as_deref());
        let is_part = is_part.is_some_and(|id| answers.contains(id));
        let parent = place.parent.as_deref().and_then(|parent| by_id.get(parent));
        let follows_part = place.has_results()
            && parent.is_some_and(|parent| {
                parent.kind == "assistant"
                    && parent
                        .uuid
                        .as_ref()
                        .is_some_and(|uuid| branch.lines.contains(uuid) || more.contains(uuid))
            });
        if !branch.lines.contains(uuid) {
            if is_part || follows_part {
                more.insert(uuid.to_owned());
            } else if matches!(place.kind.as_str(), "user" | "assistant") {
                branch.left += 1;
            }
        }
    }
    branch.lines.extend(more);
    for place in places.iter().filter(|place| place.is_sidechain) {
        let Some(uuid) = &place.uuid else { continue };
        let parent = place.parent.as_ref().and_then(|parent| branch.sidechains.get(parent));
        let key = place.agent_id.clone().or_else(|| parent.cloned()).unwrap_or_else(|| uuid.clone());
        branch.sidechains.insert(uuid.clone(), key);
    }
    Ok(branch)
}

/// Sub-agent of a transcript.
struct SubAgent {
    /// Id of the sub-agent in Claude Code.
    id: String,
    name: String,
    call_id: Option<String>,
    prompt: String,
    entries: Vec<Entry>,
}

impl SubAgent {
    fn new(id: String, reader: Reader) -> Self {
        let Reader { first_prompt, agent_type, builder, .. } = reader;
        let name = agent_type.unwrap_or_else(|| "agent".to_owned());
        Self { id, name, call_id: None, prompt: first_prompt, entries: builder.into_agent_entries() }
    }
}

/// Reads the sub-agents that are in files beside a transcript.
fn sub_agents(path: &Path) -> Result<Vec<SubAgent>, ImportError> {
    let dir = path.with_extension("").join("subagents");
    let Ok(files) = std::fs::read_dir(&dir) else { return Ok(Vec::new()) };
    let mut files: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    files.sort();
    let mut agents = Vec::new();
    for file in files {
        // A link or a pipe beside the transcript is not part of it.
        if !file.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            continue;
        }
        let mut lines = JsonLines::open(&file)?;
        let mut reader = Reader::new();
        while let Some(line) = lines.next_readable::<Value>()? {
            reader.add_line(&line, &mut Agents::default());
        }
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut agent = SubAgent::new(stem.trim_start_matches("agent-").to_owned(), reader);
        let meta = read_regular(&file.with_extension("meta.json"), MAX_META_BYTES).unwrap_or_default();
        if let Ok(meta) = serde_json::from_slice::<Value>(&meta) {
            agent.call_id = Some(text(&meta, "toolUseId").to_owned()).filter(|id| !id.is_empty());
            if !text(&meta, "agentType").is_empty() {
                text(&meta, "agentType").clone_into(&mut agent.name);
            }
        }
        agents.push(agent);
    }
    Ok(agents)
}

/// Sub-agents that are not assigned to a call yet.
#[derive(Default)]
struct Agents {
    /// Sub-agents in files of their own.
    ended: Vec<SubAgent>,
    /// Sub-agents in the file of the conversation, by their keys.
    inner: HashMap<String, Reader>,
}

impl Agents {
    /// Takes the sub-agent of a call.
    fn take_agent(&mut self, call_id: &str, agent_id: &str, prompt: &str) -> Option<SubAgent> {
        let is_it = |agent: &SubAgent| match &agent.call_id {
            Some(id) => id == call_id,
            None => agent.id == agent_id || (!prompt.is_empty() && agent.prompt == prompt),
        };
        if let Some(at) = self.ended.iter().position(is_it) {
            return Some(self.ended.remove(at));
        }
        let is_it = |(key, reader): (&String, &Reader)| {
            let is_it = key == agent_id || (!prompt.is_empty() && reader.first_prompt == prompt);
            is_it.then(|| key.clone())
        };
        let key = self.inner.iter().find_map(is_it)?;
        let reader = self.inner.remove(&key)?;
        Some(SubAgent::new(key, reader))
    }

    fn take_all(self) -> Vec<SubAgent> {
        let mut all = self.ended;
        let mut inner: Vec<(String, Reader)> = self.inner.into_iter().collect();
        inner.sort_by(|(one, _), (other, _)| one.cmp(other));
        all.extend(inner.into_iter().map(|(key, reader)| SubAgent::new(key, reader)));
        all
    }
}

/// Converter of one conversation's lines to entries.
struct Reader {
    builder: SessionBuilder,
    first_prompt: String,
    agent_type: Option<String>,
    tokens_before: u64,
}

impl Reader {
    fn new() -> Self {
        Self {
            builder: SessionBuilder::new(),
            first_prompt: String::new(),
            agent_type: None,
            tokens_before: 0,
        }
    }

    fn add_line(&mut self, line: &Value, agents: &mut Agents) {
        self.builder.set_time(parse_time(text(line, "timestamp")));
        if self.agent_type.is_none() {
            let agent = text(line, "attributionAgent");
            self.agent_type = (!agent.is_empty()).then(|| agent.to_owned());
        }
        match text(line, "type") {
            "user" => self.add_user(line, agents),
            "assistant" => self.add_assistant(line),
            "system" if text(line, "subtype") == "compact_boundary" => {
                let before = line.get("compactMetadata").and_then(|meta| meta.get("preTokens"));
                self.tokens_before = before.and_then(Value::as_u64).unwrap_or_default();
            }
            _ => {}
        }
    }

    fn add_user(&mut self, line: &Value, agents: &mut Agents) {
        let Some(message) = line.get("message") else { return };
        let mut said = Vec::new();
        match message.get("content") {
            Some(Value::String(said_text)) => said.push(Block::text(said_text.as_str())),
            Some(Value::Array(parts)) => {
                for part in parts {
                    match text(part, "type") {
                        "tool_result" => self.add_result(line, part, agents),
                        _ => said.extend(user_block(part)),
                    }
                }
            }
            _ => {}
        }
        said.retain(|part| part.as_text() != Some(""));
        let first = said.iter().find_map(Block::as_text).unwrap_or_default().to_owned();
        if said.is_empty() {
            return;
        }
        if is_true(line, "isCompactSummary") {
            self.builder.add_compaction(&first, std::mem::take(&mut self.tokens_before));
        } else if is_true(line, "isMeta") || OWN_TEXTS.iter().any(|own| first.starts_with(own)) {
            if first.starts_with("[Request interrupted") {
                self.builder.mark_stopped();
            }
            self.builder.add_injected(PROGRAM, said);
        } else {
            if self.first_prompt.is_empty() {
                self.first_prompt = first;
            }
            self.builder.add_prompt(said);
        }
    }

    fn add_result(&mut self, line: &Value, part: &Value, agents: &mut Agents) {
        let call_id = text(part, "tool_use_id");
        let content = match part.get("content") {
            Some(Value::String(said)) => said.as_str().into(),
            Some(Value::Array(parts)) => content_of(parts.iter().filter_map(user_block).collect()),
            _ => "".into(),
        };
        let mut outcome = Outcome::new(content, is_true(part, "is_error"));
        let details = line.get("toolUseResult").unwrap_or(&Value::Null);
        let Some(call) = self.builder.find_call(call_id) else {
            self.builder.orphans += 1;
            return;
        };
        if !outcome.is_error {
            outcome.display = result_display(&call.name, &call.args, details);
        }
        let agent = text(details, "agentId");
        let delegates = !agent.is_empty() || matches!(call.name.as_str(), "Task" | "Agent");
        let agent =
            delegates.then(|| agents.take_agent(call_id, agent, text(&call.args, "prompt"))).flatten();
        outcome.elapsed_ms = super::value::count(details, "totalDurationMs");
        self.builder.add_result(call_id, outcome);
        if let Some(SubAgent { name, entries, .. }) = agent {
            self.builder.add_agent(&name, Some(call_id), entries);
        }
    }

    fn add_assistant(&mut self, line: &Value) {
        let Some(message) = line.get("message") else { return };
        let model = text(message, "model");
        if model == NO_MODEL || is_true(line, "isApiErrorMessage") {
            return;
        }
        let model = ModelRef::new("anthropic", model);
        let parts = list(message, "content").iter().filter_map(|part| answer_block(part, &model)).collect();
        self.builder.add_answer(text(message, "id"), Some(&model), parts);
        let stop = match text(message, "stop_reason") {
            "end_turn" => Some(StopReason::EndTurn),
            "tool_use" => Some(StopReason::ToolUse),
            "max_tokens" => Some(StopReason::MaxTokens),
            "refusal" => Some(StopReason::Refusal(None)),
            _ => None,
        };
        self.builder.set_stop(stop);
        if let Some(usage) = message.get("usage") {
            self.builder.set_usage(anthropic_usage(usage), None, true);
        }
    }
}

/// Block for a part of a person's message or of a result.
fn user_block(part: &Value) -> Option<Block> {
    match text(part, "type") {
        "text" => Some(Block::text(text(part, "text"))),
        "image" | "document" => {
            let source = part.get("source")?;
            let data = text(source, "data");
            match text(source, "type") {
                "base64" => Some(media_block(text(source, "media_type"), data, text(part, "title"))),
                "text" => Some(Block::text(data)),
                _ => None,
            }
        }
        "tool_reference" => Some(Block::text(format!("[tool {}]", text(part, "tool_name")))),
        _ => None,
    }
}

/// Block for a part of an answer.
fn answer_block(part: &Value, model: &ModelRef) -> Option<Block> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    match text(part, "type") {
        "text" => Some(Block::Text(Text { text: text(part, "text").to_owned(), wire: None })),
        "thinking" => Some(Block::Thinking(Thinking {
            text: text(part, "thinking").to_owned(),
            signature: some(text(part, "signature")),
            origin: Some(model.clone()),
            ..Thinking::default()
        })),
        "redacted_thinking" => Some(Block::Thinking(Thinking {
            redacted: some(text(part, "data")),
            origin: Some(model.clone()),
            ..Thinking::default()
        })),
        "tool_use" => {
            let args = part.get("input").filter(|input| input.is_object()).cloned();
            let args = args.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
            Some(Block::ToolCall(ToolCall::new(text(part, "id"), text(part, "name"), args)))
        }
        _ => None,
    }
}

/// Display of a call's result for people.
fn result_display(tool: &str, args: &Value, details: &Value) -> Option<zk_core::model::Display> {
    let patch = list(details, "structuredPatch");
    if !patch.is_empty() {
        let mut diff = String::new();
        for hunk in patch {
            let number = |key: &str| super::value::count(hunk, key);
            diff.push_str(&format!(
                "@@ -{},{} +{},{} @@\n",
                number("oldStart"),
                number("oldLines"),
                number("newStart"),
                number("newLines")
            ));
            for line in list(hunk, "lines").iter().filter_map(Value::as_str) {
                diff.push_str(line);
                diff.push('\n');
            }
        }
        return outcome::diff_display(text(details, "filePath"), &diff);
    }
    match tool {
        "Write" => {
            let content = text(args, "content");
            let count = content.lines().count();
            let lines: Vec<String> = content.lines().map(|line| format!("+{line}")).collect();
            let diff = format!("@@ -0,0 +1,{count} @@\n{}\n", lines.join("\n"));
            outcome::diff_display(text(args, "file_path"), &diff)
        }
        "TodoWrite" => outcome::checklist_display(args),
        "Bash" if details.get("stdout").is_some() && !is_true(details, "interrupted") => {
            let output = [text(details, "stdout"), text(details, "stderr")];
            let output: Vec<&str> = output.into_iter().filter(|output| !output.is_empty()).collect();
            outcome::command_display(&output.join("\n"), Some(0))
        }
        _ => None,
    }
}

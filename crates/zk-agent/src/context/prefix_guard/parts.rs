use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zk_core::events::SectionSize;
use zk_core::model::{Message, Role, ToolSpec};
use zk_core::service::is_dynamic_context;

/// Name of all of a system prompt where its sections are not known, and of the agent's own part of it.
const WHOLE: &str = "system";

/// A tool or a section of the system prompt, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) name: String,
    /// Source that registered the part.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) source: String,
    pub(super) bytes: usize,
    hash: u64,
    /// The hash of its text without digits, of a section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<u64>,
}

/// The first part that two requests do not share.
pub(super) struct Difference<'a> {
    /// The one that changed, left or came.
    pub(super) part: &'a Part,
    /// Offset of the part in what was sent, in bytes.
    pub(super) at: usize,
    /// Nothing changed but its digits, as those of a clock do.
    pub(super) only_digits: bool,
    /// Whether everything that was sent stands before it.
    pub(super) is_behind: bool,
}

impl Part {
    fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.hash == other.hash && self.bytes == other.bytes
    }
}

/// Compares the parts of two requests by name and content.
pub(super) fn difference<'a>(before: &'a [Part], after: &'a [Part]) -> Option<Difference<'a>> {
    let same = before.iter().zip(after).take_while(|(one, other)| one.is_same(other)).count();
    let at = before.iter().take(same).map(|part| part.bytes).sum();
    let has = |parts: &[Part], name: &str| parts.iter().any(|part| part.name == name);
    let is_behind = before.get(same).is_none();
    let (part, only_digits) = match (before.get(same), after.get(same)) {
        (None, None) => return None,
        (Some(one), Some(other)) if one.name == other.name => {
            (other, one.shape.is_some() && one.shape == other.shape)
        }
        // All of a prompt, or the agent's own part of it.
        (Some(one), Some(other)) if one.name == WHOLE || other.name == WHOLE => {
            (if one.name == WHOLE { one } else { other }, false)
        }
        // A part that came stands before what was there.
        (Some(one), Some(other)) if has(after, &one.name) && !has(before, &other.name) => (other, false),
        (Some(one), _) => (one, false),
        (None, Some(other)) => (other, false),
    };
    Some(Difference { part, at, only_digits, is_behind })
}

/// The tools, registered by `sources`.
pub(super) fn of_tools(tools: &[Arc<ToolSpec>], sources: &[String]) -> Vec<Part> {
    let part = |(at, tool): (usize, &Arc<ToolSpec>)| {
        let schema = tool.schema.to_string();
        Part {
            name: tool.name.clone(),
            source: sources.get(at).cloned().unwrap_or_default(),
            bytes: tool.name.len() + tool.description.len() + schema.len(),
            hash: hash_of(&[tool.name.as_bytes(), tool.description.as_bytes(), schema.as_bytes()]),
            shape: None,
        }
    };
    tools.iter().enumerate().map(part).collect()
}

/// The sections of a system prompt; one for all of it where the plugin `rewritten_by` made another text of them.
pub(super) fn of_system(system: &str, sections: &[SectionSize], rewritten_by: Option<&str>) -> Vec<Part> {
    let part = |name: &str, source: &str, text: &str| {
        let shape: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        Part {
            name: name.to_owned(),
            source: source.to_owned(),
            bytes: text.len(),
            hash: hash_of(&[text.as_bytes()]),
            shape: Some(hash_of(&[shape.as_bytes()])),
        }
    };
    let mut parts: Vec<Part> = Vec::new();
    let mut at = 0;
    for section in sections {
        // An empty line stands between two.
        at += if parts.is_empty() { 0 } else { 2 };
        let Some(text) = system.get(at..at + section.bytes) else { break };
        parts.push(part(&section.id, &section.source, text));
        at += section.bytes;
    }
    if parts.len() == sections.len() && at == system.len() {
        return parts;
    }
    vec![part(WHOLE, rewritten_by.unwrap_or("zk-agent"), system)]
}

/// Beginning of a conversation up to one of its messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    /// Messages before it.
    pub(super) messages: usize,
    /// Blocks before it, each change of who speaks counted, too.
    blocks: usize,
    /// Size of the parts in bytes, as [`context_size`](zk_core::model::context_size) has it.
    pub(super) bytes: usize,
    chain: u64,
}

/// A hash that grows with a conversation, whatever messages its blocks are in.
#[derive(Clone, Debug)]
struct Chain {
    role: Option<Role>,
    at: Checkpoint,
}

impl Chain {
    fn new() -> Self {
        Self { role: None, at: Checkpoint { messages: 0, blocks: 0, bytes: 0, chain: FNV } }
    }

    fn add(&mut self, message: &Message, mut after_block: impl FnMut(&Checkpoint)) {
        let mut step = |at: &mut Checkpoint, bytes: &[u8]| {
            at.blocks += 1;
            at.chain = fold(fold(at.chain, bytes), &bytes.len().to_le_bytes());
            after_block(at);
        };
        if self.role != Some(message.role) {
            self.role = Some(message.role);
            step(&mut self.at, if message.role == Role::User { b"user" } else { b"assistant" });
        }
        // Blocks that stand there for one request alone are no part of the beginning.
        for block in message.content.iter().filter(|block| !is_dynamic_context(block)) {
            self.at.bytes += block.size();
            step(&mut self.at, &serde_json::to_vec(block).unwrap_or_default());
        }
        self.at.messages += 1;
    }
}

/// The chains of a conversation after each of its messages, so that a message is hashed once.
#[derive(Debug, Default)]
pub(super) struct Chains(Vec<Chain>);

impl Chains {
    /// Chains of `messages`, which begin with the same `same` messages as those that these were made of.
    pub(super) fn go_on(mut self, same: usize, messages: &[Arc<Message>]) -> Self {
        self.0.truncate(same);
        let mut chain = self.0.last().cloned().unwrap_or_else(Chain::new);
        for message in messages.iter().skip(self.0.len()) {
            chain.add(message, |_| ());
            self.0.push(chain.clone());
        }
        self
    }

    /// Returns how the conversation begins at its last messages and, further and further apart, at those
    /// before.
    pub(super) fn checkpoints(&self) -> Vec<Checkpoint> {
        // 0, 1, 2, 4, 8, … messages before the end.
        let is_kept = |behind: usize| behind == 0 || behind.is_power_of_two();
        let behind = (0..self.0.len()).rev();
        let kept = self.0.iter().zip(behind).filter(|(_, behind)| is_kept(*behind));
        kept.map(|(chain, _)| chain.at.clone()).collect()
    }
}

/// The last checkpoint up to which `messages` begin as the conversation did in which these were made; nothing if all of that is
/// their beginning.
pub(super) fn broken_after(checkpoints: &[Checkpoint], messages: &[Arc<Message>]) -> Option<Checkpoint> {
    let mut chain = Chain::new();
    let mut left = checkpoints.iter().peekable();
    let mut held = chain.at.clone();
    for message in messages {
        chain.add(message, |at| {
            if let Some(next) = left.next_if(|next| next.blocks == at.blocks && next.chain == at.chain) {
                held = next.clone();
            }
        });
    }
    left.peek().is_some().then_some(held)
}

const FNV: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: stored with sessions, so that it has to be the same in every version.
fn fold(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn hash_of(parts: &[&[u8]]) -> u64 {
    parts.iter().fold(FNV, |hash, part| fold(fold(hash, part), &part.len().to_le_bytes()))
}

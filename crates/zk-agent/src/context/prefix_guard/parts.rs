use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zk_core::events::SectionSize;
use zk_core::model::{Message, Role, ToolSpec};
use zk_core::service::is_dynamic_context;

/// Id of the agent's own prompt, and of a whole system prompt whose sections cannot be told apart.
const WHOLE: &str = "system";

/// Size and hash of one tool, or of one section of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) name: String,
    /// Source that registered the part.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) source: String,
    pub(super) bytes: usize,
    hash: u64,
    /// Hash of a section's text without digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<u64>,
}

/// The first part in which two requests differ.
pub(super) struct Difference<'a> {
    /// The part that changed, was removed or was added.
    pub(super) part: &'a Part,
    /// Offset of the part in the earlier request, in bytes.
    pub(super) at: usize,
    /// Whether only digits of the part changed, as in a clock.
    pub(super) only_digits: bool,
    /// Whether the part was appended after all parts of the earlier request.
    pub(super) is_behind: bool,
}

impl Part {
    fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.hash == other.hash && self.bytes == other.bytes
    }
}

/// Finds the first part in which two requests differ, by name and content.
pub(super) fn first_difference<'a>(before: &'a [Part], after: &'a [Part]) -> Option<Difference<'a>> {
    let same = before.iter().zip(after).take_while(|(one, other)| one.is_same(other)).count();
    let at = before.iter().take(same).map(|part| part.bytes).sum();
    let has = |parts: &[Part], name: &str| parts.iter().any(|part| part.name == name);
    let is_behind = before.get(same).is_none();
    let (part, only_digits) = match (before.get(same), after.get(same)) {
        (None, None) => return None,
        (Some(one), Some(other)) if one.name == other.name => {
            (other, one.shape.is_some() && one.shape == other.shape)
        }
        // The whole prompt, or the agent's own part of it, changed.
        (Some(one), Some(other)) if one.name == WHOLE || other.name == WHOLE => {
            (if one.name == WHOLE { one } else { other }, false)
        }
        // A new part was inserted before the existing one.
        (Some(one), Some(other)) if has(after, &one.name) && !has(before, &other.name) => (other, false),
        (Some(one), _) => (one, false),
        (None, Some(other)) => (other, false),
    };
    Some(Difference { part, at, only_digits, is_behind })
}

/// Returns the parts of the tools, which `sources` registered.
pub(super) fn tool_parts(tools: &[Arc<ToolSpec>], sources: &[String]) -> Vec<Part> {
    let part = |(at, tool): (usize, &Arc<ToolSpec>)| {
        let schema = tool.schema.to_string();
        Part {
            name: tool.name.clone(),
            source: sources.get(at).cloned().unwrap_or_default(),
            bytes: tool.name.len() + tool.description.len() + schema.len(),
            hash: hash_parts(&[tool.name.as_bytes(), tool.description.as_bytes(), schema.as_bytes()]),
            shape: None,
        }
    };
    tools.iter().enumerate().map(part).collect()
}

/// Returns the parts of a system prompt by section; a single part if a plugin (`rewritten_by`) changed the
/// text.
pub(super) fn system_parts(system: &str, sections: &[SectionSize], rewritten_by: Option<&str>) -> Vec<Part> {
    let part = |name: &str, source: &str, text: &str| {
        let shape: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        Part {
            name: name.to_owned(),
            source: source.to_owned(),
            bytes: text.len(),
            hash: hash_parts(&[text.as_bytes()]),
            shape: Some(hash_parts(&[shape.as_bytes()])),
        }
    };
    let mut parts: Vec<Part> = Vec::new();
    let mut at = 0;
    for section in sections {
        // An empty line separates the sections.
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

/// Hash and size of a conversation's prefix, up to the end of one message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    /// Number of messages in the hashed prefix.
    pub(super) messages: usize,
    /// Number of blocks in the hashed prefix, plus number of role changes.
    blocks: usize,
    /// Size of the hashed prefix, measured by [`context_size`](zk_core::model::context_size).
    pub(super) bytes: usize,
    chain: u64,
}

/// Running hash of a conversation, independent of how its blocks are split into messages.
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
            at.chain = fnv1a(fnv1a(at.chain, bytes), &bytes.len().to_le_bytes());
            after_block(at);
        };
        if self.role != Some(message.role) {
            self.role = Some(message.role);
            step(&mut self.at, if message.role == Role::User { b"user" } else { b"assistant" });
        }
        // Dynamic context is sent only once, and is therefore not part of the prefix.
        for block in message.content.iter().filter(|block| !is_dynamic_context(block)) {
            self.at.bytes += block.size();
            step(&mut self.at, &serde_json::to_vec(block).unwrap_or_default());
        }
        self.at.messages += 1;
    }
}

/// Hash chains after each message of a conversation, so that each message is hashed only once.
#[derive(Debug, Default)]
pub(super) struct Chains(Vec<Chain>);

impl Chains {
    /// Extends the chains to `messages`; the first `same` of them are already covered.
    pub(super) fn extend_to(mut self, same: usize, messages: &[Arc<Message>]) -> Self {
        self.0.truncate(same);
        let mut chain = self.0.last().cloned().unwrap_or_else(Chain::new);
        for message in messages.iter().skip(self.0.len()) {
            chain.add(message, |_| ());
            self.0.push(chain.clone());
        }
        self
    }

    /// Returns checkpoints at the last message and at growing distances before it.
    pub(super) fn checkpoints(&self) -> Vec<Checkpoint> {
        // Message counts from the end at which checkpoints are kept: 0, 1, 2, 4, 8, …
        let is_kept = |behind: usize| behind == 0 || behind.is_power_of_two();
        let behind = (0..self.0.len()).rev();
        let kept = self.0.iter().zip(behind).filter(|(_, behind)| is_kept(*behind));
        kept.map(|(chain, _)| chain.at.clone()).collect()
    }
}

/// Returns the last checkpoint at which `messages` still equal the recorded conversation; `None` if they
/// equal it at all checkpoints.
pub(super) fn last_equal_checkpoint(
    checkpoints: &[Checkpoint],
    messages: &[Arc<Message>],
) -> Option<Checkpoint> {
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

/// Computes the FNV-1a hash. It is stored with sessions, so that it must stay the same in every version.
fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn hash_parts(parts: &[&[u8]]) -> u64 {
    parts.iter().fold(FNV, |hash, part| fnv1a(fnv1a(hash, part), &part.len().to_le_bytes()))
}

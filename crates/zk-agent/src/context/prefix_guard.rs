//! Compares each request with the one before: the provider's prompt cache covers only their common prefix.

mod parts;
mod rewrites;
mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_core::events::{PrefixBreak, PrefixCause, PrefixPart, SectionSize};
use zk_core::model::{Message, ModelRef, ThinkingRequest, ToolSpec, TurnId, context_size};
use zk_core::service::{Entry, NewEntry, Request, is_dynamic_context};

use parts::{Chains, Part};
pub(crate) use rewrites::Rewrites;
use stored::Stored;

/// Last request, and announced changes since then that may change the prefix of the next.
#[derive(Debug, Default)]
pub(crate) struct PrefixGuard {
    last: Last,
    /// Whether the conversation was reduced or restored since the last request.
    reduced: bool,
    /// Whether changed tools were announced since the last request.
    tools_changed: bool,
    changes: SectionChanges,
    /// Rewrites of the messages for the next request.
    rewrites: Rewrites,
}

/// Last request, as far as it is known.
#[derive(Debug, Default)]
enum Last {
    #[default]
    None,
    Sent(Box<Sent>),
    /// Sizes and hashes of the last request of an earlier process.
    Stored(Box<Stored>),
}

/// Number of times that a section may differ at the start of a run before it is reported: files are edited
/// now and then, and a date changes.
const MAX_RELOADS: u32 = 2;

/// Statistics of prompt sections that differed at the start of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct SectionChanges {
    /// Section that differed at the start of the last runs, and the number of these runs.
    in_a_row: Option<(String, u32)>,
    /// Number of times that only digits of a section changed, by section id, over the whole conversation.
    digits: BTreeMap<String, u32>,
}

#[derive(Debug)]
struct Sent {
    model: ModelRef,
    thinking: ThinkingRequest,
    system: Arc<str>,
    sections: Arc<[SectionSize]>,
    /// Source of the handler that rewrote the system prompt, if any.
    system_by: Option<String>,
    tools: Arc<[Arc<ToolSpec>]>,
    /// Sources that registered the tools, in the order of `tools`.
    tool_sources: Arc<[String]>,
    messages: Vec<Arc<Message>>,
    /// Hash chains of the messages, for conversations that are stored.
    chains: Chains,
    rewrites: Rewrites,
}

/// Part of the request at which the common prefix ends.
struct Broken {
    part: PrefixPart,
    /// Size in bytes of the last request after the common prefix.
    lost: usize,
    /// Whether only digits of a section changed.
    only_digits: bool,
}

impl Broken {
    fn new(part: PrefixPart, lost: usize) -> Self {
        Self { part, lost, only_digits: false }
    }
}

/// A request that is about to be sent.
pub(crate) struct Next<'a> {
    pub(crate) turn: &'a TurnId,
    pub(crate) request: &'a Request,
    pub(crate) sections: &'a Arc<[SectionSize]>,
    /// Source of the handler that rewrote the system prompt, if any.
    pub(crate) system_by: Option<String>,
    /// Sources that registered the tools, in the order of the request.
    pub(crate) tool_sources: Arc<[String]>,
    /// Whether this is the first request of its run.
    pub(crate) is_first: bool,
    /// Whether a changed reasoning request invalidates the provider's cache of the messages.
    pub(crate) thinking_counts: bool,
}

impl PrefixGuard {
    /// Records that the conversation was reduced or restored.
    pub(crate) fn note_reduction(&mut self) {
        self.reduced = true;
    }

    /// Records that changed tools were announced.
    pub(crate) fn note_tools(&mut self) {
        self.tools_changed = true;
    }

    /// Records the handlers' rewrites of the messages for the next request.
    pub(crate) fn note_rewrites(&mut self, rewrites: Rewrites) {
        self.rewrites = rewrites;
    }

    /// Forgets the last request, and reads that of another conversation from its stored entries.
    pub(crate) fn restore(&mut self, entries: &[Entry]) {
        *self = Self::default();
        if let Some((stored, changes, reduced)) = Stored::of(entries) {
            (self.changes, self.reduced) = (changes, reduced);
            self.last = Last::Stored(Box::new(stored));
        }
    }

    /// Returns the session entry that records the last request, for comparison in the next process; `None` if
    /// no request was sent.
    pub(crate) fn entry(&self) -> Option<NewEntry> {
        match &self.last {
            Last::Sent(sent) => Stored::from(&**sent).entry(&self.changes),
            Last::None | Last::Stored(_) => None,
        }
    }

    /// Records a request, and returns where its prefix differs from that of the request before, if it should
    /// not.
    pub(crate) fn compare_request(&mut self, next: Next<'_>) -> Option<PrefixBreak> {
        let Next { turn, request, sections, system_by, tool_sources, is_first, thinking_counts } = next;
        let mut sent = Sent {
            model: request.model.reference(),
            thinking: request.thinking,
            system: request.system.clone(),
            sections: sections.clone(),
            system_by,
            tools: request.tools.clone(),
            tool_sources,
            messages: request.history.messages().to_vec(),
            chains: Chains::default(),
            rewrites: std::mem::take(&mut self.rewrites),
        };
        let reduced = std::mem::take(&mut self.reduced);
        let tools_changed = std::mem::take(&mut self.tools_changed);
        let mut before = std::mem::replace(&mut self.last, Last::None);
        if request.session.is_some() {
            let (chains, same) = match &mut before {
                Last::Sent(before) => (std::mem::take(&mut before.chains), before.count_shared(&sent)),
                Last::None | Last::Stored(_) => (Chains::default(), 0),
            };
            sent.chains = chains.extend_to(same, &sent.messages);
        }
        let found = match &before {
            Last::None => None,
            Last::Sent(before) => before.first_difference(&sent, thinking_counts),
            Last::Stored(before) => before.first_difference(&sent, thinking_counts),
        };
        let is_other_model = match &before {
            Last::None => false,
            Last::Sent(before) => before.model != sent.model,
            Last::Stored(before) => before.model != sent.model,
        };
        let is_other_process = matches!(before, Last::Stored(_));
        self.last = Last::Sent(Box::new(sent));
        let goes_on_changing = is_first && self.changes.record_difference(found.as_ref());
        let Broken { part, lost, .. } = found?;
        let cause = match &part {
            _ if is_other_model => PrefixCause::ModelSwitch,
            PrefixPart::Thinking { .. } => PrefixCause::ThinkingChanged,
            PrefixPart::Tools { .. } if tools_changed => PrefixCause::ToolsChanged,
            PrefixPart::Tools { .. } if is_other_process => PrefixCause::Reloaded,
            PrefixPart::Messages { .. } if reduced => PrefixCause::Reduction,
            // Sections are fixed within a run, so only the first request of a run may have changed ones.
            PrefixPart::Section { .. } if is_first && !goes_on_changing => PrefixCause::Reloaded,
            PrefixPart::Tools { .. } | PrefixPart::Section { .. } | PrefixPart::Messages { .. } => {
                PrefixCause::Unexplained
            }
        };
        // Estimated at four bytes per token.
        let lost_tokens = (lost / 4) as u64;
        let rates = request.model.prices.as_ref().map(|prices| prices.rates);
        let cost = rates.map(|rates| (rates.input - rates.cache_read).max(0.0) * lost_tokens as f64 / 1e6);
        Some(PrefixBreak { turn_id: turn.clone(), part, cause, lost_tokens, cost })
    }
}

impl SectionChanges {
    /// Records a difference at the start of a run. Returns whether its section changes each time, as a clock
    /// does.
    fn record_difference(&mut self, found: Option<&Broken>) -> bool {
        let Some(Broken { part: PrefixPart::Section { id, .. }, only_digits, .. }) = found else {
            self.in_a_row = None;
            return false;
        };
        let before = self.in_a_row.take().filter(|(before, _)| before == id).map_or(0, |(_, times)| times);
        self.in_a_row = Some((id.clone(), before + 1));
        // A clock without seconds may show the same time in several runs.
        let digits = self.digits.entry(id.clone()).or_default();
        *digits += u32::from(*only_digits);
        before + 1 > MAX_RELOADS || (*only_digits && *digits > MAX_RELOADS)
    }
}

impl Sent {
    fn tool_parts(&self) -> Vec<Part> {
        parts::tool_parts(&self.tools, &self.tool_sources)
    }

    fn system_parts(&self) -> Vec<Part> {
        parts::system_parts(&self.system, &self.sections, self.system_by.as_deref())
    }

    /// Returns the number of leading messages that `next` shares.
    fn count_shared(&self, next: &Self) -> usize {
        let is_same = |(one, other): &(&Arc<Message>, &Arc<Message>)| Arc::ptr_eq(one, other) || one == other;
        self.messages.iter().zip(&next.messages).take_while(is_same).count()
    }

    /// Returns the first part that differs from `next`. Providers cache the tools first, then the system
    /// prompt, then the messages.
    fn first_difference(&self, next: &Self, thinking_counts: bool) -> Option<Broken> {
        // Computed on demand, because the prefix rarely differs.
        let messages = || context_size(&self.messages);
        if self.model != next.model {
            let all = messages() + self.system.len() + total_size(&self.tool_parts());
            return Some(Broken::new(model_part(&next.model), all));
        }
        if !Arc::ptr_eq(&self.tools, &next.tools) && self.tools != next.tools {
            let (before, after) = (self.tool_parts(), next.tool_parts());
            if let Some(broken) = find_tools_break(&before, &after, self.system.len() + messages()) {
                return Some(broken);
            }
        }
        if self.system != next.system
            && let Some(broken) = find_sections_break(&self.system_parts(), &next.system_parts(), messages())
        {
            return Some(broken);
        }
        if thinking_counts && self.thinking != next.thinking {
            return Some(Broken::new(thinking_part(&next.thinking), messages()));
        }
        let same = self
            .messages
            .iter()
            .zip(&next.messages)
            .take_while(|(one, other)| begins_with(one, other))
            .count();
        let gone = self.messages.get(same..).filter(|gone| !gone.is_empty())?;
        let source = next.rewrites.changed_since(&self.rewrites);
        Some(Broken::new(PrefixPart::Messages { first: same, source }, context_size(gone)))
    }
}

fn model_part(next: &ModelRef) -> PrefixPart {
    PrefixPart::Section { id: "model".into(), source: next.to_string() }
}

fn thinking_part(next: &ThinkingRequest) -> PrefixPart {
    PrefixPart::Thinking { level: next.level }
}

/// Finds the first changed tool; `behind` is the size of the request after the tools in bytes.
fn find_tools_break(before: &[Part], after: &[Part], behind: usize) -> Option<Broken> {
    let found = parts::first_difference(before, after)?;
    // Tools that are appended leave the cached prefix of the earlier tools valid.
    let lost = behind + if found.is_behind { 0 } else { total_size(before) };
    let source = Some(found.part.source.clone()).filter(|source| !source.is_empty());
    Some(Broken::new(PrefixPart::Tools { first: found.part.name.clone(), source }, lost))
}

/// Finds the first changed section; `behind` is the size of the request after the sections in bytes.
fn find_sections_break(before: &[Part], after: &[Part], behind: usize) -> Option<Broken> {
    let found = parts::first_difference(before, after)?;
    let (id, source) = (found.part.name.clone(), found.part.source.clone());
    Some(Broken {
        part: PrefixPart::Section { id, source },
        lost: behind + total_size(before).saturating_sub(found.at),
        only_digits: found.only_digits,
    })
}

fn total_size(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.bytes).sum()
}

/// Whether `next` begins with the blocks of `message`, apart from dynamic context, which is sent once only.
fn begins_with(message: &Arc<Message>, next: &Arc<Message>) -> bool {
    if Arc::ptr_eq(message, next) || message == next {
        return true;
    }
    let kept = |block: &&zk_core::model::Block| !is_dynamic_context(block);
    let mut theirs = next.content.iter().filter(kept);
    message.role == next.role && message.content.iter().filter(kept).all(|block| theirs.next() == Some(block))
}

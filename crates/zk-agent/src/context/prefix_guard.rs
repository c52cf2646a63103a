//! Compares each request with the one before it: what a provider has read and kept is the beginning that both have in
//! common.

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

/// Request that was sent last, and what happened since that explains another beginning.
#[derive(Debug, Default)]
pub(crate) struct PrefixGuard {
    last: Last,
    /// Something was left out of the conversation.
    reduced: bool,
    /// The tools changed, and that was announced.
    tools_changed: bool,
    changes: SectionChanges,
    /// Rewrites of the messages that are sent next.
    rewrites: Rewrites,
}

/// The request that the next one is compared with.
#[derive(Debug, Default)]
enum Last {
    #[default]
    None,
    Sent(Box<Sent>),
    /// The request of another process.
    Stored(Box<Stored>),
}

/// Most times that a section may be another one at the beginning of a run: files are edited now and then, a
/// clock goes on.
const RELOADS: u32 = 2;

/// Sections that were others at the beginning of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct SectionChanges {
    /// The one at the beginning of the last runs, and of how many in a row.
    in_a_row: Option<(String, u32)>,
    /// Number of times that nothing of a section changed but digits, in the whole conversation.
    digits: BTreeMap<String, u32>,
}

#[derive(Debug)]
struct Sent {
    model: ModelRef,
    thinking: ThinkingRequest,
    system: Arc<str>,
    sections: Arc<[SectionSize]>,
    /// Source of the handler that rewrote the system prompt.
    system_by: Option<String>,
    tools: Arc<[Arc<ToolSpec>]>,
    /// Source that registered each of the tools.
    tool_sources: Arc<[String]>,
    messages: Vec<Arc<Message>>,
    /// Chains of the messages of a conversation that is stored.
    chains: Chains,
    rewrites: Rewrites,
}

/// Part that the next request does not begin with.
struct Broken {
    part: PrefixPart,
    /// Bytes of what was sent from there on.
    lost: usize,
    /// Nothing of a section changed but digits.
    only_digits: bool,
}

impl Broken {
    fn new(part: PrefixPart, lost: usize) -> Self {
        Self { part, lost, only_digits: false }
    }
}

/// A request about to be sent.
pub(crate) struct Next<'a> {
    pub(crate) turn: &'a TurnId,
    pub(crate) request: &'a Request,
    pub(crate) sections: &'a Arc<[SectionSize]>,
    /// Source of the handler that rewrote the system prompt.
    pub(crate) system_by: Option<String>,
    /// Source that registered each of the tools.
    pub(crate) tool_sources: Arc<[String]>,
    /// Whether it is the first of its run.
    pub(crate) is_first: bool,
    /// Whether its provider reads the messages anew when other thinking is asked for.
    pub(crate) thinking_counts: bool,
}

impl PrefixGuard {
    /// The conversation is sent shorter from now on, or longer again.
    pub(crate) fn note_reduction(&mut self) {
        self.reduced = true;
    }

    /// The tools are others from now on, and that was announced.
    pub(crate) fn note_tools(&mut self) {
        self.tools_changed = true;
    }

    /// Notes what handlers made of the messages that are sent next.
    pub(crate) fn note_rewrites(&mut self, rewrites: Rewrites) {
        self.rewrites = rewrites;
    }

    /// Another conversation begins, whose stored entries are these.
    pub(crate) fn restore(&mut self, entries: &[Entry]) {
        *self = Self::default();
        if let Some((stored, changes, reduced)) = Stored::of(entries) {
            (self.changes, self.reduced) = (changes, reduced);
            self.last = Last::Stored(Box::new(stored));
        }
    }

    /// Returns the entry that the first request of another process is to be compared with; nothing before one
    /// was sent.
    pub(crate) fn entry(&self) -> Option<NewEntry> {
        match &self.last {
            Last::Sent(sent) => Stored::from(&**sent).entry(&self.changes),
            Last::None | Last::Stored(_) => None,
        }
    }

    /// Takes note of a request. Gives what breaks the beginning that it should share with the one before.
    pub(crate) fn note(&mut self, next: Next<'_>) -> Option<PrefixBreak> {
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
            sent.chains = chains.go_on(same, &sent.messages);
        }
        let found = match &before {
            Last::None => None,
            Last::Sent(before) => before.difference(&sent, thinking_counts),
            Last::Stored(before) => before.difference(&sent, thinking_counts),
        };
        let is_other_model = match &before {
            Last::None => false,
            Last::Sent(before) => before.model != sent.model,
            Last::Stored(before) => before.model != sent.model,
        };
        let is_other_process = matches!(before, Last::Stored(_));
        self.last = Last::Sent(Box::new(sent));
        let goes_on_changing = is_first && self.changes.note(found.as_ref());
        let Broken { part, lost, .. } = found?;
        let cause = match &part {
            _ if is_other_model => PrefixCause::ModelSwitch,
            PrefixPart::Thinking { .. } => PrefixCause::ThinkingChanged,
            PrefixPart::Tools { .. } if tools_changed => PrefixCause::ToolsChanged,
            PrefixPart::Tools { .. } if is_other_process => PrefixCause::Reloaded,
            PrefixPart::Messages { .. } if reduced => PrefixCause::Reduction,
            // The text of a section is fixed for a run.
            PrefixPart::Section { .. } if is_first && !goes_on_changing => PrefixCause::Reloaded,
            PrefixPart::Tools { .. } | PrefixPart::Section { .. } | PrefixPart::Messages { .. } => {
                PrefixCause::Unexplained
            }
        };
        // A token is about four bytes.
        let lost_tokens = (lost / 4) as u64;
        let rates = request.model.prices.as_ref().map(|prices| prices.rates);
        let cost = rates.map(|rates| (rates.input - rates.cache_read).max(0.0) * lost_tokens as f64 / 1e6);
        Some(PrefixBreak { turn_id: turn.clone(), part, cause, lost_tokens, cost })
    }
}

impl SectionChanges {
    /// Takes note of what a run began with that the one before had not. Gives whether that is a section which is another
    /// one each time, or whose digits go on.
    fn note(&mut self, found: Option<&Broken>) -> bool {
        let Some(Broken { part: PrefixPart::Section { id, .. }, only_digits, .. }) = found else {
            self.in_a_row = None;
            return false;
        };
        let before = self.in_a_row.take().filter(|(before, _)| before == id).map_or(0, |(_, times)| times);
        self.in_a_row = Some((id.clone(), before + 1));
        // A clock that shows no seconds stays the same for several runs.
        let digits = self.digits.entry(id.clone()).or_default();
        *digits += u32::from(*only_digits);
        before + 1 > RELOADS || (*only_digits && *digits > RELOADS)
    }
}

impl Sent {
    fn tool_parts(&self) -> Vec<Part> {
        parts::of_tools(&self.tools, &self.tool_sources)
    }

    fn system_parts(&self) -> Vec<Part> {
        parts::of_system(&self.system, &self.sections, self.system_by.as_deref())
    }

    /// Number of messages at the beginning that are the same in `next`.
    fn count_shared(&self, next: &Self) -> usize {
        let is_same = |(one, other): &(&Arc<Message>, &Arc<Message>)| Arc::ptr_eq(one, other) || one == other;
        self.messages.iter().zip(&next.messages).take_while(is_same).count()
    }

    /// The first part that is not in `next` as it is here. Providers put tools before the system prompt, and that before the
    /// messages.
    fn difference(&self, next: &Self, thinking_counts: bool) -> Option<Broken> {
        // Counted only where something is lost.
        let messages = || context_size(&self.messages);
        if self.model != next.model {
            let all = messages() + self.system.len() + size(&self.tool_parts());
            return Some(Broken::new(of_model(&next.model), all));
        }
        if !Arc::ptr_eq(&self.tools, &next.tools) && self.tools != next.tools {
            let (before, after) = (self.tool_parts(), next.tool_parts());
            if let Some(broken) = of_tools(&before, &after, self.system.len() + messages()) {
                return Some(broken);
            }
        }
        if self.system != next.system
            && let Some(broken) = of_sections(&self.system_parts(), &next.system_parts(), messages())
        {
            return Some(broken);
        }
        if thinking_counts && self.thinking != next.thinking {
            return Some(Broken::new(of_thinking(&next.thinking), messages()));
        }
        let same =
            self.messages.iter().zip(&next.messages).take_while(|(one, other)| continues(one, other)).count();
        let gone = self.messages.get(same..).filter(|gone| !gone.is_empty())?;
        let source = next.rewrites.changed_since(&self.rewrites);
        Some(Broken::new(PrefixPart::Messages { first: same, source }, context_size(gone)))
    }
}

fn of_model(next: &ModelRef) -> PrefixPart {
    PrefixPart::Section { id: "model".into(), source: next.to_string() }
}

fn of_thinking(next: &ThinkingRequest) -> PrefixPart {
    PrefixPart::Thinking { level: next.level }
}

/// Finds what breaks the tools, with `behind` bytes of the request behind them.
fn of_tools(before: &[Part], after: &[Part], behind: usize) -> Option<Broken> {
    let found = parts::difference(before, after)?;
    // Tools behind those that were there push everything else away from the beginning.
    let lost = behind + if found.is_behind { 0 } else { size(before) };
    let source = Some(found.part.source.clone()).filter(|source| !source.is_empty());
    Some(Broken::new(PrefixPart::Tools { first: found.part.name.clone(), source }, lost))
}

/// Finds the first section that breaks the cached prefix; `behind` is the size of the request after the
/// sections.
fn of_sections(before: &[Part], after: &[Part], behind: usize) -> Option<Broken> {
    let found = parts::difference(before, after)?;
    let (id, source) = (found.part.name.clone(), found.part.source.clone());
    Some(Broken {
        part: PrefixPart::Section { id, source },
        lost: behind + size(before).saturating_sub(found.at),
        only_digits: found.only_digits,
    })
}

fn size(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.bytes).sum()
}

/// Whether `next` begins with what of `message` stays: what stood behind it for one request alone does not.
fn continues(message: &Arc<Message>, next: &Arc<Message>) -> bool {
    if Arc::ptr_eq(message, next) || message == next {
        return true;
    }
    let kept = |block: &&zk_core::model::Block| !is_dynamic_context(block);
    let mut theirs = next.content.iter().filter(kept);
    message.role == next.role && message.content.iter().filter(kept).all(|block| theirs.next() == Some(block))
}

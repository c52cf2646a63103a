//! Compares each request with the one before it: what a provider has read and kept is the beginning that both have in
//! common.

use std::sync::Arc;

use zk_core::events::{PrefixBreak, PrefixCause, PrefixPart, SectionSize};
use zk_core::model::{Block, Message, ModelRef, ToolSpec, TurnId, context_size};
use zk_core::service::{Request, is_dynamic_context};

/// What was sent last, and what happened since that explains another beginning.
#[derive(Debug, Default)]
pub(crate) struct PrefixGuard {
    last: Option<Sent>,
    /// Something was left out of the conversation.
    reduced: bool,
    /// The tools changed, and that was announced.
    tools_changed: bool,
    /// The section that was another one at the beginning of the last runs, and of how many in a row.
    reloaded: Option<(String, u32)>,
}

/// Runs in a row that may begin with another text of one section: files are edited now and then, a clock goes on.
const RELOADS: u32 = 2;

#[derive(Debug)]
struct Sent {
    model: ModelRef,
    system: Arc<str>,
    sections: Arc<[SectionSize]>,
    tools: Arc<[Arc<ToolSpec>]>,
    messages: Vec<Arc<Message>>,
}

impl PrefixGuard {
    /// The conversation is sent shorter from now on.
    pub(crate) fn note_reduction(&mut self) {
        self.reduced = true;
    }

    /// The tools are others from now on, and that was announced.
    pub(crate) fn note_tools(&mut self) {
        self.tools_changed = true;
    }

    /// Another conversation begins.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Takes note of a request, which is the first of its run or not. Gives what breaks the beginning that it should share with the one before.
    pub(crate) fn note(
        &mut self,
        turn: &TurnId,
        request: &Request,
        sections: &Arc<[SectionSize]>,
        is_first: bool,
    ) -> Option<PrefixBreak> {
        let sent = Sent {
            model: request.model.reference(),
            system: request.system.clone(),
            sections: sections.clone(),
            tools: request.tools.clone(),
            messages: request.history.messages().to_vec(),
        };
        let reduced = std::mem::take(&mut self.reduced);
        let tools_changed = std::mem::take(&mut self.tools_changed);
        let before = self.last.take();
        let found = before.as_ref().and_then(|before| before.difference(&sent));
        let is_other_model = before.as_ref().is_some_and(|before| before.model != sent.model);
        self.last = Some(sent);
        let goes_on_changing = is_first && self.note_reload(found.as_ref().map(|(part, _)| part));
        let (part, lost) = found?;
        let cause = match &part {
            _ if is_other_model => PrefixCause::ModelSwitch,
            PrefixPart::Tools { .. } if tools_changed => PrefixCause::ToolsChanged,
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

impl PrefixGuard {
    /// Takes note of what a run began with that the one before had not. Gives whether that is a section which is another
    /// one each time.
    fn note_reload(&mut self, part: Option<&PrefixPart>) -> bool {
        let Some(PrefixPart::Section { id, .. }) = part else {
            self.reloaded = None;
            return false;
        };
        let before = self.reloaded.take().filter(|(before, _)| before == id).map_or(0, |(_, times)| times);
        self.reloaded = Some((id.clone(), before + 1));
        before + 1 > RELOADS
    }
}

impl Sent {
    /// The first part that is not in `next` as it is here, and how many bytes of what was sent come from there on.
    /// Providers put tools before the system prompt, and that before the messages.
    fn difference(&self, next: &Self) -> Option<(PrefixPart, usize)> {
        let messages = context_size(&self.messages);
        if self.model != next.model {
            let all = messages + self.system.len() + tools_size(&self.tools);
            return Some((PrefixPart::Section { id: "model".into(), source: next.model.to_string() }, all));
        }
        if !Arc::ptr_eq(&self.tools, &next.tools) {
            let same =
                self.tools.iter().zip(next.tools.iter()).take_while(|(one, other)| one == other).count();
            if let Some(tool) = self.tools.get(same) {
                let all = messages + self.system.len() + tools_size(&self.tools);
                return Some((PrefixPart::Tools { first: tool.name.clone() }, all));
            }
            // Tools behind those that were there push everything else away from the beginning.
            if let Some(tool) = next.tools.get(same) {
                return Some((PrefixPart::Tools { first: tool.name.clone() }, messages + self.system.len()));
            }
        }
        if self.system != next.system {
            let (section, at) = self.section(next);
            return Some((section, messages + self.system.len().saturating_sub(at)));
        }
        let same =
            self.messages.iter().zip(&next.messages).take_while(|(one, other)| continues(one, other)).count();
        let gone = self.messages.get(same..).filter(|gone| !gone.is_empty())?;
        Some((PrefixPart::Messages { first: same }, context_size(gone)))
    }

    /// The section in which the system prompts differ, and where.
    fn section(&self, next: &Self) -> (PrefixPart, usize) {
        let at = self.system.bytes().zip(next.system.bytes()).take_while(|(one, other)| one == other).count();
        let mut end = 0;
        // An empty line stands between two.
        let holds = |section: &&SectionSize| {
            end += section.bytes + 2;
            at < end
        };
        let found = next.sections.iter().find(holds).or_else(|| next.sections.last());
        let (id, source) = found.map_or_else(
            || ("system".to_owned(), "zk-agent".to_owned()),
            |section| (section.id.clone(), section.source.clone()),
        );
        (PrefixPart::Section { id, source }, at)
    }
}

/// Whether `next` begins with what of `message` stays: what stood behind it for one request alone does not.
fn continues(message: &Arc<Message>, next: &Arc<Message>) -> bool {
    if Arc::ptr_eq(message, next) || message == next {
        return true;
    }
    let kept = |block: &&Block| !is_dynamic_context(block);
    let mut theirs = next.content.iter().filter(kept);
    message.role == next.role && message.content.iter().filter(kept).all(|block| theirs.next() == Some(block))
}

fn tools_size(tools: &[Arc<ToolSpec>]) -> usize {
    tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.schema.to_string().len()).sum()
}

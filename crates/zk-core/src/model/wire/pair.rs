//! Pairs calls with results, and makes the roles alternate.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::blocks::{self, Fate};
use super::ids::{IdRule, Ids};
use super::{CONTINUE, INTERRUPTED, OPENING, Repair, WireReady, WireRules, media, names};
use crate::model::{Block, CallId, Message, ModelRef, Role, StopReason, ToolResult};

/// A message being normalised: the stored one, or an edited copy.
struct Draft {
    stored: Option<Arc<Message>>,
    role: Role,
    content: Vec<Block>,
    stop: Option<StopReason>,
    /// Model that wrote the whole message; `None` if several did.
    origin: Option<ModelRef>,
}

/// A call that the next user message has to answer with a result.
struct Open {
    stored: CallId,
    sent: CallId,
    answer: Option<ToolResult>,
}

pub(super) fn normalise(history: &[Arc<Message>], rules: &WireRules) -> WireReady {
    let mut repairs = Vec::new();
    let mut ids = Ids::default();
    let mut out: Vec<Draft> = Vec::new();
    let mut open: Vec<Open> = Vec::new();

    let mut drafts = normalise_messages(history, rules, &mut repairs).into_iter().peekable();
    while let Some(mut draft) = drafts.next() {
        match draft.role {
            Role::Assistant => {
                replace_illegal_names(&mut draft, &mut repairs);
                // An assistant message that is joined to another model's has no single origin.
                let joined = out.last().filter(|last| last.role == Role::Assistant);
                let is_own = draft.origin.as_ref() == Some(&rules.target)
                    && joined.is_none_or(|last| last.origin == draft.origin);
                open.extend(assign_ids(&mut draft, &mut ids, rules.ids, is_own, &mut repairs));
                append_joined(&mut out, draft);
                if !open.is_empty() && drafts.peek().is_none_or(|next| next.role != Role::User) {
                    let empty = Draft::user(Vec::new());
                    append_joined(
                        &mut out,
                        answer_calls(empty, std::mem::take(&mut open), rules, &mut repairs),
                    );
                }
            }
            Role::User => {
                let answered = answer_calls(draft, std::mem::take(&mut open), rules, &mut repairs);
                if answered.stored.is_some() || !answered.content.is_empty() {
                    append_joined(&mut out, answered);
                }
            }
        }
    }
    if out.first().is_some_and(|first| first.role == Role::Assistant) {
        repairs.push(Repair::Boundary);
        out.insert(0, user_draft(OPENING));
    }
    let is_paused = |last: &Draft| rules.resumes && last.stop.as_ref().is_some_and(StopReason::is_pause);
    // An empty history has no last message.
    if out.last().is_none_or(|last| last.role == Role::Assistant && !is_paused(last)) {
        repairs.push(Repair::Boundary);
        out.push(user_draft(CONTINUE));
    }
    let messages = out.into_iter().map(Draft::into_message).collect();
    WireReady { messages, repairs }
}

fn user_draft(text: &str) -> Draft {
    Draft::user(vec![Block::text(text)])
}

impl Draft {
    fn user(content: Vec<Block>) -> Self {
        Self { stored: None, role: Role::User, content, stop: None, origin: None }
    }

    /// Returns the content for editing. The draft is a copy of the stored message from then on.
    fn content_mut(&mut self) -> &mut Vec<Block> {
        if let Some(stored) = self.stored.take() {
            self.content = stored.content.clone();
        }
        &mut self.content
    }

    fn blocks(&self) -> &[Block] {
        self.stored.as_ref().map_or(&self.content, |stored| &stored.content)
    }

    fn has_content(&self) -> bool {
        self.blocks().iter().any(|block| !matches!(block, Block::Thinking(_)))
    }

    fn into_message(self) -> Arc<Message> {
        self.stored.unwrap_or_else(|| {
            let mut message = Message::user(self.content);
            message.role = self.role;
            // The blocks of an interrupted response were normalised already, and a message joined to it was
            // not interrupted.
            message.stop = self.stop.filter(|stop| *stop != StopReason::Aborted);
            message.origin = self.origin;
            Arc::new(message)
        })
    }
}

/// Appends a draft, joining it to the last one if both have the same role.
fn append_joined(out: &mut Vec<Draft>, mut draft: Draft) {
    match out.last_mut() {
        Some(last) if last.role == draft.role => {
            let more = std::mem::take(draft.content_mut());
            last.content_mut().extend(more);
            last.stop = draft.stop;
            if last.origin != draft.origin {
                last.origin = None;
            }
        }
        _ => out.push(draft),
    }
}

/// Normalises each message on its own, leaves out empty ones and joins neighbours of the same role.
fn normalise_messages(history: &[Arc<Message>], rules: &WireRules, repairs: &mut Vec<Repair>) -> Vec<Draft> {
    let mut drafts = Vec::with_capacity(history.len());
    for message in history {
        // Text of a refused response would make the model refuse again.
        if matches!(message.stop, Some(StopReason::Error | StopReason::Refusal(_))) {
            repairs.push(Repair::FailedResponse);
            continue;
        }
        let fates: Vec<Fate> = message
            .content
            .iter()
            .map(|block| match message.role {
                Role::Assistant => blocks::normalise_assistant_block(block, message.stop.as_ref(), rules),
                Role::User => blocks::normalise_user_block(block, rules),
            })
            .collect();
        let draft = if fates.iter().all(|fate| matches!(fate, Fate::Keep)) {
            let (stop, origin) = (message.stop.clone(), message.origin.clone());
            Draft { stored: Some(message.clone()), role: message.role, content: Vec::new(), stop, origin }
        } else {
            let content = message
                .content
                .iter()
                .zip(fates)
                .filter_map(|(block, fate)| match fate {
                    Fate::Keep => Some(block.clone()),
                    Fate::Become(block) => Some(block),
                    Fate::Drop => None,
                })
                .collect();
            let (stop, origin) = (message.stop.clone(), message.origin.clone());
            Draft { stored: None, role: message.role, content, stop, origin }
        };
        if draft.has_content() {
            append_joined(&mut drafts, draft);
        }
    }
    without_unfinished_blocks(drafts, rules)
}

/// Removes a provider's unfinished blocks from a response that was paused and never continued.
fn without_unfinished_blocks(drafts: Vec<Draft>, rules: &WireRules) -> Vec<Draft> {
    let mut kept = Vec::with_capacity(drafts.len());
    let mut drafts = drafts.into_iter().peekable();
    while let Some(mut draft) = drafts.next() {
        let goes_on = drafts.peek().is_none() && rules.resumes;
        let has = |is_it: fn(&Block) -> bool| draft.blocks().iter().any(is_it);
        let abandoned = draft.stop == Some(StopReason::PauseTurn)
            && !goes_on
            && !has(|block| matches!(block, Block::ToolCall(_)));
        if abandoned && has(|block| matches!(block, Block::Provider(_))) {
            draft.content_mut().retain(|block| !matches!(block, Block::Provider(_)));
        }
        if abandoned {
            // The stop reason of the paused response does not apply to the joined one.
            draft.stop = None;
        }
        if draft.has_content() {
            append_joined(&mut kept, draft);
        }
    }
    kept
}

/// Replaces illegal tool names in the calls of an assistant message.
fn replace_illegal_names(draft: &mut Draft, repairs: &mut Vec<Repair>) {
    let is_illegal =
        |block: &Block| matches!(block, Block::ToolCall(call) if names::legal_name(&call.name).is_some());
    if !draft.blocks().iter().any(is_illegal) {
        return;
    }
    for block in draft.content_mut() {
        if let Block::ToolCall(call) = block
            && let Some(sent) = names::legal_name(&call.name)
        {
            let stored = std::mem::replace(&mut call.name, sent.clone());
            // Provider data belongs to the call under its old name.
            call.wire = None;
            repairs.push(Repair::NewName { stored, sent });
        }
    }
}

/// Assigns every call of an assistant message its id for this request; `is_own` says that the target model
/// made the calls.
fn assign_ids(
    draft: &mut Draft,
    ids: &mut Ids,
    rule: IdRule,
    is_own: bool,
    repairs: &mut Vec<Repair>,
) -> Vec<Open> {
    let open: Vec<Open> = draft
        .blocks()
        .iter()
        .filter_map(|block| match block {
            Block::ToolCall(call) => Some(&call.id),
            Block::Text(_)
            | Block::Image(_)
            | Block::Document(_)
            | Block::ToolResult(_)
            | Block::Thinking(_)
            | Block::Compaction(_)
            | Block::Provider(_) => None,
        })
        .map(|stored| Open {
            stored: stored.clone(),
            sent: ids.assign_id(stored, rule, is_own),
            answer: None,
        })
        .collect();
    if open.iter().any(|call| call.stored != call.sent) {
        let mut numbered = open.iter();
        for block in draft.content_mut() {
            if let Block::ToolCall(call) = block
                && let Some(open) = numbered.next()
                && call.id != open.sent
            {
                repairs.push(Repair::NewId { stored: call.id.clone(), sent: open.sent.clone() });
                call.id = open.sent.clone();
            }
        }
    }
    open
}

/// Makes a user message answer the calls in `open`: results first in the order of the calls, then the images
/// and documents that results could not carry, then all other content.
fn answer_calls(
    mut draft: Draft,
    mut open: Vec<Open>,
    rules: &WireRules,
    repairs: &mut Vec<Repair>,
) -> Draft {
    if answers_exactly(draft.blocks(), &open, rules) {
        return draft;
    }
    let mut others = Vec::new();
    let mut unanswered: HashMap<CallId, VecDeque<usize>> = HashMap::with_capacity(open.len());
    for (at, call) in open.iter().enumerate() {
        unanswered.entry(call.stored.clone()).or_default().push_back(at);
    }
    for block in std::mem::take(draft.content_mut()) {
        match block {
            Block::ToolResult(result) => {
                let call = unanswered.get_mut(&result.call_id).and_then(VecDeque::pop_front);
                match call.and_then(|at| open.get_mut(at)) {
                    Some(call) => call.answer = Some(result),
                    None => repairs.push(Repair::OrphanResult { call_id: result.call_id }),
                }
            }
            other => others.push(other),
        }
    }
    let mut results = Vec::with_capacity(open.len());
    let mut media = Vec::new();
    for call in open {
        let result = call.answer.unwrap_or_else(|| {
            repairs.push(Repair::MissingResult { call_id: call.stored });
            ToolResult { call_id: call.sent.clone(), content: INTERRUPTED.into(), is_error: true }
        });
        let mut result = match media::take_media_out(&result, rules) {
            Some((result, moved)) => {
                media.extend(moved);
                result
            }
            None => result,
        };
        result.call_id = call.sent;
        results.push(Block::ToolResult(result));
    }
    results.append(&mut media);
    results.append(&mut others);
    draft.content = results;
    draft
}

/// Whether a user message already answers exactly the calls in `open`, so that the stored message can be
/// shared.
fn answers_exactly(blocks: &[Block], open: &[Open], rules: &WireRules) -> bool {
    let leading = blocks.iter().take(open.len()).zip(open).all(|(block, call)| {
        block.as_result().is_some_and(|result| {
            call.stored == call.sent
                && result.call_id == call.sent
                && media::take_media_out(result, rules).is_none()
        })
    });
    leading
        && blocks.len() >= open.len()
        && !blocks.iter().skip(open.len()).any(|block| matches!(block, Block::ToolResult(_)))
}

mod plugins;
mod stored;
mod turn;

pub(super) use self::stored::CutOff;
pub(super) use self::turn::CallBlock;

use std::collections::VecDeque;
use std::sync::Arc;

use zk_core::events::ViewBlock;
use zk_core::kernel::Origin;
use zk_core::model::{Block as MessageBlock, CallId, Display, Message, MessageId, Role, RunId, ToolResult};
use zk_core::service::QUERY_CONTEXT;

use self::turn::{Open, Tag, TurnBlocks};
use super::core::Core;
use super::parts::{Part, parts};
use crate::blocks::body::FullBody;
use crate::facts::Facts;
use crate::queues::Queues;
use crate::record::{CallFact, RunRecord, TurnRecord};
use crate::text::Growing;
use crate::{AnswerEnd, Block, BlockId, Call, CallState, Content, RunEnd, SubAgent, Text};

/// Number of recent messages that are remembered, to ignore a message that is announced again.
const REMEMBERED_MESSAGES: usize = 64;

/// Blocks of one agent, in order.
#[derive(Debug, Default)]
pub(super) struct AgentBlocks {
    agent: Option<Arc<SubAgent>>,
    block_count: u64,
    /// Number of blocks at the start of the agent's run.
    count_at_run_start: u64,
    /// Blocks of the answer that is arriving or whose calls run.
    pub(super) turn: TurnBlocks,
    /// Streamed text of each text part of the answer.
    texts: Vec<String>,
    /// Milliseconds of each reasoning part of the answer.
    thoughts_ms: Vec<u64>,
    /// Time at which the last reasoning part began.
    thinks_since: u64,
    pub(super) facts: Facts,
    /// Whether the answer is arriving, so that its blocks may still change.
    streams: bool,
    /// Blocks of plugins, held until the answer is complete.
    held: Vec<ViewBlock>,
    /// Open blocks of plugins.
    plugins: Vec<(BlockId, ViewBlock, usize)>,
    /// Number of plugin entries that are shown.
    entries: u64,
    answers: u32,
    /// Id of the answer's message, while its calls run.
    said: Option<MessageId>,
    recent: VecDeque<Arc<Message>>,
    pub(super) record: RunRecord,
}

impl AgentBlocks {
    pub(super) fn of(origin: &Origin) -> Self {
        Self::of_agent(Arc::new(SubAgent { name: Text::line(&origin.agent), depth: origin.depth }))
    }

    pub(super) fn of_agent(agent: Arc<SubAgent>) -> Self {
        Self { agent: Some(agent), ..Self::default() }
    }

    fn next_id(&mut self) -> BlockId {
        let id = match &self.agent {
            None => format!("b{}", self.block_count),
            Some(agent) => format!("{}/b{}", agent.name, self.block_count),
        };
        self.block_count += 1;
        BlockId::new(&id)
    }

    fn new_block(&self, id: BlockId, closed: bool, content: Content) -> Block {
        Block { id, closed, agent: self.agent.clone(), message: None, content }
    }

    /// Block for a part of a message.
    fn new_part(&self, id: BlockId, message: Option<&MessageId>, content: Content) -> Block {
        Block { message: message.cloned(), ..self.new_block(id, true, content) }
    }

    fn add_block(&mut self, core: &mut Core, message: Option<&MessageId>, content: Content) {
        let id = self.next_id();
        core.open_block(self.new_part(id, message, content));
    }

    pub(super) fn begin_run(&mut self, run_id: &RunId) {
        self.record = RunRecord { run_id: Some(run_id.clone()), ..RunRecord::default() };
        (self.count_at_run_start, self.answers) = (self.block_count, 0);
    }

    pub(super) fn is_in_run(&self, run_id: &RunId) -> bool {
        self.record.run_id.as_ref() == Some(run_id)
    }

    pub(super) fn begin_stream(&mut self, core: &mut Core) {
        self.discard_turn(core);
        self.streams = true;
    }

    pub(super) fn stream_text(&mut self, core: &mut Core, delta: &str) {
        if delta.is_empty() {
            return;
        }
        let continues = self.turn.last().is_some_and(|open| open.tag == Tag::Answer);
        match self.texts.last_mut().filter(|_| continues) {
            Some(text) => text.push_str(delta),
            None => self.texts.push(delta.to_owned()),
        }
        let empty = Content::Answer { text: Text::default(), end: AnswerEnd::Whole };
        self.stream_part(core, Tag::Answer, empty, delta);
    }

    pub(super) fn stream_thinking(&mut self, core: &mut Core, delta: &str) {
        if self.turn.last().is_none_or(|open| open.tag != Tag::Thinking) {
            self.thoughts_ms.push(0);
            self.thinks_since = core.now;
        } else if let Some(thought) = self.thoughts_ms.last_mut() {
            *thought = core.now.saturating_sub(self.thinks_since);
        }
        let empty = Content::Thinking { text: Text::default(), thought_ms: None };
        self.stream_part(core, Tag::Thinking, empty, delta);
    }

    fn stream_part(&mut self, core: &mut Core, tag: Tag, empty: Content, delta: &str) {
        self.streams = true;
        if self.turn.last().is_none_or(|open| open.tag != tag) {
            self.open_part(core, tag, empty);
        }
        if let Some(open) = self.turn.last_mut() {
            let delta = open.growing.push(delta);
            if !delta.is_empty() || delta.unsanitised() != delta.as_str() {
                core.emit(crate::Patch::Grow { id: open.id.clone(), delta });
            }
        }
    }

    pub(super) fn stream_call(&mut self, core: &mut Core, call_id: &CallId, name: &str) {
        self.streams = true;
        let tag = Tag::Call(call_id.clone());
        if self.turn.last().is_none_or(|open| open.tag != tag) {
            let call = Call::new(call_id.clone(), self.answers, name, CallState::Writing);
            self.open_part(core, tag, Content::Call(Box::new(call)));
        }
    }

    pub(super) fn stream_provider(&mut self, core: &mut Core, text: &str) {
        self.streams = true;
        self.open_part(core, Tag::Provider, Content::Provider { text: Text::line(text) });
    }

    fn open_part(&mut self, core: &mut Core, tag: Tag, content: Content) {
        let id = self.next_id();
        core.open_block(self.new_block(id.clone(), false, content));
        self.turn.push(core, Open { id, tag, growing: Growing::default() });
    }

    /// Removes the blocks of the turn from position `at` on.
    fn remove_from(&mut self, core: &mut Core, at: usize) {
        for open in self.turn.split_off(at).into_iter().rev() {
            self.block_count -= 1;
            core.emit(crate::Patch::Remove { id: open.id });
        }
    }

    /// Drops an answer that did not join the conversation. Closed blocks of a sub-agent stay, since they may
    /// be stored.
    pub(super) fn discard_turn(&mut self, core: &mut Core) {
        let is_kept = |core: &Core, open: &Open| {
            self.agent.is_some() && core.view.block(&open.id).is_some_and(|block| block.closed)
        };
        let kept: Vec<bool> = self.turn.iter().map(|open| is_kept(core, open)).collect();
        let behind = kept.iter().rposition(|kept| *kept).map_or(0, |last| last + 1);
        self.remove_from(core, behind);
        // Removed blocks before the remaining ones do not free their ids.
        for (open, _) in self.turn.split_off(0).into_iter().zip(kept).rev().filter(|(_, kept)| !kept) {
            core.emit(crate::Patch::Remove { id: open.id });
        }
        self.clear_turn(core);
    }

    /// Texts of the arriving answer, as shown.
    pub(super) fn arriving_texts(&self, core: &Core) -> Vec<Text> {
        let is_answer = |open: &&Open| open.tag == Tag::Answer;
        let shown = self.turn.iter().filter(is_answer).filter_map(|open| core.view.block(&open.id));
        shown
            .filter_map(|block| match &block.content {
                Content::Answer { text, .. } => Some(text.clone()),
                _ => None,
            })
            .collect()
    }

    fn clear_turn(&mut self, core: &mut Core) {
        self.turn = TurnBlocks::default();
        self.said = None;
        self.texts.clear();
        self.thoughts_ms.clear();
        self.facts.clear();
        self.show_held_plugins(core);
    }

    fn show_held_plugins(&mut self, core: &mut Core) {
        self.streams = false;
        for held in std::mem::take(&mut self.held) {
            self.show_plugin(core, held);
        }
    }

    /// Texts as shown, if they differ from the model's.
    fn shown_texts(&self, message: &Message) -> Option<Vec<String>> {
        (!self.texts.is_empty() && self.texts.concat() != message.text()).then(|| self.texts.clone())
    }

    /// Starts the turn of an answer with calls.
    pub(super) fn open_turn(&mut self, core: &mut Core, message: &Message) {
        let texts = self.shown_texts(message);
        self.said.clone_from(&message.id);
        self.match_parts(core, message.id.as_ref(), &parts(message, texts.as_deref()));
        let step = self.answers;
        for (at, call) in message.calls().enumerate() {
            if let Some(block) = self.turn.call(at) {
                core.change_block(&block.id, |content| {
                    if let Content::Call(shown) = content
                        && !shown.state.is_over()
                    {
                        **shown = Call::waiting(call, step);
                    }
                });
                self.turn.count_call(core, &block);
            }
        }
        self.show_held_plugins(core);
    }

    /// Assigns the parts of a message to the open blocks in order, and closes all blocks except calls.
    fn match_parts(&mut self, core: &mut Core, message: Option<&MessageId>, parts: &[Part<'_>]) {
        let step = self.answers;
        let same = self.turn.iter().zip(parts).take_while(|(open, part)| open.tag == Tag::of(part)).count();
        self.remove_from(core, same);
        let count = parts.iter().filter(|part| matches!(part, Part::Thinking(_))).count();
        let is_timed = count == self.thoughts_ms.len();
        let mut thoughts = if is_timed { self.thoughts_ms.clone() } else { Vec::new() }.into_iter();
        for (at, part) in parts.iter().enumerate() {
            let content = match part {
                Part::Thinking(text) => {
                    Content::Thinking { text: Text::new(text), thought_ms: thoughts.next() }
                }
                Part::Answer(text, end) => Content::Answer { text: Text::new(text), end: end.clone() },
                Part::Provider(text) => Content::Provider { text: Text::line(text) },
                Part::Summary(text) => Content::Summary { text: Text::new(text) },
                Part::Call(call) => {
                    if at >= self.turn.len() {
                        let shown = Call::waiting(call, step);
                        self.open_part(core, Tag::of(part), Content::Call(Box::new(shown)));
                    }
                    continue;
                }
            };
            match self.turn.get(at) {
                Some(open) => core.close_block(self.new_part(open.id.clone(), message, content)),
                None => {
                    let id = self.next_id();
                    core.open_block(self.new_part(id.clone(), message, content));
                    self.turn.push(core, Open { id, tag: Tag::of(part), growing: Growing::default() });
                }
            }
        }
    }

    /// Closes the block of a call with its result.
    pub(super) fn end_call(&mut self, core: &mut Core, call: &zk_core::events::CallRef, result: &ToolResult) {
        let Some(fact) = self.facts.end_last(&call.call_id) else { return };
        let fact = fact.clone();
        if let Some(block) = self.turn.open_call(core, &call.call_id) {
            let said = self.said.clone();
            self.close_call(
                core,
                &block,
                said.as_ref(),
                (&call.call_id, &call.name),
                Some(&fact),
                Some(result),
            );
        }
    }

    fn close_call(
        &mut self,
        core: &mut Core,
        block: &CallBlock,
        message: Option<&MessageId>,
        (call_id, name): (&CallId, &str),
        fact: Option<&CallFact>,
        result: Option<&ToolResult>,
    ) {
        let is_error = result.is_some_and(|result| result.is_error);
        let usual = if is_error { CallState::Failed } else { CallState::Done };
        let mut shown =
            Call::new(call_id.clone(), self.answers, name, fact.and_then(|fact| fact.state).unwrap_or(usual));
        if let Some(Content::Call(open)) = core.view.block(&block.id).map(|block| &block.content) {
            (shown.summary, shown.argument) = (open.summary.clone(), open.argument.clone());
        }
        if let Some(fact) = fact {
            if let Some(summary) = &fact.summary {
                shown.summary = Text::line(summary);
            }
            shown.reason = fact.reason.as_deref().map(Text::line);
            shown.kind = fact.kind;
            shown.locations = fact.locations.iter().map(|path| Text::line(path)).collect();
            shown.line = fact.line;
            shown.remarks = fact.remarks.iter().map(|text| Text::line(text)).collect();
            shown.elapsed_ms = fact.elapsed_ms;
        }
        if let Some(result) = result {
            let body = FullBody::of_result(fact.and_then(|fact| fact.display.as_ref()), &result.content);
            shown.body = Some(core.keep_body(&block.id, body));
        }
        core.close_block(self.new_part(block.id.clone(), message, Content::Call(Box::new(shown))));
        self.turn.count_call(core, block);
        if let Some(Display::Checklist { items, .. }) = fact.and_then(|fact| fact.display.as_ref())
            && self.agent.is_none()
        {
            core.set_checklist(items);
        }
    }

    /// Records the turn of an answer, and shows it with the results of its calls.
    pub(super) fn show_answer_with_results(&mut self, core: &mut Core, answer: &Message, results: &Message) {
        let texts = self.shown_texts(answer);
        let facts = std::mem::take(&mut self.facts);
        self.record.turns.push(TurnRecord {
            answer: self.answers,
            texts: texts.clone(),
            thoughts_ms: self.thoughts_ms.clone(),
            calls: facts.to_vec(),
        });
        self.show_answer_blocks(core, answer, results, texts.as_deref(), facts);
        self.answers += 1;
        self.clear_turn(core);
    }

    fn show_answer_blocks(
        &mut self,
        core: &mut Core,
        answer: &Message,
        results: &Message,
        texts: Option<&[String]>,
        facts: Facts,
    ) {
        let said = answer.id.as_ref();
        self.match_parts(core, said, &parts(answer, texts));
        let results = results.results().map(|result| (&result.call_id, result));
        let mut results: Queues<&CallId, &ToolResult> = results.collect();
        let mut facts = facts.into_queues();
        for (at, call) in answer.calls().enumerate() {
            let Some(block) = self.turn.call(at) else { continue };
            let (fact, result) = (facts.take(&call.id), results.take(&call.id));
            self.close_call(core, &block, said, (&call.id, &call.name), fact.as_ref(), result);
        }
    }

    /// Shows messages that joined the conversation, except call-result pairs.
    pub(super) fn show_messages(&mut self, core: &mut Core, messages: &[Arc<Message>]) {
        for message in messages {
            if self.recent.iter().any(|known| Arc::ptr_eq(known, message)) {
                continue;
            }
            self.remember(message);
            match message.role {
                Role::Assistant => {
                    let texts = self.shown_texts(message);
                    if texts.is_some() || !self.thoughts_ms.is_empty() {
                        let turn = TurnRecord {
                            answer: self.answers,
                            texts: texts.clone(),
                            thoughts_ms: self.thoughts_ms.clone(),
                            calls: Vec::new(),
                        };
                        self.record.turns.push(turn);
                    }
                    self.answers += 1;
                    self.match_parts(core, message.id.as_ref(), &parts(message, texts.as_deref()));
                    self.clear_turn(core);
                }
                Role::User => self.show_user_message(core, message),
            }
        }
    }

    /// Remembers a message; returns false for a known one.
    pub(super) fn is_new(&mut self, message: &Arc<Message>) -> bool {
        let is_new = !self.recent.iter().any(|known| Arc::ptr_eq(known, message));
        if is_new {
            self.remember(message);
        }
        is_new
    }

    fn remember(&mut self, message: &Arc<Message>) {
        if self.recent.len() == REMEMBERED_MESSAGES {
            self.recent.pop_front();
        }
        self.recent.push_back(message.clone());
    }

    fn show_user_message(&mut self, core: &mut Core, message: &Message) {
        // Tool results are shown with their calls, so a message with nothing else is skipped.
        if message.results().next().is_some() && message.text().is_empty() {
            return;
        }
        // The message with the working directory is not shown: the person knows it.
        if message.injected_by.as_deref() == Some(QUERY_CONTEXT) {
            return;
        }
        let summary = message.content.iter().find_map(|block| match block {
            MessageBlock::Compaction(compaction) => Some(Text::from(compaction.summary.clone())),
            _ => None,
        });
        if let Some(text) = summary {
            self.add_block(core, message.id.as_ref(), Content::Summary { text });
            if message.text().is_empty() {
                return;
            }
        }
        let text = Text::from(message.text());
        let content = match &message.injected_by {
            Some(by) => Content::Injected { by: Text::line(by), text },
            None => {
                let is_attached = |block: &&MessageBlock| {
                    matches!(block, MessageBlock::Image(_) | MessageBlock::Document(_))
                };
                let attachments = message.content.iter().filter(is_attached).count() as u32;
                let typed = if self.agent.is_none() { core.typed_command.take() } else { None };
                let command = typed.filter(|typed| typed.as_str().trim() != text.as_str().trim());
                Content::User { text, attachments, command }
            }
        };
        self.add_block(core, message.id.as_ref(), content);
    }

    /// Ends the run. Returns the end of a run without an answer, which is not stored.
    pub(super) fn end_run(&mut self, core: &mut Core, end: Option<RunEnd>) -> Option<RunEnd> {
        self.discard_turn(core);
        for (id, block, record) in std::mem::take(&mut self.plugins) {
            self.plugins.push((id, block.clone(), record));
            self.show_plugin(core, ViewBlock { last: true, ..block });
        }
        if self.has_nothing_to_keep() {
            return end;
        }
        if let Some(end) = end {
            self.record.end = Some(end.clone());
            self.add_block(core, None, Content::End(end));
        }
        None
    }

    /// Continues the numbering after the block `id` of a stored session.
    pub(super) fn continue_ids_after(&mut self, id: &BlockId) {
        let number = id.as_str().rsplit_once("/b").and_then(|(_, number)| number.parse::<u64>().ok());
        self.block_count = self.block_count.max(number.map_or(0, |number| number + 1));
    }

    /// Whether the record of a stored run contains the next answer.
    pub(super) fn is_recorded(&self, run: &RunRecord) -> bool {
        run.turns.iter().any(|turn| turn.answer == self.answers)
    }

    /// Whether the run left nothing to store.
    pub(super) fn has_nothing_to_keep(&self) -> bool {
        self.answers == 0 && self.record.plugins.is_empty()
    }
}

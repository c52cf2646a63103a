use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use zk_core::events::{
    PermissionDecided, SectionSize, SessionBeforeEnd, SessionOpenTurn, SessionStart, SystemSections,
    ToolBegin, ToolEnd, ToolTransform,
};
use zk_core::kernel::{BoxError, Cx, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::model::{CallId, CallRef, Message, Role, ToolContent, TurnId, output_bytes};
use zk_core::service::{NewEntry, Provider, Request};

use super::provider::NotedProvider;
use super::stored::{
    CallFacts, PartFacts, REPLAY_ENTRY, REPLAY_ENTRY_VERSION, RequestFacts, RunFacts, SOURCE, SideCallFacts,
    Verdict,
};
use crate::digest::{digest_of, digest_of_json, digest_of_message};

/// Largest result that is kept as the tool gave it, in bytes.
const MAX_RAW_RESULT_BYTES: usize = 32 * 1024;

/// Largest sum of texts that are kept of a run, in bytes.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// Largest number of requests that are noted in a run.
pub(crate) const MAX_REQUESTS: usize = 2_000;

/// Largest number of calls that are noted in a run.
const MAX_CALLS: usize = 10_000;

/// Largest number of message digests that are noted in a run.
const MAX_MESSAGES: usize = 50_000;

/// Plugin that stores, with each run, what a later comparison needs: digests of the system prompt's sections, of the tools and of
/// the messages of each request; permission verdicts; arguments and results that a plugin changed; answers to side calls.
///
/// One hidden entry is stored with the end of a run, bounded in size, and redacted by the recorder. A run that dies before its
/// end has none, and neither has a session of an older zk: its requests and verdicts are then not compared.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use zk_agent::Agent;
/// use zk_core::service::{NewSession, SessionStore};
/// use zk_replay::{Recording, ReplayLog};
/// use zk_session::{MemoryStore, Recorder};
/// use zk_testkit::{Script, ScriptedProvider};
///
/// let session =
///     MemoryStore::new().create(NewSession { id: None, cwd: "/".into(), parent: None }).await.unwrap();
/// let provider = Arc::new(ScriptedProvider::new(Script::new().turn(|turn| turn.text("Hello."))));
/// let agent = Agent::builder(provider)
///     .plugin(Recorder::new(session.clone()))
///     .plugin(ReplayLog::new())
///     .session(session.id().clone())
///     .build()
///     .unwrap();
/// agent.run("hi").unwrap().wait().await;
/// assert!(Recording::of(&session.entries().await.unwrap()).runs[0].has_requests());
/// # });
/// ```
#[derive(Clone, Default)]
pub struct ReplayLog {
    collected: Arc<Collected>,
}

impl fmt::Debug for ReplayLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayLog").finish_non_exhaustive()
    }
}

impl ReplayLog {
    /// Creates the log of one conversation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// Facts of the current run.
#[derive(Default)]
pub(super) struct Collected(Mutex<State>);

#[derive(Default)]
struct State {
    facts: RunFacts,
    /// Whether any request was answered, if only in part.
    is_answered: bool,
    sections: Vec<SectionSize>,
    system: Vec<PartFacts>,
    system_text: Option<Arc<str>>,
    tools: Vec<PartFacts>,
    tool_specs: Option<Arc<[Arc<zk_core::model::ToolSpec>]>>,
    /// Messages of the last request, with their digests.
    messages: Vec<(Arc<Message>, PartFacts)>,
    messages_noted: usize,
    text_bytes: usize,
    /// Arguments of the current turn's calls, as the model gave them.
    asked: HashMap<CallId, Value>,
    /// Results of tools that handlers may change.
    raw: HashMap<CallId, ToolContent>,
}

impl State {
    fn facts_of_call(&mut self, call: &CallRef) -> Option<&mut CallFacts> {
        let is_it = |known: &CallFacts| known.turn_id == call.turn_id && known.call_id == call.call_id;
        if !self.facts.calls.last().is_some_and(is_it) && !self.facts.calls.iter().any(is_it) {
            if self.facts.calls.len() >= MAX_CALLS {
                self.facts.is_cut = true;
                return None;
            }
            let (turn_id, call_id) = (call.turn_id.clone(), call.call_id.clone());
            self.facts.calls.push(CallFacts { turn_id, call_id, args: None, raw: None, verdict: None });
        }
        self.facts.calls.iter_mut().rev().find(|known| is_it(known))
    }

    /// Reserves `bytes` for more text; returns false if the limit of the run is reached.
    fn reserve_text(&mut self, bytes: usize) -> bool {
        let has_room = self.text_bytes.saturating_add(bytes) <= MAX_TEXT_BYTES;
        if has_room {
            self.text_bytes += bytes;
        } else {
            self.facts.is_cut = true;
        }
        has_room
    }

    /// Notes the messages of a request. Returns how many begin it as they began the last one, and the others.
    fn update_messages(&mut self, messages: &[Arc<Message>]) -> (usize, Vec<PartFacts>) {
        let mut known = std::mem::take(&mut self.messages).into_iter();
        let (mut kept, mut new) = (0, Vec::new());
        for message in messages {
            let before = known.next();
            // The first message is made anew for each request, which says nothing about the others.
            let part = match &before {
                Some((same, part)) if Arc::ptr_eq(same, message) || same == message => part.clone(),
                Some(_) | None => part_of_message(message),
            };
            if new.is_empty() && before.is_some_and(|(_, known)| known == part) {
                kept += 1;
            } else {
                new.push(part.clone());
            }
            self.messages.push((message.clone(), part));
        }
        let room = MAX_MESSAGES.saturating_sub(self.messages_noted);
        if new.len() > room {
            new.truncate(room);
            self.facts.is_cut = true;
        }
        self.messages_noted += new.len();
        (kept, new)
    }
}

/// Digest of a message; it has no digits if nothing of it is compared.
fn part_of_message(message: &Message) -> PartFacts {
    let name = match message.role {
        Role::User if message.results().next().is_some() => "results",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let bytes = message.content.iter().filter_map(zk_core::model::Block::as_text).map(str::len).sum();
    PartFacts { name: name.to_owned(), bytes, digest: digest_of_message(message).unwrap_or_default() }
}

/// Splits a system prompt at its sections; a single part if a plugin changed the text.
fn parts_of_system(system: &str, sections: &[SectionSize]) -> Vec<PartFacts> {
    let part = |name: &str, text: &str| PartFacts {
        name: name.to_owned(),
        bytes: text.len(),
        digest: digest_of(text.as_bytes()),
    };
    let (mut parts, mut at) = (Vec::new(), 0_usize);
    for section in sections {
        // An empty line separates the sections.
        at += if parts.is_empty() { 0 } else { 2 };
        let Some(text) = system.get(at..at.saturating_add(section.bytes)) else { break };
        parts.push(part(&section.id, text));
        at += section.bytes;
    }
    if !parts.is_empty() && parts.len() == sections.len() && at == system.len() {
        return parts;
    }
    vec![part("system", system)]
}

impl Collected {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn mark_answered(&self) {
        self.state().is_answered = true;
    }

    pub(super) fn add_request(&self, turn_id: &str, request: &Request) {
        let state = &mut *self.state();
        if state.facts.requests.len() >= MAX_REQUESTS {
            state.facts.is_cut = true;
            return;
        }
        let is_first = state.facts.requests.is_empty();
        let is_same_text =
            state.system_text.as_ref().is_some_and(|known| Arc::ptr_eq(known, &request.system));
        let mut system = None;
        if is_first || !is_same_text {
            let parts = parts_of_system(&request.system, &state.sections);
            if is_first || parts != state.system {
                system = Some(parts.clone());
            }
            (state.system, state.system_text) = (parts, Some(request.system.clone()));
        }
        let has_same_specs =
            state.tool_specs.as_ref().is_some_and(|known| Arc::ptr_eq(known, &request.tools));
        let mut tools = None;
        if is_first || !has_same_specs {
            let part = |spec: &Arc<zk_core::model::ToolSpec>| PartFacts {
                name: spec.name.clone(),
                bytes: spec.description.len(),
                digest: digest_of_json(&**spec),
            };
            let parts: Vec<PartFacts> = request.tools.iter().map(part).collect();
            if is_first || parts != state.tools {
                tools = Some(parts.clone());
            }
            (state.tools, state.tool_specs) = (parts, Some(request.tools.clone()));
        }
        if is_first {
            state.messages.clear();
        }
        let (kept, messages) = state.update_messages(request.history.messages());
        if !state.facts.models.contains(&request.model) {
            state.facts.models.push(request.model.clone());
        }
        state.facts.requests.push(RequestFacts {
            turn_id: TurnId::from(turn_id),
            model: request.model.reference(),
            thinking: request.thinking.level,
            system,
            tools,
            kept,
            messages,
        });
    }

    pub(super) fn add_side_call(&self, request: &str, text: String) {
        let state = &mut *self.state();
        if state.reserve_text(text.len()) {
            state.facts.side_calls.push(SideCallFacts { request: request.to_owned(), text });
        }
    }

    fn take_entry(&self) -> Option<NewEntry> {
        let state = &mut *self.state();
        let facts = std::mem::take(&mut state.facts);
        (state.asked, state.raw, state.text_bytes) = (HashMap::new(), HashMap::new(), 0);
        let is_answered = std::mem::take(&mut state.is_answered);
        // An entry makes a session count as answered, so that a session without an answer would be kept.
        let is_worth_it = is_answered && !facts.requests.is_empty();
        let data = is_worth_it.then(|| serde_json::to_value(facts).ok()).flatten()?;
        Some(NewEntry::hidden(REPLAY_ENTRY, REPLAY_ENTRY_VERSION, data))
    }
}

impl Plugin for ReplayLog {
    fn name(&self) -> &str {
        SOURCE
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let collected = self.collected.clone();
        scope.decorate_all::<dyn Provider>(move |inner| {
            Arc::new(NotedProvider { inner, collected: collected.clone() })
        });
        let of_run = self.collected.clone();
        scope.on_sync(move |start: &SessionStart, _: &Cx| {
            let state = &mut *of_run.state();
            let sections = std::mem::take(&mut state.sections);
            let side_calls_before = std::mem::take(&mut state.facts.side_calls);
            let text_bytes = side_calls_before.iter().map(|side| side.text.len()).sum();
            let facts = RunFacts { side_calls_before, ..RunFacts::default() };
            *state = State { sections, facts, text_bytes, ..State::default() };
            state.facts.run_id = Some(start.run_id.clone());
        });
        let of_prompt = self.collected.clone();
        scope.on_sync(move |found: &SystemSections, _: &Cx| {
            of_prompt.state().sections.clone_from(&found.sections);
        });
        let of_turn = self.collected.clone();
        scope.on_sync(move |open: &SessionOpenTurn, _: &Cx| {
            of_turn.state().asked =
                open.message.calls().map(|call| (call.id.clone(), call.args.clone())).collect();
        });
        let own = || HookOptions { reach: Some(Reach::Own), ..HookOptions::default() };
        let of_gate = self.collected.clone();
        scope.on_sync_at(own(), move |decided: &PermissionDecided, _: &Cx| {
            let verdict = Verdict::of(decided);
            if let Some(call) = of_gate.state().facts_of_call(&decided.call) {
                call.verdict = Some(verdict);
            }
        });
        let of_call = self.collected.clone();
        scope.on_sync(move |begin: &ToolBegin, _: &Cx| {
            let state = &mut *of_call.state();
            let is_changed = state.asked.get(&begin.call.call_id).is_some_and(|asked| *asked != begin.args);
            if is_changed
                && state.reserve_text(begin.args.to_string().len())
                && let Some(call) = state.facts_of_call(&begin.call)
            {
                call.args = Some(begin.args.clone());
            }
        });
        let before = self.collected.clone();
        let first = HookOptions { reach: Some(Reach::Own), ..HookOptions::from(Stage::Early) };
        scope.on_sync_at(first, move |transform: &ToolTransform, _: &Cx| {
            if output_bytes(&transform.content) <= MAX_RAW_RESULT_BYTES {
                before.state().raw.insert(transform.call.call_id.clone(), transform.content.clone());
            }
        });
        let after = self.collected.clone();
        scope.on_sync(move |end: &ToolEnd, _: &Cx| {
            let state = &mut *after.state();
            let Some(raw) = state.raw.remove(&end.call.call_id) else { return };
            if raw != end.result.content
                && state.reserve_text(output_bytes(&raw))
                && let Some(call) = state.facts_of_call(&end.call)
            {
                call.raw = Some(raw);
            }
        });
        let ending = self.collected.clone();
        scope.on_sync(move |_: &SessionBeforeEnd, _: &Cx| ending.take_entry());
        Ok(())
    }
}

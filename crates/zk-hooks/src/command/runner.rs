//! Selection of the hooks for an event, and their execution.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use zk_core::kernel::Cx;
use zk_core::model::SessionId;
use zk_core::service::{Exec, TraceContext, TurnCwd, trace_variables};

use super::config::{CommandHook, HookSet};
use super::event::HookEvent;
use super::failure::HookFailure;
use super::names::Vocabulary;
use super::process::{self, Place};
use super::quote_line;
use super::reply::{self, HookReply};
use super::session::Session;

/// Extra time of the bus's limit over the longest hook's, so that the hook's own time-out is reported.
const MARGIN: Duration = Duration::from_secs(10);

/// Runs the hooks of events.
pub(super) struct Runner {
    pub(super) set: HookSet,
    pub(super) project: PathBuf,
    pub(super) cwd: PathBuf,
    /// Whether hooks keep their directory when a turn works elsewhere.
    pub(super) stays: bool,
    pub(super) exec: Option<Arc<dyn Exec>>,
    pub(super) tell: Arc<dyn Fn(&str) + Send + Sync>,
    pub(super) permission_mode: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    pub(super) session: Session,
}

/// Selected hook with its vocabulary.
pub(super) type Chosen = (Arc<CommandHook>, Vocabulary);

/// Answer of one hook, or its failure.
pub(super) type Answered = (Chosen, Result<HookReply, HookFailure>);

impl Runner {
    /// Hooks for a tool, each command once.
    pub(super) fn for_tool(&self, event: HookEvent, tool: &str) -> Vec<Chosen> {
        self.choose(event, |hook| hook.vocabulary(tool))
    }

    /// Hooks for a kind of event, such as a session's source, each command once.
    pub(super) fn for_word(&self, event: HookEvent, word: &str) -> Vec<Chosen> {
        self.choose(event, |hook| hook.matcher.is_match(word).then_some(Vocabulary::Zk))
    }

    /// Hooks of an event without kinds, regardless of their matchers, each command once.
    pub(super) fn for_any(&self, event: HookEvent) -> Vec<Chosen> {
        self.choose(event, |hook| {
            Some(if hook.source.is_claude { Vocabulary::Claude } else { Vocabulary::Zk })
        })
    }

    fn choose(&self, event: HookEvent, matches: impl Fn(&CommandHook) -> Option<Vocabulary>) -> Vec<Chosen> {
        let mut chosen: Vec<Chosen> = Vec::new();
        for hook in self.set.hooks.iter().filter(|hook| hook.event == event) {
            let Some(vocabulary) = matches(hook) else { continue };
            let is_same = |(other, other_words): &Chosen| {
                other.command == hook.command
                    && *other_words == vocabulary
                    && other.unusable == hook.unusable
                    // Equal commands with different rights to allow calls are run separately.
                    && other.source.may_allow == hook.source.may_allow
            };
            if !chosen.iter().any(is_same) {
                chosen.push((hook.clone(), vocabulary));
            }
        }
        chosen
    }

    /// Runs hooks in parallel. `fields` builds the event's fields in a hook's vocabulary.
    pub(super) async fn run(
        &self,
        chosen: Vec<Chosen>,
        cx: &Cx,
        fields: impl Fn(Vocabulary) -> Value,
    ) -> Vec<Answered> {
        let exec = self.exec.clone().or_else(|| cx.service::<dyn Exec>());
        let cwd = self.cwd(cx);
        let trace = cx.service::<dyn TraceContext>().map(|trace| trace_variables(trace.headers(cx)));
        let trace = trace.unwrap_or_default();
        let running = chosen.into_iter().map(|(hook, vocabulary)| {
            let input = self.input(hook.event, cx, &cwd, fields(vocabulary));
            let (exec, cwd, trace) = (exec.clone(), &cwd, &trace);
            async move {
                let answer = self.run_one(&hook, &input, exec, (cwd, trace)).await;
                if let Ok(HookReply { message: Some(message), .. }) = &answer {
                    (self.tell)(&format!("hook `{}`: {message}", quote_line(&hook.command)));
                }
                ((hook, vocabulary), answer)
            }
        });
        join_all(running).await
    }

    /// Working directory for the hooks of an event.
    fn cwd(&self, cx: &Cx) -> PathBuf {
        let moved = if self.stays { None } else { TurnCwd::of(cx) };
        moved.unwrap_or_else(|| self.cwd.clone())
    }

    async fn run_one(
        &self,
        hook: &CommandHook,
        input: &Value,
        exec: Option<Arc<dyn Exec>>,
        (cwd, trace): (&Path, &[(String, String)]),
    ) -> Result<HookReply, HookFailure> {
        let command = || quote_line(&hook.command);
        if let Some(why) = &hook.unusable {
            return Err(HookFailure::Unusable { command: command(), why: why.clone() });
        }
        let exec = exec.ok_or_else(|| HookFailure::NoExec { command: command() })?;
        let session = input.get("session_id").and_then(Value::as_str).unwrap_or_default();
        let place = Place { exec: &*exec, cwd, project: &self.project, session, trace };
        let printed = process::run(hook, format!("{input}\n").as_bytes(), &place).await?;
        reply::read(hook, &printed)
    }

    /// Input JSON of a hook.
    fn input(&self, event: HookEvent, cx: &Cx, cwd: &Path, fields: Value) -> Value {
        let mut input = Map::new();
        let mut put = |name: &str, value: Value| _ = input.insert(name.to_owned(), value);
        let id = self.session_id(cx);
        put("session_id", id.as_ref().map_or("", SessionId::as_str).into());
        // zk does not store conversations as JSONL transcripts.
        put("transcript_path", "".into());
        put("cwd", cwd.to_string_lossy().into());
        put("hook_event_name", event.name().into());
        if let Some(mode) = &self.permission_mode {
            put("permission_mode", mode().into());
        }
        if !cx.run_id().is_empty() {
            put("prompt_id", cx.run_id().into());
        }
        let origin = cx.origin();
        if origin.depth > 0 {
            put("agent_id", json!(origin.agent));
            put("agent_type", "subagent".into());
        }
        if let Value::Object(fields) = fields {
            input.extend(fields);
        }
        Value::Object(input)
    }

    /// Id of the current session: from events, or from the host before there were any.
    fn session_id(&self, cx: &Cx) -> Option<SessionId> {
        let known = self.session.state().id.clone();
        known.or_else(|| cx.service::<SessionId>().map(|id| (*id).clone()))
    }

    /// Time limit of the bus's handler for these events.
    pub(super) fn time_limit(&self, events: &[HookEvent]) -> Option<Duration> {
        Some(self.set.longest_time_limit(events).unwrap_or_default() + MARGIN)
    }

    /// Time limit of the bus's handler for an event whose hooks run one after the other.
    pub(super) fn time_limit_in_sequence(&self, events: &[HookEvent]) -> Option<Duration> {
        let sums = events.iter().filter_map(|event| self.set.total_time_limit(*event));
        Some(sums.max().unwrap_or_default() + MARGIN)
    }

    /// Reports failed hooks to the person, where the failure has no other effect.
    pub(super) fn report(&self, answered: &[Answered]) {
        for ((hook, _), answer) in answered {
            if let Err(error) = answer {
                (self.tell)(&format!("warning: {}: {error}", hook.event));
            }
        }
    }
}

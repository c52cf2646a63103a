//! Hooks of tool calls: before the decision, instead of a question to the person, and after the call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zk_core::events::{
    AgentDone, CallRef, DecidedBy, PermissionDecided, PermissionReply, PermissionRequest, ResultPatch,
    Ruling, ToolBefore, ToolGate, ToolPrepare, ToolTransform,
};
use zk_core::kernel::{Answer, Cx, Handler, HookOptions, Reach, Scope, Stage};
use zk_core::model::{Block, ToolContent};
use zk_core::service::{Approval, Question, Questions, Redactor, RunControl, UiAnswer};

use super::super::event::HookEvent;
use super::super::failure::HookFailure;
use super::super::names::Vocabulary;
use super::super::quote_line;
use super::super::reply::{HookReply, Verdict};
use super::super::runner::{Answered, Chosen, Runner};

/// Time limit for a person to answer a question that a hook demands.
const PERSON_TIME_LIMIT: Duration = Duration::from_secs(600);

/// Handlers of call events, with the hooks' answers about running calls.
pub(super) struct Calls {
    runner: Arc<Runner>,
    seen: Mutex<HashMap<Key, Seen>>,
    scope: Scope,
}

/// Run id and call id.
type Key = (String, String);

/// Answers of hooks about a call, and the arguments that they judged.
#[derive(Clone, Debug, Default)]
struct Seen {
    args: Value,
    verdict: Verdict,
    /// Reason why the run has to end, if a hook stopped it.
    stop: Option<String>,
    /// Texts for the model, appended to the result.
    context: Vec<String>,
    /// Commands of the hooks that changed the arguments.
    authors: Vec<String>,
    /// Start of the call's execution.
    begun: Option<Instant>,
}

impl Calls {
    pub(super) fn register(scope: &Scope, runner: &Arc<Runner>) {
        use HookEvent as E;
        let limit = |event| HookOptions { time_limit: runner.time_limit(&[event]), ..HookOptions::default() };
        let has = |event| runner.set.hooks.iter().any(|hook| hook.event == event);
        let calls = Arc::new(Self { runner: runner.clone(), seen: Mutex::default(), scope: scope.clone() });
        if has(E::PreToolUse) {
            // Late, to see the arguments after changes by other plugins.
            let last = HookOptions { stage: Stage::Late, ..limit(E::PreToolUse) };
            scope.handle_at::<ToolPrepare, _>(last, calls.clone());
            scope.handle_at::<ToolGate, _>(limit(E::PreToolUse), Arc::new(Refuse(calls.clone())));
            let patient = Some(PERSON_TIME_LIMIT + Duration::from_secs(5));
            let asking = HookOptions { time_limit: patient, ..HookOptions::from(Stage::Review) };
            scope.handle_at::<ToolGate, _>(asking, Arc::new(Ask(calls.clone())));
        }
        if has(E::PreToolUse) || has(E::PermissionRequest) || has(E::Notification) {
            scope.handle_at::<PermissionRequest, _>(limit(E::PermissionRequest), calls.clone());
        }
        let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
        if has(E::PostToolUse) || has(E::PostToolUseFailure) || has(E::PreToolUse) {
            let begun = calls.clone();
            scope.on_sync_at(everywhere, move |before: &ToolBefore, cx: &Cx| {
                let mut seen = begun.seen();
                let call = seen.entry(key(&before.call, cx)).or_default();
                call.args = before.args.clone();
                call.begun = Some(Instant::now());
            });
            let time_limit = runner.time_limit_in_sequence(&[E::PostToolUse, E::PostToolUseFailure]);
            let at = HookOptions { time_limit, ..HookOptions::default() };
            scope.handle_at::<ToolTransform, _>(at, calls.clone());
        }
        scope.on_sync_at(everywhere, move |_: &AgentDone, cx: &Cx| {
            calls.seen().retain(|(run, _), _| run != cx.run_id());
        });
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<Key, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the hooks about a call; they may change its arguments. If the arguments have changed before,
    /// further changes are ignored, except those of the hooks that made them.
    async fn judge(&self, call: &CallRef, args: &Value, before: Option<&Seen>, cx: &Cx) -> Seen {
        let chosen = self.runner.for_tool(HookEvent::PreToolUse, &call.name);
        let mut seen = Seen { args: args.clone(), ..Seen::default() };
        if let Some(before) = before {
            seen.authors.clone_from(&before.authors);
            let answered = self.ask_hooks(&chosen, call, args, cx).await;
            seen.merge(&answered, &call.name);
            return seen;
        }
        let answered = self.ask_hooks(&chosen, call, args, cx).await;
        let changed = changed_arguments(&answered, &call.name, args);
        let Some((_, new)) = changed.first() else {
            seen.merge(&answered, &call.name);
            return seen;
        };
        if let Some((command, _)) = changed.iter().find(|(_, other)| other != new) {
            seen.verdict = Verdict::Block(HookFailure::Conflict { command: quote_line(command) }.to_string());
            return seen;
        }
        seen.authors = changed.iter().map(|(command, _)| command.clone()).collect();
        seen.args = new.clone();
        let (authors, others): (Vec<Answered>, Vec<Answered>) =
            answered.into_iter().partition(|((hook, _), _)| seen.authors.contains(&hook.command));
        seen.merge(&authors, &call.name);
        // The other hooks judged arguments that will not run.
        if matches!(seen.verdict, Verdict::Block(_)) || others.iter().any(is_refusal) {
            seen.merge(&others, &call.name);
            return seen;
        }
        let others: Vec<Chosen> = others.into_iter().map(|(chosen, _)| chosen).collect();
        let args = seen.args.clone();
        let answered = self.ask_hooks(&others, call, &args, cx).await;
        seen.merge(&answered, &call.name);
        seen
    }

    async fn ask_hooks(&self, chosen: &[Chosen], call: &CallRef, args: &Value, cx: &Cx) -> Vec<Answered> {
        self.runner.run(chosen.to_vec(), cx, |names| call_fields(names, call, args)).await
    }

    /// Runs the hooks that can answer the permission question for the person.
    async fn answer_for_person(&self, request: &PermissionRequest, cx: &Cx) -> Option<PermissionReply> {
        let chosen = self.runner.for_tool(HookEvent::PermissionRequest, &request.call.name);
        let answered = self.ask_hooks(&chosen, &request.call, &request.args, cx).await;
        let mut seen = Seen::default();
        seen.merge(&answered, &request.call.name);
        if let Some(reason) = stop_run(seen.stop.as_deref(), cx) {
            return Some(PermissionReply::Deny { reason });
        }
        match seen.verdict {
            Verdict::Block(reason) => Some(PermissionReply::Deny { reason }),
            Verdict::Allow => Some(PermissionReply::Allow),
            Verdict::None | Verdict::Ask(_) => None,
        }
    }

    /// Runs the notification hooks in the background.
    fn notify(&self, request: &PermissionRequest, cx: &Cx) {
        let kind = "permission_prompt";
        let chosen = self.runner.for_word(HookEvent::Notification, kind);
        let is_attended = cx.service::<Questions>().is_some_and(|questions| questions.is_attended());
        if chosen.is_empty() || !is_attended {
            return;
        }
        let message = format!("zk needs your permission to use {}", request.call.display_name);
        let fields = json!({"message": message, "title": "zk", "notification_type": kind});
        let (runner, cx) = (self.runner.clone(), cx.clone());
        self.scope.spawn(async move {
            let answered = runner.run(chosen, &cx, |_| fields.clone()).await;
            runner.report(&answered);
        });
    }
}

/// Whether a hook refuses the call.
fn is_refusal((_, answer): &Answered) -> bool {
    answer.as_ref().map_or(true, |reply| matches!(reply.verdict, Verdict::Block(_)) || reply.stop.is_some())
}

/// Changed arguments, each with the command of its hook.
fn changed_arguments(answered: &[Answered], tool: &str, args: &Value) -> Vec<(String, Value)> {
    let changed = answered.iter().filter_map(|((hook, names), answer)| {
        let new = names.to_zk(tool, answer.as_ref().ok()?.updated_input.as_ref()?);
        (new != *args).then(|| (hook.command.clone(), new))
    });
    changed.collect()
}

impl Seen {
    /// Merges answers; the strictest verdict wins.
    fn merge(&mut self, answered: &[Answered], tool: &str) {
        for ((hook, names), answer) in answered {
            let verdict = match answer {
                Err(error) => Verdict::Block(error.to_string()),
                Ok(HookReply { verdict, stop, context, updated_input, .. }) => {
                    self.stop = self.stop.take().or_else(|| stop.clone());
                    self.context.extend(context.clone());
                    let differs =
                        updated_input.as_ref().is_some_and(|new| names.to_zk(tool, new) != self.args);
                    match verdict {
                        _ if differs && !self.authors.contains(&hook.command) => {
                            let error = HookFailure::Conflict { command: quote_line(&hook.command) };
                            Verdict::Block(error.to_string())
                        }
                        Verdict::Allow if !hook.source.may_allow => Verdict::None,
                        verdict => verdict.clone(),
                    }
                }
            };
            if verdict > self.verdict {
                self.verdict = verdict;
            }
        }
    }
}

fn key(call: &CallRef, cx: &Cx) -> Key {
    (cx.run_id().to_owned(), call.call_id.to_string())
}

/// Fields that describe a call in a hook's input.
pub(super) fn call_fields(names: Vocabulary, call: &CallRef, args: &Value) -> Value {
    json!({
        "tool_name": names.tool(&call.name),
        "tool_input": names.args(&call.name, args),
        "tool_use_id": call.call_id,
    })
}

/// Stops the run if a hook demands that, and returns the reason.
pub(super) fn stop_run(stop: Option<&str>, cx: &Cx) -> Option<String> {
    let reason = format!("a hook stopped the run: {}", stop?);
    if let Some(run) = cx.service::<dyn RunControl>() {
        run.abort(&reason);
    }
    Some(reason)
}

impl Handler<ToolPrepare> for Calls {
    async fn call(&self, prepare: &ToolPrepare, cx: &Cx) -> Answer<ToolPrepare> {
        let seen = self.judge(&prepare.call, &prepare.args, None, cx).await;
        let args = (seen.args != prepare.args).then(|| seen.args.clone());
        self.seen().insert(key(&prepare.call, cx), seen);
        Ok(args)
    }
}

/// Gate that refuses calls which hooks refuse. It asks the hooks again if the arguments have changed since.
struct Refuse(Arc<Calls>);

impl Handler<ToolGate> for Refuse {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        if gate.tool.is_none() {
            return Ok(None);
        }
        let key = key(&gate.call, cx);
        let before = self.0.seen().get(&key).cloned();
        let seen = match before {
            Some(seen) if seen.args == gate.args || matches!(seen.verdict, Verdict::Block(_)) => seen,
            before => {
                let before = before.unwrap_or_default();
                let seen = self.0.judge(&gate.call, &gate.args, Some(&before), cx).await;
                self.0.seen().insert(key.clone(), seen.clone());
                seen
            }
        };
        let refused = match (stop_run(seen.stop.as_deref(), cx), seen.verdict) {
            (Some(reason), _) | (None, Verdict::Block(reason)) => reason,
            (None, Verdict::None | Verdict::Allow | Verdict::Ask(_)) => return Ok(None),
        };
        let reasons = vec![format!("a hook refused it: {refused}")];
        cx.emit(PermissionDecided::of(gate, false, DecidedBy::Plugin, reasons)).await?;
        Ok(Some(Ruling::Refuse(refused)))
    }
}

/// Gate that asks the person if a hook demands that.
struct Ask(Arc<Calls>);

impl Handler<ToolGate> for Ask {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        let Some(tool) = gate.tool.as_ref().filter(|_| !gate.is_decided()) else { return Ok(None) };
        let key = key(&gate.call, cx);
        let reason = match self.0.seen().get(&key).map(|seen| seen.verdict.clone()) {
            Some(Verdict::Ask(reason)) => reason,
            Some(Verdict::None | Verdict::Allow | Verdict::Block(_)) | None => return Ok(None),
        };
        let Some(questions) = cx.service::<Questions>().filter(|questions| questions.is_attended()) else {
            let text = format!("a hook wants a person to decide ({reason}), and nobody is here to be asked");
            return Ok(Some(Ruling::Refuse(text)));
        };
        (self.0.runner.tell)(&format!("a hook wants you to decide: {reason}"));
        let approval = Approval {
            tool: gate.call.name.clone(),
            args: gate.args.clone(),
            effects: gate.effects.clone(),
            preview: tool.preview(&gate.args, &gate.place).await,
            reasons: vec![format!("a hook asks: {reason}")],
            ..Approval::default()
        };
        let answer = questions.ask(Question::Approve(Box::new(approval)), cx, PERSON_TIME_LIMIT).await;
        if is_consent(&answer) {
            // Prevents a second question.
            if let Some(seen) = self.0.seen().get_mut(&key) {
                seen.verdict = Verdict::Allow;
            }
            // The gate that decides last records this consent.
            return Ok(Some(Ruling::Consent(format!("{}; answered: once", question_reason(&reason)))));
        }
        cx.emit(answer_record(gate, &answer, &reason)).await?;
        Ok(Some(match answer {
            UiAnswer::No { message } => {
                let said = message.map_or(String::new(), |message| format!(": {message}"));
                Ruling::Refuse(format!("the user declined this call{said}"))
            }
            UiAnswer::Once
            | UiAnswer::Session
            | UiAnswer::Always
            | UiAnswer::WiderSession
            | UiAnswer::WiderAlways
            | UiAnswer::MoreSession { .. }
            | UiAnswer::MoreAlways { .. }
            | UiAnswer::Contained
            | UiAnswer::Absent
            | UiAnswer::Choice { .. }
            | UiAnswer::Text { .. } => {
                Ruling::refuse("a hook wanted a person to decide, and nobody answered")
            }
        }))
    }
}

fn is_consent(answer: &UiAnswer) -> bool {
    match answer {
        UiAnswer::Once
        | UiAnswer::Session
        | UiAnswer::Always
        | UiAnswer::WiderSession
        | UiAnswer::WiderAlways
        | UiAnswer::MoreSession { .. }
        | UiAnswer::MoreAlways { .. }
        | UiAnswer::Contained => true,
        UiAnswer::No { .. } | UiAnswer::Absent | UiAnswer::Choice { .. } | UiAnswer::Text { .. } => false,
    }
}

fn question_reason(reason: &str) -> String {
    format!("a hook had a person asked: {reason}")
}

/// Record of a hook's question that the person did not answer with yes.
fn answer_record(gate: &ToolGate, answer: &UiAnswer, reason: &str) -> PermissionDecided {
    let (by, said) = match answer {
        UiAnswer::No { .. } => (DecidedBy::Person, "answered: no"),
        UiAnswer::Absent => (DecidedBy::Nobody, "nobody answered"),
        UiAnswer::Once
        | UiAnswer::Session
        | UiAnswer::Always
        | UiAnswer::WiderSession
        | UiAnswer::WiderAlways
        | UiAnswer::MoreSession { .. }
        | UiAnswer::MoreAlways { .. }
        | UiAnswer::Contained
        | UiAnswer::Choice { .. }
        | UiAnswer::Text { .. } => (DecidedBy::Person, "no such answer"),
    };
    PermissionDecided::of(gate, false, by, vec![question_reason(reason), said.to_owned()])
}

impl Handler<PermissionRequest> for Calls {
    async fn call(&self, request: &PermissionRequest, cx: &Cx) -> Answer<PermissionRequest> {
        let said = self.seen().get(&key(&request.call, cx)).cloned();
        let is_allowed = said.is_some_and(|seen| seen.verdict == Verdict::Allow && seen.args == request.args);
        if let Some(reply) = self.answer_for_person(request, cx).await {
            return Ok(Some(reply));
        }
        if is_allowed && !request.by_rule {
            return Ok(Some(PermissionReply::Allow));
        }
        self.notify(request, cx);
        Ok(None)
    }
}

impl Handler<ToolTransform> for Calls {
    async fn call(&self, result: &ToolTransform, cx: &Cx) -> Answer<ToolTransform> {
        let seen = self.seen().remove(&key(&result.call, cx)).unwrap_or_default();
        let mut notes = seen.context;
        let mut content = None;
        if let Some(begun) = seen.begun {
            let event = if result.is_error { HookEvent::PostToolUseFailure } else { HookEvent::PostToolUse };
            let duration = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let redactor = cx.service::<Redactor>();
            for hook in self.runner.for_tool(event, &result.call.name) {
                // Each hook sees the result as the one before it left it.
                let text = content.clone().unwrap_or_else(|| result.content.to_text());
                let mut told = if result.is_error {
                    json!({"error": text, "is_interrupt": cx.is_stopped(), "duration_ms": duration})
                } else {
                    json!({"tool_response": {"content": text}, "duration_ms": duration})
                };
                if let Some(redactor) = &redactor {
                    redactor.redact_value(&mut told);
                }
                let answered = self.runner.run(vec![hook], cx, |names| {
                    let mut all = call_fields(names, &result.call, &seen.args);
                    if let (Value::Object(all), Value::Object(told)) = (&mut all, told.clone()) {
                        all.extend(told);
                    }
                    all
                });
                let answered = answered.await;
                self.runner.report(&answered);
                for reply in answered.into_iter().filter_map(|(_, answer)| answer.ok()) {
                    stop_run(reply.stop.as_deref(), cx);
                    let new = reply.updated_output.filter(|text| !text.is_empty() && !result.is_error);
                    content = new.or(content);
                    if let Verdict::Block(reason) = reply.verdict {
                        notes.push(reason);
                    }
                    notes.extend(reply.context);
                }
            }
        }
        if content.is_none() && notes.is_empty() {
            return Ok(None);
        }
        let content = content.map_or_else(|| result.content.clone(), ToolContent::Text);
        Ok(Some(ResultPatch { content: Some(with_notes(content, &notes)), ..ResultPatch::default() }))
    }
}

/// Appends texts of hooks to a result.
fn with_notes(content: ToolContent, notes: &[String]) -> ToolContent {
    if notes.is_empty() {
        return content;
    }
    let notes = format!("A hook says: {}", notes.join("\n"));
    match content {
        ToolContent::Text(text) => ToolContent::Text(format!("{text}\n\n{notes}")),
        ToolContent::Blocks(mut blocks) => {
            blocks.push(Block::text(notes));
            ToolContent::Blocks(blocks)
        }
    }
}

//! Questions about calls, answered by the host, and calls that it changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::model::ToolOutput;
use zk_core::service::{
    Approval, Conversation, PendingQuestion, Progress, Question, QuestionId, Questions, ToolCx, UiAnswer,
};

use super::args::{Given, HostRule, PLAN, sdk_servers, zk_mode};
use super::channel::Unanswered;
use super::host::{Host, Replacement};
use super::wire::fresh_uuid;

/// Time limit of a call that runs with the host's arguments.
const CHANGED_CALL_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Result of a call that was interrupted before a decision.
const REJECTED: &str = "The user does not want this call to be made. It was rejected and has changed nothing. Stop here, and wait \
    for what the user says next.";

/// Reason for which a call that leaves the sandbox is refused.
const STAYS_INSIDE: &str = "it would run outside of the sandbox, and the settings of the host (`sandbox.enabled`) want every command \
    in it: run it without leaving, or ask whoever wrote the host for `sandbox.allowUnsandboxedCommands`";

/// Task that is aborted when this is dropped.
struct Asking(JoinHandle<()>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Passes questions to the host, for as long as the future is polled.
pub(super) async fn answer_questions(host: Arc<Host>, questions: Arc<Questions>) {
    let mut front_end = questions.attach();
    let mut asked: HashMap<QuestionId, Asking> = HashMap::new();
    loop {
        let pending = front_end.pending();
        // A withdrawn question is withdrawn at the host as well.
        asked.retain(|id, _| pending.iter().any(|question| question.id == *id));
        for question in pending {
            let (host, questions) = (host.clone(), questions.clone());
            asked.entry(question.id).or_insert_with(|| {
                Asking(tokio::spawn(async move {
                    let answer = host.decide(&question).await;
                    // The answer fails if the question was withdrawn meanwhile.
                    let _ = questions.attach().answer(question.id, question.digest, answer);
                }))
            });
        }
        front_end.changed().await;
    }
}

impl Host {
    async fn decide(self: &Arc<Self>, question: &PendingQuestion) -> UiAnswer {
        let Question::Approve(approval) = &question.question else { return UiAnswer::No { message: None } };
        let asked = Replacement { tool: approval.tool.clone(), args: approval.args.clone() };
        let (call, tool, input) = {
            let mut known = self.known();
            if let Some(at) = known.decided.iter().position(|decided| *decided == asked) {
                // The host gave these arguments itself, and the rules were applied to them.
                known.decided.remove(at);
                return UiAnswer::Once;
            }
            let at =
                known.calls.iter().position(|(tool, args, _)| (tool, args) == (&asked.tool, &asked.args));
            let call = at.map_or_else(fresh_uuid, |at| known.calls.remove(at).2);
            drop(known);
            let tool = self.names.to_sdk_name(&asked.tool);
            let made = self
                .names
                .call_as_made(&call)
                .filter(|(_, made)| self.names.to_zk_args(&asked.tool, made) == asked.args);
            let input =
                made.map_or_else(|| self.names.to_sdk_input(&asked.tool, &asked.args), |(_, made)| made);
            (call, tool, input)
        };
        if is_coverable(approval, &tool, &input)
            && self.known().rules.iter().any(|rule| rule.covers(&tool, &input))
        {
            return UiAnswer::Once;
        }
        let refused = |words: &str| {
            self.known().refusals.insert(call.clone(), words.to_owned());
            UiAnswer::No { message: Some(words.to_owned()) }
        };
        if self.known().mode == "dontAsk" {
            return refused("Nobody is asked about calls in the mode dontAsk, so this one does not run");
        }
        self.send_state("requires_action");
        let answer = self.ask_permission(permission_request(approval, &call, &tool, &input)).await;
        self.send_state("running");
        let answer = match answer {
            Ok(answer) => answer,
            Err(Unanswered::TakenBack) => return refused(REJECTED),
            Err(why) => return refused(&format!("Permission request failed: {why}")),
        };
        match answer.get("behavior").and_then(Value::as_str) {
            Some("allow") => {
                if let Some(updates) = answer.get("updatedPermissions") {
                    self.update_permissions(updates);
                }
                let new = answer.get("updatedInput").filter(|new| new.is_object() && **new != input);
                if let Some(new) = new {
                    let args = self.names.to_zk_args(&asked.tool, new);
                    if args != asked.args {
                        let replacement = Replacement { tool: asked.tool, args };
                        let mut known = self.known();
                        known.decided.push(replacement.clone());
                        known.replacements.insert(call, replacement);
                    }
                }
                UiAnswer::Once
            }
            Some("deny") => {
                let words = answer.get("message").and_then(Value::as_str).unwrap_or_default();
                if answer.get("interrupt") == Some(&Value::Bool(true)) {
                    if let Some(hosted) = self.present() {
                        hosted.conversation().cancel("the host refused a call and interrupted");
                    }
                    return refused(REJECTED);
                }
                refused(if words.is_empty() { "Denied by the host" } else { words })
            }
            _ => refused("Permission request failed: the host's answer has no behavior allow or deny"),
        }
    }

    /// Asks the host about a call, by its callback or by the tool that it named.
    async fn ask_permission(&self, request: Value) -> Result<Value, Unanswered> {
        let prompter = self.known().asking.prompter.clone();
        let Some((server, tool)) = prompter else { return self.channel.ask(request).await };
        let of = |key: &str| request.get(key).cloned().unwrap_or_default();
        let arguments =
            json!({"tool_name": of("tool_name"), "input": of("input"), "tool_use_id": of("tool_use_id")});
        let called = self.ask_server(&server, "tools/call", json!({"name": tool, "arguments": arguments}));
        let result = called.await.map_err(Unanswered::Refused)?;
        if result.get("isError") == Some(&Value::Bool(true)) {
            return Err(Unanswered::Refused(format!("{tool} of the host failed")));
        }
        let text = result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default();
        serde_json::from_str(text)
            .map_err(|error| Unanswered::Refused(format!("the answer of {tool} is no JSON: {error}")))
    }

    /// Returns server and tool that the host named to answer questions; `None` if its callback answers them.
    ///
    /// # Errors
    /// A sentence about a tool that is none of the host's own.
    pub(super) fn prompter(&self, given: &Given, first: &Value) -> Result<Option<(String, String)>, String> {
        let named = self.args().text("permission-prompt-tool").filter(|tool| !matches!(*tool, "" | "stdio"));
        let Some(named) = named else { return Ok(None) };
        let tool = named.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
        let tool = tool.filter(|(server, _)| sdk_servers(given, first).iter().any(|own| own == server));
        match tool {
            Some((server, tool)) => Ok(Some((server.to_owned(), tool.to_owned()))),
            None => Err(format!(
                "--permission-prompt-tool {named} cannot be used: it is no tool of a server in the SDK's own process. Give \
                 `can_use_tool`, or such a tool as mcp__SERVER__TOOL"
            )),
        }
    }

    /// Applies the permission updates of a host's answer, for this session only.
    pub(super) fn update_permissions(&self, updates: &Value) {
        let Some(updates) = updates.as_array() else { return };
        for update in updates {
            let text = |key: &str| update.get(key).and_then(Value::as_str).unwrap_or_default();
            if !matches!(text("destination"), "session" | "cliArg" | "") {
                let place = text("destination");
                self.send_informational(
                    &format!("{place} is not written: zk takes this permission for the session"),
                    "warning",
                    "permission_update",
                );
            }
            let rules = update.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let rules: Option<Vec<HostRule>> = rules.iter().map(HostRule::of_answer).collect();
            match (text("type"), rules) {
                ("addRules" | "replaceRules", Some(rules)) if text("behavior") == "allow" => {
                    self.known().rules.extend(rules);
                }
                ("removeRules", Some(rules)) => self.known().rules.retain(|rule| !rules.contains(rule)),
                ("setMode", _) => _ = self.set_mode(text("mode")),
                (kind, _) => {
                    self.send_informational(
                        &format!("{kind} has no effect: zk cannot do it within a session"),
                        "warning",
                        "permission_update",
                    );
                }
            }
        }
    }

    /// Changes the permission mode of the conversation.
    pub(super) fn set_mode(&self, mode: &str) -> Result<(), String> {
        let unknown = || {
            "Cannot set permission mode: must be one of acceptEdits, auto, bypassPermissions, default, dontAsk, plan"
                .to_owned()
        };
        let zk = zk_mode(mode).ok_or_else(unknown)?;
        let args = self.args();
        let may_skip = args.has("allow-dangerously-skip-permissions")
            || args.has("dangerously-skip-permissions")
            || args.text("permission-mode") == Some("bypassPermissions");
        if mode == "bypassPermissions" && self.known().asking.keeps_asking {
            return Err(
                "Cannot set permission mode to bypassPermissions because the settings of the host forbid it"
                    .to_owned(),
            );
        }
        if mode == "bypassPermissions" && !may_skip {
            return Err(
                "Cannot set permission mode to bypassPermissions because the session was not launched with \
                        --dangerously-skip-permissions"
                    .to_owned(),
            );
        }
        let modes = self.modes().ok_or("this conversation has no permission modes")?;
        modes.choose_by_name(zk).map_err(|error| error.to_string())?;
        {
            let mut known = self.known();
            let before = std::mem::replace(&mut known.mode, mode.to_owned());
            if mode != PLAN {
                known.asking.before_plan = None;
            } else if before != PLAN {
                known.asking.before_plan = Some(before);
            }
        }
        self.send(json!({"type": "system", "subtype": "status", "status": null, "permissionMode": mode}));
        Ok(())
    }
}

fn permission_request(approval: &Approval, call: &str, tool: &str, input: &Value) -> Value {
    let mut request = json!({
        "subtype": "can_use_tool",
        "tool_name": tool,
        "display_name": tool,
        "input": input,
        "tool_use_id": call,
        "permission_suggestions": suggestions(tool, input),
    });
    let Some(fields) = request.as_object_mut() else { return request };
    if let Some(text) = input.get("description").and_then(Value::as_str) {
        fields.insert("description".to_owned(), text.into());
    }
    if let Some(place) = approval.effects.locations().first() {
        fields.insert("blocked_path".to_owned(), place.path.display().to_string().into());
    }
    if !approval.reasons.is_empty() {
        fields.insert("decision_reason".to_owned(), approval.reasons.join("\n").into());
    }
    request
}

/// Whether a rule of the host may answer in its place. A call that leaves the sandbox or has further
/// arguments, such as running in the background, is always asked about.
fn is_coverable(approval: &Approval, tool: &str, input: &Value) -> bool {
    let is_plain = |name: &String| matches!(name.as_str(), "command" | "timeout" | "description");
    let is_all_said = tool != "Bash" || input.as_object().is_some_and(|fields| fields.keys().all(is_plain));
    is_all_said && !approval.effects.leaves_context()
}

/// Returns permission updates with which the host can avoid similar questions.
fn suggestions(tool: &str, input: &Value) -> Vec<Value> {
    let named = match tool {
        "Bash" => input.get("command"),
        "Read" => input.get("file_path"),
        _ => None,
    };
    let rule = match named.and_then(Value::as_str) {
        Some(named) => json!({"toolName": tool, "ruleContent": named}),
        None => json!({"toolName": tool}),
    };
    let mode = json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"});
    let rule = json!({"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"});
    if matches!(tool, "Write" | "Edit" | "MultiEdit") { vec![mode] } else { vec![rule] }
}

/// Refuses calls that leave the sandbox, where the host wants every command in it.
pub(super) struct ClosedSandbox;

impl Plugin for ClosedSandbox {
    fn name(&self) -> &'static str {
        "agent-sdk-closed-sandbox"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let first =
            HookOptions { stage: Stage::Early, reach: Some(Reach::Descendants), ..HookOptions::default() };
        scope.handle_at::<ToolGate, _>(first, Arc::new(Self));
        Ok(())
    }
}

impl Handler<ToolGate> for ClosedSandbox {
    async fn call(&self, gate: &ToolGate, _: &Cx) -> Answer<ToolGate> {
        Ok(gate.effects.leaves_context().then(|| Ruling::refuse(STAYS_INSIDE)))
    }
}

/// Handler that runs a call with the host's arguments as a new call, through all gates.
pub(super) struct ChangedCalls(pub(super) Arc<Host>);

impl Plugin for ChangedCalls {
    fn name(&self) -> &'static str {
        "agent-sdk-changed-calls"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let last = HookOptions {
            stage: Stage::Late,
            reach: Some(Reach::Descendants),
            time_limit: Some(CHANGED_CALL_LIMIT),
        };
        scope.handle_at::<ToolGate, _>(last, Arc::new(Self(self.0.clone())));
        Ok(())
    }
}

impl Handler<ToolGate> for ChangedCalls {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        let id = gate.call.call_id.as_str();
        let Some(replacement) = self.0.known().replacements.remove(id) else { return Ok(None) };
        let Some(tool) = gate.tool.clone().filter(|_| !gate.is_decided()) else { return Ok(None) };
        let place = ToolCx {
            cx: cx.clone(),
            call_id: gate.call.call_id.clone(),
            cwd: gate.place.cwd.clone(),
            progress: Progress::default(),
        };
        let ran = place.run(tool, replacement.args.clone()).await;
        // If no question was asked, the prepared answer is discarded.
        self.0.known().decided.retain(|decided| *decided != replacement);
        Ok(Some(match ran {
            Ok(end) if end.result.is_error => Ruling::Refuse(end.result.content.to_text()),
            Ok(end) => Ruling::Substitute(ToolOutput {
                content: end.result.content,
                display: end.display,
                details: end.details,
            }),
            Err(why) => Ruling::Refuse(why.to_string()),
        }))
    }
}

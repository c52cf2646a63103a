//! Callbacks of the host as hooks: the plugin of command hooks runs them, and each command is the id of a callback.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use zk_core::service::{
    Exec, ExecError, ExecRequest, Exit, KillSignal, OutputStream, Process, ProcessEvent, TerminalSize,
};
use zk_hooks::{CommandHooks, HookEvent, HookSet, HookSource};

use super::host::Host;
use super::wire::fresh_uuid;

/// Exit code with which a hook refuses.
const BLOCK: i32 = 2;

/// Returns the plugin for the host's hook callbacks; `None` if there are none.
///
/// # Errors
/// A sentence about hooks that make no sense.
pub(super) fn plugin(host: &Arc<Host>) -> Result<Option<CommandHooks>, String> {
    let asked = host.asked("hooks").unwrap_or_default();
    let Some(events) = asked.as_object() else { return Ok(None) };
    let (mut table, mut blocking) = (Map::new(), BTreeSet::new());
    for (event, groups) in events.iter().filter(|(event, _)| HookEvent::named(event).is_some()) {
        let groups = groups.as_array().map(Vec::as_slice).unwrap_or_default();
        let read: Vec<Value> = groups.iter().map(|group| read_group(group, &mut blocking)).collect();
        table.insert(event.clone(), read.into());
    }
    let source = HookSource { place: "the SDK host".to_owned(), is_claude: true, may_allow: true };
    let set = HookSet::read(&Value::Object(table), source).map_err(|error| error.to_string())?;
    if set.is_empty() {
        return Ok(None);
    }
    let (modes, notices) = (host.clone(), host.clone());
    let exec = CallbackExec { host: host.clone(), blocking: Arc::new(blocking) };
    Ok(Some(
        CommandHooks::new(set, &host.options.cwd)
            .named("hook-callbacks")
            .exec(Arc::new(exec))
            .permission_mode(move || modes.known().mode.clone())
            .on_notice(move |text| notices.send_informational(text, "info", "hook")),
    ))
}

/// Returns the plugin for command hooks in the host's settings; `None` if there are none. The commands run on
/// this machine.
///
/// # Errors
/// A sentence about hooks that make no sense.
pub(super) fn of_settings(
    host: &Arc<Host>,
    hooks: &Map<String, Value>,
) -> Result<Option<CommandHooks>, String> {
    let source =
        HookSource { place: "the settings of the SDK host".to_owned(), is_claude: true, may_allow: true };
    let set = HookSet::read(&Value::Object(hooks.clone()), source).map_err(|error| error.to_string())?;
    host.known().notices.extend(set.warnings.iter().cloned());
    if set.is_empty() {
        return Ok(None);
    }
    let (modes, notices) = (host.clone(), host.clone());
    let hooks = CommandHooks::new(set, &host.options.cwd)
        .named("host-hooks")
        .exec(host.options.own_programs.clone())
        .permission_mode(move || modes.known().mode.clone())
        .on_notice(move |text| notices.send_informational(text, "info", "hook"));
    Ok(Some(if host.options.works_elsewhere { hooks.staying() } else { hooks }))
}

fn read_group(group: &Value, blocking: &mut BTreeSet<String>) -> Value {
    let ids = group.get("hookCallbackIds").and_then(Value::as_array).into_iter().flatten();
    let ids: Vec<&str> = ids.filter_map(Value::as_str).collect();
    if group.get("onFailure").is_some_and(|on| on == "block") {
        blocking.extend(ids.iter().map(|id| (*id).to_owned()));
    }
    let timeout = group.get("timeout").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0);
    let hook = |id: &&str| match timeout {
        Some(seconds) => json!({"type": "command", "command": id, "timeout": seconds.min(3600.0)}),
        None => json!({"type": "command", "command": id}),
    };
    let hooks: Vec<Value> = ids.iter().map(hook).collect();
    json!({"matcher": group.get("matcher").and_then(Value::as_str).unwrap_or_default(), "hooks": hooks})
}

/// Executor that calls a callback of the host instead of running a command.
struct CallbackExec {
    host: Arc<Host>,
    /// Callbacks whose failure counts as a refusal.
    blocking: Arc<BTreeSet<String>>,
}

#[async_trait]
impl Exec for CallbackExec {
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        let callback = request.args.last().map(|id| id.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Box::new(Callback {
            blocks: self.blocking.contains(&callback),
            host: self.host.clone(),
            callback,
            input: Vec::new(),
            step: Step::Reading,
        }))
    }
}

struct Callback {
    host: Arc<Host>,
    callback: String,
    blocks: bool,
    input: Vec<u8>,
    step: Step,
}

enum Step {
    Reading,
    Waiting(oneshot::Receiver<Said>),
    Exited(i32),
    Over,
}

/// Output and exit code that stand for a callback's answer.
struct Said {
    stream: OutputStream,
    bytes: Vec<u8>,
    code: i32,
}

impl Said {
    fn text(text: String, code: i32) -> Self {
        let stream = if code == 0 { OutputStream::Stdout } else { OutputStream::Stderr };
        Self { stream, bytes: text.into_bytes(), code }
    }
}

#[async_trait]
impl Process for Callback {
    async fn next(&mut self) -> Result<Option<ProcessEvent>, ExecError> {
        match &mut self.step {
            Step::Reading => std::future::pending().await,
            Step::Waiting(answer) => {
                // Without an answer the call is refused: a lost hook must not allow it.
                let said =
                    answer.await.unwrap_or_else(|_| Said::text("its answer was lost".to_owned(), BLOCK));
                self.step = Step::Exited(said.code);
                Ok(Some(ProcessEvent::Output(said.stream, said.bytes)))
            }
            Step::Exited(code) => {
                let code = *code;
                self.step = Step::Over;
                Ok(Some(ProcessEvent::Exited(Exit::Code(code))))
            }
            Step::Over => Ok(None),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ExecError> {
        self.input.extend_from_slice(bytes);
        Ok(())
    }

    async fn close_input(&mut self) -> Result<(), ExecError> {
        if matches!(self.step, Step::Reading) {
            let (said, answer) = oneshot::channel();
            let input = serde_json::from_slice(&self.input).unwrap_or_default();
            let (host, callback, blocks) = (self.host.clone(), self.callback.clone(), self.blocks);
            tokio::spawn(async move {
                let mut said = said;
                let calling = host.call_callback(&callback, input, blocks);
                tokio::select! {
                    answer = calling => { let _ = said.send(answer); }
                    () = said.closed() => {}
                }
            });
            self.step = Step::Waiting(answer);
        }
        Ok(())
    }

    async fn resize(&mut self, _: TerminalSize) -> Result<(), ExecError> {
        Ok(())
    }

    async fn kill(&mut self, _: KillSignal) -> Result<(), ExecError> {
        self.step = Step::Over;
        Ok(())
    }

    fn release(self: Box<Self>) {}

    async fn members(&mut self) -> Result<Vec<u32>, ExecError> {
        Ok(Vec::new())
    }
}

impl Host {
    async fn call_callback(&self, callback: &str, mut input: Value, blocks: bool) -> Said {
        let event = input.get("hook_event_name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let call = input.get("tool_use_id").and_then(Value::as_str).map(str::to_owned);
        if let Some(fields) = input.as_object_mut() {
            fields.insert("session_id".to_owned(), self.known().session.clone().into());
            let path = self.transcripts.path(&self.known().session);
            fields.insert("transcript_path".to_owned(), path.display().to_string().into());
            if let Some((name, made)) = call.as_deref().and_then(|call| self.names.call_as_made(call)) {
                fields.insert("tool_name".to_owned(), name.into());
                // Arguments that a gate changed are kept; others are given as the model wrote them.
                if fields.get("tool_input").is_some_and(|input| is_part(input, &made)) {
                    fields.insert("tool_input".to_owned(), made);
                }
            } else if let Some(name) = fields.get("tool_name").and_then(Value::as_str) {
                let name = self.names.to_sdk_name(name);
                fields.insert("tool_name".to_owned(), name.into());
            }
        }
        let tool = input.get("tool_name").and_then(Value::as_str).map(str::to_owned);
        let name = tool.map_or_else(|| event.clone(), |tool| format!("{event}:{tool}"));
        let hook = fresh_uuid();
        let shows = self.args().has("include-hook-events");
        if shows {
            self.send(json!({"type": "system", "subtype": "hook_started", "hook_id": hook, "hook_name": name, "hook_event": event}));
        }
        let request = json!({
            "subtype": "hook_callback",
            "callback_id": callback,
            "input": input,
            "tool_use_id": call.unwrap_or_else(fresh_uuid),
        });
        let said = match self.channel.ask(request).await {
            Ok(answer) if answer.as_object().is_some_and(Map::is_empty) => Said::text(String::new(), 0),
            Ok(answer) => Said::text(answer.to_string(), 0),
            Err(why) => {
                let text = format!("{event}: Hook callback {callback} failed: {why}");
                self.send_informational(&text, "warning", "hook_callback_failed");
                Said::text(if blocks { text } else { String::new() }, if blocks { BLOCK } else { 0 })
            }
        };
        if shows {
            let text = String::from_utf8_lossy(&said.bytes).into_owned();
            self.send(json!({
                "type": "system", "subtype": "hook_response", "hook_id": hook, "hook_name": name, "hook_event": event,
                "output": text, "stdout": text, "stderr": "", "exit_code": said.code, "outcome": "success",
            }));
        }
        said
    }
}

/// Whether `whole` has all fields of `part` with the same values.
fn is_part(part: &Value, whole: &Value) -> bool {
    match part.as_object() {
        Some(fields) => fields.iter().all(|(name, value)| whole.get(name) == Some(value)),
        None => part == whole,
    }
}

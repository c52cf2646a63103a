use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use zk_core::model::{
    Approved, CallKind, Concurrency, Display, Effects, ToolError, ToolErrorKind, ToolOutput, ToolSpec,
};
use zk_core::service::{CallPlace, Tool, ToolCx};

use super::launch::format_turn_count;
use super::record;
use super::subagents::{Ending, Handle, SubagentInfo, SubagentState, Subagents};
use crate::agent::AgentInner;

/// Name of the tool with which an agent follows its sub-agents.
pub(super) const NAME: &str = "agents";

const ABOUT: &str = "Your sub-agents: status of all; wait for one and get its result; get the result of one that ended; stop \
     one; message one, or `parent`; read your inbox.";

/// Default and maximum time that a call waits for a sub-agent, in seconds.
const DEFAULT_WAIT_SECONDS: u64 = 60;
const MAX_WAIT_SECONDS: u64 = 600;

/// Name under which an agent addresses its parent.
const PARENT: &str = "parent";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Status,
    Wait,
    Result,
    Stop,
    Message,
    Inbox,
}

#[derive(Debug, Deserialize)]
struct Args {
    action: Action,
    agent: Option<String>,
    text: Option<String>,
    seconds: Option<u64>,
}

/// Tool with which an agent lists, awaits, stops and messages its sub-agents, and reads its inbox.
pub(super) struct AgentsTool {
    spec: Arc<ToolSpec>,
    subagents: Arc<Subagents>,
    agent: Weak<AgentInner>,
    /// Name of the agent that uses the tool, as the sender of its messages.
    name: String,
    parent: Option<String>,
}

impl AgentsTool {
    pub(super) fn new(agent: &Arc<AgentInner>, subagents: Arc<Subagents>, parent: Option<String>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["status", "wait", "result", "stop", "message", "inbox"]},
                "agent": {"type": "string", "description": "Its name, as `spawn` gave it"},
                "text": {"type": "string", "description": "Of the message"},
                "seconds": {"type": "integer", "minimum": 1, "description": "To wait at most, default 60"},
            },
            "required": ["action"],
        });
        let name = agent.bus.origin().agent.to_string();
        Self {
            spec: ToolSpec::new(NAME, ABOUT, schema),
            subagents,
            agent: Arc::downgrade(agent),
            name,
            parent,
        }
    }

    fn find_child(&self, name: Option<&str>) -> Result<Arc<Handle>, ToolError> {
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Err(ToolError::invalid("name a sub-agent with `agent`; `status` shows them"));
        };
        let children = self.subagents.children_of(&self.name);
        children.iter().rev().find(|handle| handle.name == name).cloned().ok_or_else(|| {
            let names: Vec<&str> = children.iter().map(|handle| handle.name.as_str()).collect();
            let known = match names.as_slice() {
                [] => "you have started none".to_owned(),
                names => format!("yours are {}", names.join(", ")),
            };
            ToolError::new(ToolErrorKind::NotFound, format!("you have no sub-agent `{name}`; {known}"))
        })
    }

    /// Returns the result of an ended sub-agent, and records that its parent has read it.
    async fn read_result(&self, handle: &Handle, ending: &Ending) -> ToolOutput {
        if handle.claim_report()
            && handle.is_background
            && let Some(agent) = self.agent.upgrade()
        {
            record::record_told(&agent, &handle.name).await;
        }
        let state = describe_state(&ending.state);
        let text = format!("({}: {state})\n{}", handle.name, ending.text);
        ToolOutput::text(text).with_display(Display::Line { text: format!("{} {state}", handle.name) })
    }

    fn send_message(&self, to: Option<&str>, text: Option<&str>) -> Result<String, ToolError> {
        let text = text.filter(|text| !text.trim().is_empty());
        let text = text.ok_or_else(|| ToolError::invalid("`text` is empty; say what the message is"))?;
        let to = if to == Some(PARENT) {
            self.parent.clone().ok_or_else(|| {
                ToolError::new(ToolErrorKind::NotFound, "you have no parent: a person reads your answers")
            })?
        } else {
            let handle = self.find_child(to)?;
            if !handle.reads_mail {
                let why = "has not the tool `agents`, so it cannot read messages";
                return Err(ToolError::failed(format!("{} {why}", handle.name)));
            }
            handle.name.clone()
        };
        self.subagents
            .mail
            .send(&self.name, &to, text)
            .map_err(|error| ToolError::failed(error.to_string()))?;
        Ok(format!("{to} can read it in its inbox"))
    }
}

#[async_trait]
impl Tool for AgentsTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let Args { action, agent, text, seconds } = call.parse()?;
        let text = match action {
            Action::Status => {
                let all = self.subagents.children(&self.name);
                return Ok(ToolOutput::text(state_list(&all)).with_display(state_table(&all)));
            }
            Action::Wait => {
                let handle = self.find_child(agent.as_deref())?;
                let _awaited = handle.await_end();
                let most = seconds.unwrap_or(DEFAULT_WAIT_SECONDS).clamp(1, MAX_WAIT_SECONDS);
                let ended = tokio::select! {
                    ended = timeout(Duration::from_secs(most), handle.wait_for_end()) => ended.ok().flatten(),
                    () = cx.cx.stop_token().cancelled() => {
                        return Err(ToolError::new(ToolErrorKind::Aborted, "stopped while it waited"));
                    }
                };
                match ended {
                    Some(ending) => return Ok(self.read_result(&handle, &ending).await),
                    None => format!("{} still works after {most} s", handle.name),
                }
            }
            Action::Result => {
                let handle = self.find_child(agent.as_deref())?;
                match handle.ending() {
                    Some(ending) => return Ok(self.read_result(&handle, &ending).await),
                    None => format!("{} still works; `wait` waits for its result", handle.name),
                }
            }
            Action::Stop => {
                let handle = self.find_child(agent.as_deref())?;
                let _awaited = handle.await_end();
                // Stopping fails only if the sub-agent has ended already.
                let _ = self.subagents.stop(&handle.name, "stopped by the agent that started it");
                tokio::select! {
                    ended = handle.wait_for_end() => match ended {
                        Some(ending) => return Ok(self.read_result(&handle, &ending).await),
                        None => format!("{} is asked to end", handle.name),
                    },
                    () = cx.cx.stop_token().cancelled() => {
                        return Err(ToolError::new(ToolErrorKind::Aborted, "stopped while it waited"));
                    }
                }
            }
            Action::Message => self.send_message(agent.as_deref(), text.as_deref())?,
            Action::Inbox => {
                let letters = self.subagents.mail.take(&self.name);
                let line = |letter: &super::mailbox::Letter| format!("from {}: {}", letter.from, letter.text);
                match letters.as_slice() {
                    [] => "no unread messages".to_owned(),
                    letters => letters.iter().map(line).collect::<Vec<_>>().join("\n\n"),
                }
            }
        };
        let display = Display::Lines { lines: text.lines().map(str::to_owned).collect() };
        Ok(ToolOutput::text(text).with_display(display))
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Delegate)
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    /// The tool has no effects itself: the calls of sub-agents pass the gates.
    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    fn summary(&self, args: &Value) -> String {
        let text = |key: &str| args.get(key).and_then(Value::as_str).unwrap_or_default();
        format!("{NAME} {} {}", text("action"), text("agent")).trim_end().to_owned()
    }
}

/// Describes the state of a sub-agent in a few words.
pub(super) fn describe_state(state: &SubagentState) -> String {
    match state {
        SubagentState::Running => "works".to_owned(),
        SubagentState::Done => "done".to_owned(),
        SubagentState::Failed(why) => format!("failed: {why}"),
        SubagentState::Stopped(why) => format!("stopped: {why}"),
    }
}

fn state_list(all: &[SubagentInfo]) -> String {
    let line = |info: &SubagentInfo| {
        let place = if info.is_background { ", in the background" } else { "" };
        let (name, state, task) = (&info.name, describe_state(&info.state), &info.task);
        let turns = format_turn_count(info.turns);
        let seconds = info.elapsed.as_secs();
        format!("{name}  {state}{place}; {turns}, {seconds} s: {task}")
    };
    match all {
        [] => "(no sub-agents; `spawn` starts one)".to_owned(),
        all => all.iter().map(line).collect::<Vec<_>>().join("\n"),
    }
}

fn state_table(all: &[SubagentInfo]) -> Display {
    if all.is_empty() {
        return Display::Line { text: "no sub-agents".to_owned() };
    }
    let row = |info: &SubagentInfo| {
        vec![info.name.clone(), describe_state(&info.state), info.turns.to_string(), info.task.clone()]
    };
    let head = ["agent", "state", "turns", "task"].map(str::to_owned).to_vec();
    Display::Table { head, rows: all.iter().map(row).collect() }
}

//! Prompts of the host, one after the other: each a turn with its own first and last line.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use zk_agent::{Behavior, RunOptions, RunOutcome};
use zk_chat::{HostedConversation, HostedOutcome, LaunchSession, OWN_COMMANDS};
use zk_core::model::{AgentError, Block, Document, Image};
use zk_core::service::{Conversation, Tool};

use super::host::{Host, TurnState};
use super::result::{Counted, Ended, provider_error_text};
use super::wire::{fresh_uuid, now};

/// Commands of zk that a host may send as a prompt.
const OWN_COMMANDS_OF_HOSTS: [&str; 6] = ["context", "cost", "help", "init", "review", "status"];

/// Commands of other crates that only a person may run.
const COMMANDS_OF_PERSONS: [&str; 2] = ["backend", "mcp"];

/// Prompt as the host sent it.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    pub(super) content: Value,
    pub(super) uuid: Option<String>,
    pub(super) origin: Option<Value>,
}

impl Prompt {
    /// Parses a line with a prompt.
    pub(super) fn read(line: &Value) -> Option<Self> {
        let message = line.get("message")?;
        if message.get("role").is_some_and(|role| role != "user") {
            return None;
        }
        Some(Self {
            content: message.get("content")?.clone(),
            uuid: line.get("uuid").and_then(Value::as_str).map(str::to_owned),
            origin: line.get("origin").filter(|origin| origin.is_object()).cloned(),
        })
    }

    /// Returns the text of a prompt that consists of one text.
    fn text(&self) -> Option<&str> {
        match &self.content {
            Value::String(text) => Some(text),
            Value::Array(blocks) => match blocks.as_slice() {
                [only] if only.get("type").is_some_and(|kind| kind == "text") => only.get("text")?.as_str(),
                _ => None,
            },
            _ => None,
        }
    }

    fn blocks(&self) -> Vec<Block> {
        match &self.content {
            Value::String(text) => vec![Block::text(text.as_str())],
            Value::Array(blocks) => blocks.iter().map(block).collect(),
            other => vec![Block::text(other.to_string())],
        }
    }
}

fn block(content: &Value) -> Block {
    let text = |at: &str| content.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    match (text("/type").as_str(), text("/source/type").as_str()) {
        ("text", _) => Block::text(text("/text")),
        ("image", "base64") => Block::Image(Image::new(text("/source/media_type"), text("/source/data"))),
        ("document", "base64") => Block::Document(Document {
            media_type: text("/source/media_type"),
            name: content.get("title").and_then(Value::as_str).map(str::to_owned),
            data: text("/source/data"),
        }),
        _ => Block::text(content.to_string()),
    }
}

/// Answers prompts in order until their sender is dropped. Returns whether the last one succeeded.
pub(super) async fn serve_prompts(host: Arc<Host>, mut prompts: UnboundedReceiver<Prompt>) -> bool {
    let mut went_well = true;
    let mut is_idle = true;
    while let Some(prompt) = prompts.recv().await {
        let Some(hosted) = host.conversation().await else { return false };
        if std::mem::take(&mut is_idle) {
            host.send_state("running");
        }
        went_well = host.run_turn(&hosted, prompt).await;
        if prompts.is_empty() {
            is_idle = true;
            host.send_state("idle");
        }
    }
    went_well
}

impl Host {
    async fn run_turn(self: &Arc<Self>, hosted: &Arc<HostedConversation>, prompt: Prompt) -> bool {
        let began = Instant::now();
        self.known().turn = TurnState::default();
        if let (true, Some(uuid)) = (self.args().has("replay-user-messages"), &prompt.uuid) {
            self.send(json!({
                "type": "user", "message": {"role": "user", "content": prompt.content}, "uuid": uuid,
                "parent_tool_use_id": null, "timestamp": now(), "isReplay": true,
            }));
        }
        let command = prompt.text().filter(|text| text.starts_with('/')).map(str::to_owned);
        let blocks = match command {
            Some(line) => match self.command(hosted, &line).await {
                Some(Ok(None)) => return self.end_turn(hosted, &Ended::said(""), &prompt, began),
                Some(Ok(Some(HostedOutcome::Prompt(text)))) => vec![Block::text(text)],
                Some(Ok(Some(HostedOutcome::Said(text)))) => {
                    self.send_own_answer(&text, None);
                    return self.end_turn(hosted, &Ended::said(text), &prompt, began);
                }
                Some(Ok(Some(_))) => return self.end_turn(hosted, &Ended::said(""), &prompt, began),
                Some(Err(why)) => {
                    self.send_own_answer(&why, None);
                    return self.end_turn(hosted, &Ended::said(why), &prompt, began);
                }
                None => prompt.blocks(),
            },
            None => prompt.blocks(),
        };
        let behavior = Behavior {
            max_turns: self.args().number("max-turns"),
            schema: self.schema(),
            ..Behavior::default()
        };
        let run = hosted.conversation().run(RunOptions::prompt(blocks).behavior(behavior)).await;
        let outcome = match run {
            Ok(run) => run.wait().await,
            Err(error) => return self.end_turn(hosted, &Ended::failed(error.to_string()), &prompt, began),
        };
        self.end_run(hosted, &outcome, &prompt, began)
    }

    /// JSON Schema of the answer.
    fn schema(&self) -> Option<Value> {
        let given = self.args().text("json-schema").and_then(|text| serde_json::from_str(text).ok());
        given.or_else(|| self.asked("jsonSchema")).filter(Value::is_object)
    }

    fn end_run(
        &self,
        hosted: &HostedConversation,
        outcome: &RunOutcome,
        prompt: &Prompt,
        began: Instant,
    ) -> bool {
        self.send_late_init(hosted);
        if let Err(AgentError::Provider(error) | AgentError::ContextExceeded(error)) = &outcome.result {
            self.send_own_answer(&provider_error_text(error), Some(error.kind.as_str()));
        }
        let (ended, open, begun) = {
            let mut known = self.known();
            let (open, begun) =
                (std::mem::take(&mut known.turn.open_calls), std::mem::take(&mut known.turn.begun_text));
            (Ended::of(outcome, &known.turn), open, begun)
        };
        if matches!(outcome.result, Err(AgentError::Aborted)) && ended.is_error {
            if ended.reason == Some("aborted_streaming") && !begun.is_empty() {
                let content = json!([{"type": "text", "text": begun}]);
                self.send(json!({
                    "type": "assistant", "parent_tool_use_id": null, "timestamp": now(), "aborted": true,
                    "message": {
                        "id": fresh_uuid(), "type": "message", "role": "assistant", "content": content,
                        "model": hosted.agent().model().id, "stop_reason": null, "stop_sequence": null,
                        "usage": super::output::usage_line(&zk_core::model::Usage::default()),
                    },
                }));
            }
            for call in open {
                self.send_interrupted_result(&call);
            }
            let of_tool = if ended.reason == Some("aborted_tools") { " for tool use" } else { "" };
            let text = format!("[Request interrupted by user{of_tool}]");
            self.send(json!({
                "type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]},
                "parent_tool_use_id": null, "timestamp": now(),
            }));
        }
        self.write_transcript(&hosted.agent().history());
        let counted = Counted { origin: prompt.origin.clone(), ..Counted::of(outcome) };
        self.send_result(&ended, counted, began);
        !ended.is_error
    }

    fn send_interrupted_result(&self, call: &str) {
        let result = json!({"type": "tool_result", "tool_use_id": call, "content": "The call was interrupted.", "is_error": true});
        self.send(json!({
            "type": "user", "message": {"role": "user", "content": [result]}, "parent_tool_use_id": null,
            "timestamp": now(), "tool_use_result": "User rejected tool use",
        }));
    }

    /// Ends a turn without a request to a model.
    fn end_turn(&self, hosted: &HostedConversation, ended: &Ended, prompt: &Prompt, began: Instant) -> bool {
        self.send_late_init(hosted);
        self.write_transcript(&hosted.agent().history());
        let counted = Counted { origin: prompt.origin.clone(), ..Counted::default() };
        self.send_result(ended, counted, began);
        !ended.is_error
    }

    /// Sends the first line of a turn that starts no run.
    fn send_late_init(&self, hosted: &HostedConversation) {
        let agent = self.present().map_or_else(|| hosted.agent(), |hosted| hosted.agent());
        let tools: Vec<String> =
            agent.bus().items::<dyn Tool>().iter().map(|tool| tool.name.to_string()).collect();
        self.send_init(Some(&agent), &tools);
    }

    /// Sends an answer of zk itself.
    fn send_own_answer(&self, text: &str, error: Option<&str>) {
        if let Some(hosted) = self.present() {
            self.send_late_init(&hosted);
        }
        let mut line = json!({
            "type": "assistant",
            "message": {
                "id": fresh_uuid(), "type": "message", "role": "assistant", "model": "<synthetic>",
                "content": [{"type": "text", "text": text}], "stop_reason": "stop_sequence", "stop_sequence": "",
                "usage": super::output::usage_line(&zk_core::model::Usage::default()),
            },
            "parent_tool_use_id": null,
            "timestamp": now(),
        });
        if let (Some(error), Some(fields)) = (error, line.as_object_mut()) {
            fields.insert("error".to_owned(), error.into());
        }
        self.send(line);
    }

    /// Runs a command. Returns `None` for a line that is no command, which the model gets.
    async fn command(
        self: &Arc<Self>,
        hosted: &Arc<HostedConversation>,
        line: &str,
    ) -> Option<Result<Option<HostedOutcome>, String>> {
        let name = line.trim_start_matches('/').split_whitespace().next().unwrap_or_default();
        match name {
            "clear" | "reset" | "new" => Some(self.clear(hosted).await.map(|()| None)),
            "compact" => Some(self.compact(hosted, line).await.map(|()| None)),
            // Only a person at a terminal may run a command that widens permissions or writes outside of
            // calls.
            _ if COMMANDS_OF_PERSONS.contains(&name) => None,
            _ if OWN_COMMANDS.contains(&name) && !OWN_COMMANDS_OF_HOSTS.contains(&name) => None,
            _ if self.known().commands.iter().any(|known| known.split(' ').next() == Some(name)) => {
                Some(hosted.run_command(line).await.map(Some))
            }
            _ => None,
        }
    }

    /// Replaces this conversation by a new one.
    async fn clear(self: &Arc<Self>, hosted: &Arc<HostedConversation>) -> Result<(), String> {
        let next = self.open_session(LaunchSession::New).await?;
        let reset = fresh_uuid();
        self.send(json!({
            "type": "conversation_reset", "new_conversation_id": reset, "uuid": reset, "trigger": "clear",
            "timestamp": now(),
        }));
        self.set_conversation(Some(next));
        {
            let mut known = self.known();
            known.cost = 0.0;
            known.models.clear();
            known.rules.clear();
        }
        hosted.close().await;
        Ok(())
    }

    async fn compact(&self, hosted: &HostedConversation, line: &str) -> Result<(), String> {
        self.send_late_init(hosted);
        self.send(json!({"type": "system", "subtype": "status", "status": "compacting"}));
        let words = line.split_once(char::is_whitespace).map(|(_, words)| words.trim().to_owned());
        let done = hosted.conversation().compact(words.filter(|words| !words.is_empty())).await;
        self.send(json!({"type": "system", "subtype": "status", "status": null}));
        done.map_err(|error| error.to_string())?;
        self.send(json!({
            "type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": "manual", "pre_tokens": 0},
        }));
        Ok(())
    }
}

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_core::model::CheckState;
use zk_view::{AnswerEnd, Block, BlockId, CheckRow, Content, NoteLevel, Patch, PluginBlock, Text, View};

use super::calls;
use crate::acp::wire::Client;

/// Updates of a session, made from the patches of its view. Nothing is sent twice, even if patches come late
/// or the whole view comes again.
#[derive(Debug)]
pub(in crate::acp) struct Updates {
    view: View,
    cwd: PathBuf,
    client: Client,
    told: HashMap<BlockId, Told>,
    touched: Vec<BlockId>,
    gone: Vec<BlockId>,
    plan: Vec<CheckRow>,
    usage: Option<(u64, u64)>,
}

/// Part of a block that was sent to the editor.
#[derive(Debug, Default)]
struct Told {
    bytes: usize,
    call: Option<Map<String, Value>>,
    is_over: bool,
}

impl Updates {
    pub(in crate::acp) fn new(cwd: PathBuf, client: Client) -> Self {
        Self {
            view: View::default(),
            cwd,
            client,
            told: HashMap::new(),
            touched: Vec::new(),
            gone: Vec::new(),
            plan: Vec::new(),
            usage: None,
        }
    }

    pub(in crate::acp) fn view(&self) -> &View {
        &self.view
    }

    pub(in crate::acp) fn apply_patches(&mut self, patches: &[Patch]) {
        for patch in patches {
            let switches = self.view.switches;
            self.view.apply(patch);
            match patch {
                Patch::Reset { view } => {
                    if view.switches != switches {
                        self.told.clear();
                    }
                    self.touched.extend(view.blocks.iter().map(|block| block.id.clone()));
                }
                Patch::Open { block } | Patch::Change { block } | Patch::Close { block } => {
                    self.touched.push(block.id.clone());
                }
                Patch::Grow { id, .. } => self.touched.push(id.clone()),
                Patch::Remove { id } => self.gone.push(id.clone()),
                Patch::Body { .. }
                | Patch::Ask { .. }
                | Patch::Answered { .. }
                | Patch::Queue { .. }
                | Patch::Status { .. }
                | Patch::Agents { .. }
                | Patch::Jobs { .. }
                | Patch::Checklist { .. } => {}
            }
        }
    }

    /// Takes all updates that were not sent yet; if `replayed`, with the person's prompts.
    pub(in crate::acp) fn drain(&mut self, replayed: bool) -> Vec<Value> {
        let mut updates = Vec::new();
        let mut seen = HashSet::new();
        for id in std::mem::take(&mut self.touched) {
            if seen.insert(id.clone())
                && let Some(block) = self.view.block(&id).cloned()
            {
                self.add_updates(&block, replayed, &mut updates);
            }
        }
        for id in std::mem::take(&mut self.gone) {
            let call = self.told.remove(&id).and_then(|told| told.call);
            if call.is_some() {
                updates.push(json!({
                    "sessionUpdate": "tool_call_update", "toolCallId": id.as_str(), "status": "failed",
                }));
            }
        }
        if self.plan != self.view.checklist {
            self.plan.clone_from(&self.view.checklist);
            let entries: Vec<Value> = self.plan.iter().map(plan_entry).collect();
            updates.push(json!({ "sessionUpdate": "plan", "entries": entries }));
        }
        updates.extend(self.usage());
        updates
    }

    /// Marks everything so far as sent.
    pub(in crate::acp) fn skip(&mut self) {
        let _ = self.drain(true);
    }

    /// Returns the id of the call that a question is about: the oldest waiting call of the tool that shows
    /// one of the arguments, or else the oldest waiting one.
    pub(in crate::acp) fn waiting_call(&self, tool: &str, args: &Value) -> Option<String> {
        let waits = |block: &&Arc<Block>| match &block.content {
            Content::Call(call) => !call.state.is_over() && call.tool.as_str() == tool,
            _ => false,
        };
        let says = |block: &&Arc<Block>| match &block.content {
            Content::Call(call) => {
                let shown = call.argument.as_ref().map_or(call.summary.as_str(), Text::as_str);
                let texts = args.as_object().into_iter().flat_map(Map::values).filter_map(Value::as_str);
                texts.filter_map(|text| text.lines().next()).any(|line| shown.contains(line.trim()))
            }
            _ => false,
        };
        let all = || self.view.blocks.iter().rev().take(64).filter(waits);
        all().rfind(says).or_else(|| all().next_back()).map(|block| block.id.as_str().to_owned())
    }

    fn add_updates(&mut self, block: &Block, replayed: bool, updates: &mut Vec<Value>) {
        let chunk = |kind: &str, text: &str| {
            json!({
                "sessionUpdate": kind,
                "messageId": block.id.as_str(),
                "content": { "type": "text", "text": text },
            })
        };
        let told = self.told.entry(block.id.clone()).or_default();
        if told.is_over {
            return;
        }
        let is_own = block.agent.is_none();
        match &block.content {
            Content::Call(call) => {
                let now = calls::fields(block, call, &self.cwd);
                let (kind, mut fields) = match &told.call {
                    None => ("tool_call", now.clone()),
                    Some(before) => match calls::changes(before, &now) {
                        Some(changes) => ("tool_call_update", changes),
                        None => return,
                    },
                };
                fields.insert("sessionUpdate".into(), kind.into());
                updates.push(Value::Object(fields));
                told.call = Some(now);
                return;
            }
            Content::Thinking { text, .. } if is_own => {
                updates.extend(added_text(text, told).map(|more| chunk("agent_thought_chunk", more)));
            }
            Content::Answer { text, end } if is_own => {
                updates.extend(added_text(text, told).map(|more| chunk("agent_message_chunk", more)));
                let remark = end.remark().filter(|_| block.closed && *end != AnswerEnd::Stopped);
                updates.extend(remark.map(|remark| chunk("agent_message_chunk", &format!("\n\n({remark})"))));
            }
            Content::User { text, .. } if is_own => {
                if replayed {
                    updates.push(chunk("user_message_chunk", text.as_str()));
                }
                told.is_over = true;
            }
            Content::Provider { text } if is_own => {
                updates.extend(added_text(text, told).map(|more| chunk("agent_thought_chunk", more)));
            }
            Content::Summary { .. } if is_own && block.closed => {
                let text = "The conversation was made smaller.";
                updates.push(chunk("agent_thought_chunk", text));
            }
            Content::Plugin(shown) if block.closed => {
                updates.push(chunk("agent_message_chunk", &plugin_text(shown)));
            }
            // Notices are about the present and are not part of a replayed history.
            Content::Note { level, text } if block.closed && !replayed => {
                updates.push(match (self.client.shows_notices, level) {
                    (true, level) => json!({
                        "sessionUpdate": "notice", "severity": severity(*level), "title": text.as_str(),
                    }),
                    (false, NoteLevel::Warning) => {
                        chunk("agent_message_chunk", &format!("⚠ {}\n\n", text.as_str()))
                    }
                    (false, NoteLevel::Info) => {
                        chunk("agent_thought_chunk", &format!("{}\n\n", text.as_str()))
                    }
                });
            }
            Content::Thinking { .. }
            | Content::Answer { .. }
            | Content::User { .. }
            | Content::Provider { .. }
            | Content::Summary { .. }
            | Content::Plugin(_)
            | Content::Note { .. }
            | Content::Injected { .. }
            | Content::End(_) => {}
        }
        told.is_over |= block.closed;
    }

    /// Fill level of the context and cost so far, where they changed.
    fn usage(&mut self) -> Option<Value> {
        let gauge = self.view.status.gauge?;
        let now = (gauge.tokens, gauge.usable);
        if self.usage.replace(now) == Some(now) {
            return None;
        }
        let ended = self.view.blocks.iter().filter_map(|block| match &block.content {
            Content::End(end) => end.cost,
            _ => None,
        });
        let running = self.view.status.run_ms.and(self.view.status.cost);
        let cost: f64 = ended.chain(running).sum();
        let mut update = json!({ "sessionUpdate": "usage_update", "used": now.0, "size": now.1 });
        if let Some(update) = update.as_object_mut().filter(|_| cost > 0.0) {
            update.insert("cost".into(), json!({ "amount": cost, "currency": "USD" }));
        }
        Some(update)
    }
}

/// Returns the text added since the last update.
fn added_text<'a>(text: &'a Text, told: &mut Told) -> Option<&'a str> {
    let more = text.as_str().get(told.bytes..).filter(|more| !more.is_empty())?;
    told.bytes = text.as_str().len();
    Some(more)
}

fn plugin_text(shown: &PluginBlock) -> String {
    let lines = shown.body.lines.iter().map(Text::as_str).collect::<Vec<_>>().join("\n");
    format!("**{}**\n\n{}\n\n", shown.title.as_str(), calls::fenced(&lines, ""))
}

fn severity(level: NoteLevel) -> &'static str {
    match level {
        NoteLevel::Info => "info",
        NoteLevel::Warning => "warning",
    }
}

fn plan_entry(row: &CheckRow) -> Value {
    let status = match row.state {
        CheckState::Open => "pending",
        CheckState::Current => "in_progress",
        CheckState::Done => "completed",
    };
    json!({ "content": row.text.as_str(), "priority": "medium", "status": status })
}

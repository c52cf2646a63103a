use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use serde::{Deserialize, Serialize};
use zk_core::events::SessionLoaded;
use zk_core::kernel::{Cx, Reach, Scope};
use zk_core::model::{Message, ToolError};
use zk_core::service::{Entry, EntryKind, NewEntry, SessionLog, SubAgentTexts};

use super::launch::{MAX_NOTICE_BYTES, end_notice};
use super::subagents::Subagents;
use crate::agent::AgentInner;
use crate::run::SUB_AGENTS;

/// Kind of the session entries about background sub-agents.
const KIND: &str = "background-agent";
/// Version of the data in these session entries.
const VERSION: u32 = 1;

/// Session entry about a background sub-agent: started, ended or reported to its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
enum Step {
    /// The sub-agent ended, and its parent has not received this notice yet.
    Began { agent: String, task: String },
    /// The parent has received the result.
    Ended { agent: String, notice: String },
    /// The parent has read the result.
    Told { agent: String },
}

/// Records the start of a background sub-agent, so that the parent learns of it even if zk dies.
pub(super) async fn record_begin(parent: &Arc<AgentInner>, name: &str, task: &str) -> Result<(), ToolError> {
    let task = task.lines().next().unwrap_or_default().to_owned();
    append_step(parent, Step::Began { agent: name.to_owned(), task }).await.map_err(|error| {
        ToolError::failed(format!(
            "the session cannot record a sub-agent in the background: {error}. Delegate without `background`, or do it yourself"
        ))
    })
}

/// Records the end of a sub-agent, with the notice that its parent should receive.
pub(super) async fn record_end(parent: &Arc<AgentInner>, name: &str, notice: &str) {
    let step = Step::Ended { agent: name.to_owned(), notice: notice.to_owned() };
    // Without the entry, a later process reports the sub-agent as cut off; this process notifies the parent
    // anyway.
    let _ = append_step(parent, step).await;
}

/// Records that a parent has received the result from a call.
pub(super) async fn record_told(parent: &Arc<AgentInner>, name: &str) {
    // Without the entry, the parent is notified again after a restart.
    let _ = append_step(parent, Step::Told { agent: name.to_owned() }).await;
}

async fn append_step(parent: &Arc<AgentInner>, step: Step) -> Result<(), String> {
    let cx = parent.bus.cx();
    // A sub-agent has no session of its own, and its background sub-agents end with it.
    let log = cx.service::<dyn SessionLog>().filter(|_| cx.origin().depth == 0);
    let Some(log) = log else { return Ok(()) };
    let data = serde_json::to_value(step).map_err(|error| error.to_string())?;
    let entry = NewEntry::hidden(KIND, VERSION, data);
    let scope = parent.bus.scope(SUB_AGENTS);
    log.append(&scope, entry).await.map(drop).map_err(|error| error.to_string())
}

/// Sends the agent of a restored conversation the notices about its background sub-agents that it has not
/// received.
pub(super) fn queue_notices_after_restore(agent: Weak<AgentInner>, subagents: Arc<Subagents>, scope: &Scope) {
    scope.on_sync_at(Reach::Own, move |loaded: &SessionLoaded, _: &Cx| {
        let Some(agent) = agent.upgrade() else { return };
        let Restored { names, owed } = Restored::read(&loaded.entries);
        agent.sub_agents.fetch_max(names, std::sync::atomic::Ordering::AcqRel);
        let context = agent.state().context.clone();
        let present = |owed: Owed| match subagents.find(&owed.agent).ok().filter(|_| owed.is_cut) {
            // Another branch of the same session was loaded, and the sub-agent still runs in this process.
            Some(handle) => {
                handle.move_to(context.clone());
                let ending = handle.ending()?;
                handle.claim_report();
                Some(end_notice(&handle, &ending))
            }
            None => Some(owed.notice),
        };
        let messages: Vec<Message> = owed
            .into_iter()
            .filter_map(present)
            .map(|notice| Message::injected(notice, SUB_AGENTS))
            .collect();
        agent.state().next_prompt.extend(messages);
    });
}

/// Notice about a sub-agent that its parent has not received.
#[derive(Debug, PartialEq, Eq)]
struct Owed {
    agent: String,
    notice: String,
    /// Whether the session records no end of the sub-agent.
    is_cut: bool,
}

/// Background sub-agents in the entries of a restored conversation.
#[derive(Debug, Default, PartialEq, Eq)]
struct Restored {
    /// Highest number in the names of the sub-agents.
    names: u32,
    /// Notices that the parent has not received.
    owed: Vec<Owed>,
}

impl Restored {
    fn read(entries: &[Entry]) -> Self {
        let mut open: BTreeMap<String, (usize, String, bool)> = BTreeMap::new();
        let texts = SubAgentTexts::read(entries);
        let number = |agent: &str| agent.rsplit('.').next().and_then(|number| number.parse::<u32>().ok());
        let mut names = texts.names().filter_map(number).max().unwrap_or_default();
        let mut told = BTreeSet::new();
        for (at, entry) in entries.iter().enumerate() {
            if let Some(step) = step_of(entry) {
                match step {
                    Step::Began { agent, task } => {
                        names = names.max(number(&agent).unwrap_or_default());
                        let cut = cut_off_notice(&agent, &task, texts.of_agent(&agent));
                        open.insert(agent, (at, cut, true));
                    }
                    Step::Ended { agent, notice } => {
                        // An end without a start belongs to another branch.
                        if let Some(begun) = open.get_mut(&agent) {
                            *begun = (at, notice, false);
                        }
                    }
                    Step::Told { agent } => {
                        told.insert(agent);
                    }
                }
            } else if let EntryKind::Message { message, .. } = &entry.kind
                && message.injected_by.as_deref() == Some(SUB_AGENTS)
            {
                let text = message.text();
                open.retain(|agent, _| !text.starts_with(&format!("{} ", notice_start(agent))));
            }
        }
        // A call may return the result before the end is recorded.
        open.retain(|agent, _| !told.contains(agent));
        let mut owed: Vec<(usize, Owed)> = open
            .into_iter()
            .map(|(agent, (at, notice, is_cut))| (at, Owed { agent, notice, is_cut }))
            .collect();
        owed.sort_by_key(|(at, _)| *at);
        Self { names, owed: owed.into_iter().map(|(_, owed)| owed).collect() }
    }
}

/// Returns the notice about a sub-agent that ended with its process, with the last text that was stored.
fn cut_off_notice(agent: &str, task: &str, said: Option<String>) -> String {
    let head = format!("{} was cut off when zk ended", notice_start(agent));
    match said {
        None => format!("{head}, and its work is lost. Its task was: {task}"),
        Some(said) => {
            let end = said.floor_char_boundary(MAX_NOTICE_BYTES);
            let said = said.get(..end).unwrap_or_default();
            format!(
                "{head}. Its task was: {task}\nThe last that is known of what it said, which is no result:\n{said}"
            )
        }
    }
}

/// Returns the first words of every notice about a sub-agent.
pub(super) fn notice_start(agent: &str) -> String {
    format!("Sub-agent {agent}")
}

fn step_of(entry: &Entry) -> Option<Step> {
    let EntryKind::Custom(own) = &entry.kind else { return None };
    if own.kind == KIND && own.version == VERSION { own.data.read().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zk_core::kernel::Bus;

    use super::*;

    fn entries(steps: &[Result<Step, &str>]) -> Vec<Entry> {
        let scope = Bus::new().scope(SUB_AGENTS);
        let kind = |step: &Result<Step, &str>| match step {
            Ok(step) => EntryKind::Custom(NewEntry::hidden(KIND, VERSION, json!(step)).by(scope.source())),
            Err(text) => {
                EntryKind::Message { message: Message::injected(*text, SUB_AGENTS).shared(), usage: None }
            }
        };
        let entry = |kind| Entry { id: "e".into(), parent: None, time_ms: 0, kind };
        steps.iter().map(kind).map(entry).collect()
    }

    fn began_step(agent: &str) -> Result<Step, &'static str> {
        Ok(Step::Began { agent: agent.into(), task: "look".into() })
    }

    fn ended_step(agent: &str) -> Result<Step, &'static str> {
        Ok(Step::Ended { agent: agent.into(), notice: format!("Sub-agent {agent} is done: yes") })
    }

    #[test]
    fn a_restored_agent_gets_its_undelivered_notices() {
        let told = Ok(Step::Told { agent: "main.1".into() });
        let cut = "Sub-agent main.1 was cut off when zk ended, and its work is lost. Its task was: look";
        for (steps, owed) in [
            (vec![], vec![]),
            (vec![began_step("main.1")], vec![cut]),
            (vec![began_step("main.1"), Err(cut)], vec![]),
            (vec![ended_step("main.1")], vec![]),
            (vec![began_step("main.1"), ended_step("main.1")], vec!["Sub-agent main.1 is done: yes"]),
            (vec![began_step("main.1"), ended_step("main.1"), Err("Sub-agent main.1 is done: yes")], vec![]),
            (vec![began_step("main.1"), ended_step("main.1"), told.clone()], vec![]),
            (vec![began_step("main.1"), told.clone(), ended_step("main.1")], vec![]),
            (
                vec![
                    began_step("main.1"),
                    began_step("main.10"),
                    ended_step("main.10"),
                    Err("Sub-agent main.10 is done"),
                ],
                vec![cut],
            ),
        ] {
            let restored = Restored::read(&entries(&steps));
            let notices: Vec<String> = restored.owed.into_iter().map(|owed| owed.notice).collect();
            assert_eq!(notices, owed, "{steps:?}");
        }
        assert_eq!(Restored::read(&entries(&[began_step("main.7"), began_step("main.3")])).names, 7);
    }
}

use zk_core::model::CallId;
use zk_core::service::Entry;

use crate::{Block, Content, rebuild, sanitise};

/// Last visible texts of one turn's sub-agents. Their conversations are stored only in a view's records.
///
/// ```
/// use zk_view::SubagentWords;
///
/// assert_eq!(SubagentWords::of_turn(&[], &"c_1".into()).of_task("look around"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubagentWords(Vec<Seen>);

/// A sub-agent of the conversation's own agent, as far as its blocks describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    name: String,
    task: String,
    said: Option<String>,
}

impl SubagentWords {
    /// Collects the texts of the last turn in `entries` that begins with the call `first`: call ids are not
    /// unique in a session.
    #[must_use]
    pub fn of_turn(entries: &[Entry], first: &CallId) -> Self {
        let blocks = rebuild(entries);
        let begin = blocks.iter().rposition(|block| is_own_call(block, first)).unwrap_or(blocks.len());
        let mut agents: Vec<Seen> = Vec::new();
        for block in blocks.get(begin..).unwrap_or_default() {
            let Some(of) = block.agent.as_ref().filter(|of| of.depth == 1) else { continue };
            let name = of.name.as_str();
            let at = agents.iter().position(|agent| agent.name == name);
            if let (Content::User { text, .. }, None) = (&block.content, at) {
                let (name, task) = (name.to_owned(), text.as_str().trim().to_owned());
                agents.push(Seen { name, task, said: None });
            } else if let Content::Answer { text, .. } = &block.content
                && let Some(agent) = at.and_then(|at| agents.get_mut(at))
            {
                agent.said = Some(text.as_str().trim().to_owned());
            }
        }
        Self(agents)
    }

    /// Name and last text of the sub-agent with this task; `None` if several sub-agents have this task.
    #[must_use]
    pub fn of_task(&self, task: &str) -> Option<(&str, &str)> {
        let task = sanitise(task);
        let mut of_task = self.0.iter().filter(|agent| !agent.task.is_empty() && agent.task == task.trim());
        let (Some(agent), None) = (of_task.next(), of_task.next()) else { return None };
        let said = agent.said.as_deref().filter(|said| !said.is_empty())?;
        Some((&agent.name, said))
    }
}

fn is_own_call(block: &Block, id: &CallId) -> bool {
    block.agent.is_none() && matches!(&block.content, Content::Call(call) if call.call_id == *id)
}

use zk_core::model::CallId;
use zk_core::service::Entry;
use zk_session::{CallState, InterruptedCall, Loaded};
use zk_view::{Block, Content, rebuild};

/// Characters of a sub-agent's text that the model is told.
const MAX_OUTPUT_CHARS: usize = 2000;

/// Appends a sub-agent's last visible text to its interrupted call. The conversation of a sub-agent is stored nowhere but
/// in what the view keeps in `entries`.
pub(crate) fn append_subagent_output(loaded: &mut Loaded, entries: &[Entry]) {
    let is_delegating =
        |call: &InterruptedCall| call.state == CallState::OutcomeUnknown && task_of(call).is_some();
    let Some(turn) = &loaded.interrupted else { return };
    let Some(first) = turn.calls.first().filter(|_| turn.calls.iter().any(is_delegating)) else { return };
    let blocks = rebuild(entries);
    // An id is not unique in a session: the turn is its end.
    let begin = blocks.iter().rposition(|block| is_own_call(block, &first.call_id)).unwrap_or(blocks.len());
    let of_turn = blocks.get(begin..).unwrap_or_default();
    let agents = agents_of(of_turn.iter().map(|block| &**block));
    loaded.explain_unknown(|call| {
        let task = task_of(call).filter(|_| is_delegating(call))?;
        let mut of_task = agents.iter().filter(|agent| agent.task == task);
        // Two with the same task cannot be told apart.
        let (Some(agent), None) = (of_task.next(), of_task.next()) else { return None };
        let said = agent.said.filter(|said| !said.is_empty())?;
        let end = said.char_indices().nth(MAX_OUTPUT_CHARS).map(|(at, _)| at);
        let (said, cut) = (said.get(..end.unwrap_or(said.len())).unwrap_or_default(), end.map_or("", |_| "…"));
        Some(format!(
            "It was the sub-agent `{}`, which was cut off and is gone. The last that is known of what it said, which is \
             no result:\n{said}{cut}",
            agent.name
        ))
    });
}

/// Returns the task of a call's sub-agent, as a view shows it.
fn task_of(call: &InterruptedCall) -> Option<String> {
    let task = call.args.get("task")?.as_str()?;
    Some(zk_view::sanitise(task).trim().to_owned()).filter(|task| !task.is_empty())
}

fn is_own_call(block: &Block, id: &CallId) -> bool {
    block.agent.is_none() && matches!(&block.content, Content::Call(call) if call.call_id == *id)
}

/// A sub-agent of the conversation's own agent, as its blocks tell of it.
struct AgentSeen<'a> {
    name: &'a str,
    task: &'a str,
    said: Option<&'a str>,
}

fn agents_of<'a>(blocks: impl Iterator<Item = &'a Block>) -> Vec<AgentSeen<'a>> {
    let mut agents: Vec<AgentSeen<'a>> = Vec::new();
    for block in blocks {
        let Some(of) = block.agent.as_ref().filter(|of| of.depth == 1) else { continue };
        let name = of.name.as_str();
        let at = agents.iter().position(|agent| agent.name == name);
        if let (Content::User { text, .. }, None) = (&block.content, at) {
            agents.push(AgentSeen { name, task: text.as_str().trim(), said: None });
        } else if let Content::Answer { text, .. } = &block.content
            && let Some(agent) = at.and_then(|at| agents.get_mut(at))
        {
            agent.said = Some(text.as_str().trim());
        }
    }
    agents
}

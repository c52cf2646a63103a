//! `/agents`: the sub-agents of the conversation, for the person.

use zk_agent::Subagents;
use zk_core::kernel::BoxError;
use zk_core::service::ArgumentChoice;
use zk_tui::plain::lines;
use zk_tui::sub_agent_state;
use zk_view::Block;

use super::info_context::InfoContext;

/// Reason of a stop by the person, as the model reads it.
const STOPPED: &str = "stopped by the person";

/// Lists the sub-agents, shows the work of one, stops one, or sends one a message.
pub(super) fn agents(context: &InfoContext, args: &str) -> Result<String, BoxError> {
    let (verb, rest) = args.trim().split_once(char::is_whitespace).unwrap_or((args.trim(), ""));
    match (verb, rest.trim()) {
        ("" | "list", "") => Ok(list_subagents(context)),
        ("stop" | "steer", "") => Err(format!("/agents {verb} takes the name of a sub-agent").into()),
        ("stop", name) => {
            subagents(context)?.stop(name, STOPPED)?;
            Ok(format!("{name} is asked to end; what it had said goes to the agent that started it"))
        }
        ("steer", rest) => {
            let (name, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            if text.trim().is_empty() {
                return Err(format!("/agents steer {name} takes a text as well").into());
            }
            subagents(context)?.steer(name, text.trim())?;
            Ok(format!("{name} reads it after its current call"))
        }
        (name, "") => describe_work(context, name),
        (_, _) => Err("/agents takes a name, `stop NAME` or `steer NAME TEXT`".into()),
    }
}

/// Sub-agents as arguments of the command.
pub(super) fn choices(context: &InfoContext) -> Vec<ArgumentChoice> {
    let view = context.view.view();
    let rows = view.agents.iter().map(|agent| (agent.name.as_str(), agent.task.as_str()));
    rows.map(|(name, task)| ArgumentChoice::new(name, task)).collect()
}

fn subagents(context: &InfoContext) -> Result<std::sync::Arc<Subagents>, BoxError> {
    let all = context.agent.bus().service::<Subagents>();
    all.ok_or_else(|| "this conversation has no sub-agents".into())
}

/// Lists the sub-agents of this conversation, one per line.
fn list_subagents(context: &InfoContext) -> String {
    let view = context.view.view();
    let mut lines: Vec<String> = Vec::new();
    for agent in &view.agents {
        lines.push(format!("{:<16} {}: {}", agent.name, sub_agent_state(agent), agent.task));
    }
    for agent in view.blocks.iter().filter_map(|block| block.agent.as_ref()) {
        if !lines.iter().any(|line| line.split_whitespace().next() == Some(agent.name.as_str())) {
            lines.push(format!("{:<16} of an earlier run", agent.name));
        }
    }
    if lines.is_empty() { "no sub-agent has worked yet".to_owned() } else { lines.join("\n") }
}

/// Describes the work of a sub-agent: task, texts and calls.
fn describe_work(context: &InfoContext, name: &str) -> Result<String, BoxError> {
    let view = context.view.view();
    let blocks = view
        .blocks
        .iter()
        .filter(|block| block.agent.as_ref().is_some_and(|agent| agent.name.as_str() == name));
    let mut lines = Vec::new();
    for block in blocks {
        let shown = Block { agent: None, ..Block::clone(block) };
        lines.extend(lines::block(&shown).into_iter().map(|(_, line)| line));
    }
    match view.agents.iter().find(|agent| agent.name.as_str() == name) {
        Some(agent) => lines.insert(0, format!("{name}: {}", agent.task)),
        None if lines.is_empty() => {
            return Err(format!("there is no sub-agent `{name}`; /agents lists them").into());
        }
        None => {}
    }
    Ok(lines.join("\n"))
}

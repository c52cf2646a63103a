use zk_view::{AgentRow, AgentState, Block, Content, Patch, View};

/// Cost of the sub-agents that a patch ends between two runs, which is part of no run.
pub(super) fn late_cost(view: &View, patch: &Patch) -> f64 {
    let Patch::Agents { agents } = patch else { return 0.0 };
    // The cost of deeper ones is part of the cost of those that began them.
    let is_over = |row: &&AgentRow| row.depth == 1 && row.state != AgentState::Running;
    let was_running = |row: &&AgentRow| {
        let before = view.agents.iter().rev().find(|before| before.name == row.name);
        before.is_some_and(AgentRow::goes_on)
    };
    match view.status.run_ms {
        Some(_) => 0.0,
        None => agents.iter().filter(is_over).filter(was_running).filter_map(|row| row.cost).sum(),
    }
}

/// Cost of the run whose end a block shows.
pub(super) fn run_cost(block: &Block) -> f64 {
    if let Content::End(end) = &block.content { end.cost.unwrap_or_default() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use zk_view::{Status, Text};

    use super::*;
    use crate::transcript::Transcript;

    fn row(name: &str, depth: u32, state: AgentState, cost: f64) -> AgentRow {
        AgentRow {
            name: Text::line(name),
            depth,
            task: Text::line("look"),
            state,
            context_tokens: None,
            gauge: None,
            cost: Some(cost),
            tokens: 0,
            turns: 1,
            is_background: true,
            calls: 0,
            elapsed_ms: 0,
        }
    }

    #[test]
    fn the_cost_of_a_sub_agent_that_ends_between_two_runs_is_spent() {
        let mut transcript = Transcript::new(View::default(), 80);
        let agents = |state, cost| Patch::Agents {
            agents: vec![row("main.1", 1, state, cost), row("main.1.1", 2, state, cost / 2.0)],
        };
        transcript.patch(&agents(AgentState::Running, 0.5));
        assert!(transcript.spent().abs() < 1e-9);
        transcript.patch(&agents(AgentState::Done, 0.75));
        // A second patch about the same end adds nothing, and neither does an end during a run, which has the cost.
        transcript.patch(&agents(AgentState::Done, 0.75));
        assert!((transcript.spent() - 0.75).abs() < 1e-9, "{}", transcript.spent());
        let status = Status { run_ms: Some(0), ..Status::default() };
        transcript.patch(&Patch::Status { status });
        transcript.patch(&agents(AgentState::Running, 0.1));
        transcript.patch(&agents(AgentState::Stopped, 0.2));
        assert!((transcript.spent() - 0.75).abs() < 1e-9, "{}", transcript.spent());
    }
}

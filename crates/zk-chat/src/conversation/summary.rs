//! One-line summaries of a run, for a person.

use zk_agent::RunOutcome;
use zk_core::model::{AgentError, Stats, StopReason};
use zk_tui::{dollars, thousands};
use zk_view::Status;

/// Reason why a successful run's answer may be incomplete. `text` is the answer, `raise_limit` the advice for
/// one cut by the output limit.
pub fn incomplete(outcome: &RunOutcome, text: &str, raise_limit: &str) -> Option<String> {
    outcome.result.as_ref().ok()?;
    match outcome.stop.as_ref() {
        Some(StopReason::MaxTokens) => {
            Some(format!("hit the output limit (thinking counts): the answer is cut; {raise_limit}"))
        }
        Some(StopReason::Other(reason)) => {
            Some(format!("the answer may be incomplete: the provider ended it with `{reason}`"))
        }
        Some(StopReason::Refusal(_)) => Some("the model refused to answer".to_owned()),
        Some(
            StopReason::EndTurn
            | StopReason::ToolUse
            | StopReason::StopSequence(_)
            | StopReason::PauseTurn
            | StopReason::ContextExceeded
            | StopReason::Compaction
            | StopReason::Aborted
            | StopReason::Error,
        )
        | None => is_empty(outcome, text).then(|| "the model's answer is empty".to_owned()),
    }
}

/// Advice after a run that failed because the context was full; `None` for other errors.
pub fn choices(error: &AgentError) -> Option<&'static str> {
    matches!(error, AgentError::ContextExceeded(_)).then_some(
        "choose: /context shows what fills the window; /compact WORDS makes the conversation smaller and keeps what your words \
         say; /uncompact takes the last compaction back; /model NAME goes on with a larger window; /new begins anew",
    )
}

/// Whether a run made requests but got no answer.
pub fn is_empty(outcome: &RunOutcome, text: &str) -> bool {
    outcome.stats.turns > 0 && outcome.stats.output.is_none() && text.trim().is_empty()
}

/// Describes the fill level of the context, if known.
pub(crate) fn context(status: &Status) -> Option<String> {
    context_fill(status).map(|fill| format!("context {fill}"))
}

/// Fill level of the context, without its name.
pub(crate) fn context_fill(status: &Status) -> Option<String> {
    let gauge = status.gauge.as_ref()?;
    let compacted = if gauge.compactions > 0 { ", compacted" } else { "" };
    Some(format!("{} % of {} tokens{compacted}", gauge.percent, thousands(gauge.usable)))
}

/// Sums up turns, tokens, cost and time of a run in a line.
pub fn totals(stats: &Stats) -> String {
    let usage = &stats.usage;
    let turns = if stats.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", stats.turns) };
    let mut text = format!("{turns} · {} in, {} out", thousands(usage.read()), thousands(usage.output));
    if let Some(cost) = stats.cost.filter(|cost| *cost > 0.0) {
        let is_all = stats.flatten().iter().all(|turn| turn.cost.is_some());
        text.push_str(&format!(" · {}{}", if is_all { "" } else { "at least " }, dollars(cost)));
    }
    text.push_str(&format!(" · {:.1} s", stats.duration_ms as f64 / 1e3));
    text
}

#[cfg(test)]
mod tests {
    use zk_core::model::{ModelRef, TurnUsage, Usage};

    use super::*;

    #[test]
    fn a_cost_is_shown_as_far_as_it_is_known() {
        let turn = |cost| TurnUsage {
            turn_id: "t".into(),
            model: ModelRef::new("p", "m"),
            usage: Usage { input: 3, cache_read: 4, last_read: Some(2), output: 5, ..Usage::default() },
            cost,
        };
        for (costs, expected) in [
            (&[None][..], "1 turn · 7 in, 5 out · 0.0 s"),
            (&[Some(0.25)], "1 turn · 7 in, 5 out · $0.25 · 0.0 s"),
            (&[Some(0.25), None], "2 turns · 14 in, 10 out · at least $0.25 · 0.0 s"),
        ] {
            let mut stats = Stats::default();
            costs.iter().for_each(|cost| stats.add_turn(turn(*cost)));
            assert_eq!(totals(&stats), expected);
        }
        let mut stats = Stats::default();
        stats.add_turn(TurnUsage {
            usage: Usage { input: 47_200, output: 269, ..Usage::default() },
            ..turn(None)
        });
        assert_eq!(totals(&stats), "1 turn · 47.2k in, 269 out · 0.0 s");
    }
}

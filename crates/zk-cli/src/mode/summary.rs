//! Summaries of a run, in one line each, for a person.

use zk_agent::RunOutcome;
use zk_core::kernel::{Cause, EmitError, HookError};
use zk_core::model::{AgentError, ProviderError, Stats, StopReason};
use zk_core::service::StoreError;
use zk_view::Status;

/// Advice on an answer that its output limit cut.
pub(crate) const RAISE_OUTPUT_LIMIT: &str = "raise it with --max-tokens";

/// Returns the reason why the answer of a run that ended well may be incomplete, if it may. `text` is the
/// answer.
pub(crate) fn incomplete(outcome: &RunOutcome, text: &str) -> Option<String> {
    outcome.result.as_ref().ok()?;
    match outcome.stop.as_ref() {
        Some(StopReason::MaxTokens) => {
            Some(format!("hit the output limit (thinking counts): the answer is cut; {RAISE_OUTPUT_LIMIT}"))
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

/// Describes the failure of a run, for a person. A key that the provider refused comes first, with what to
/// run.
pub(crate) fn run_error(error: &AgentError) -> String {
    match error {
        AgentError::Provider(error) | AgentError::ContextExceeded(error) => provider_error(error),
        AgentError::TurnLimit { .. } => format!("{error}; raise it with --max-turns"),
        AgentError::Budget { budget, .. } => {
            let flag = if budget.usd.is_some() { "--max-budget-usd" } else { "--max-tokens-total" };
            format!("{error}; raise it with {flag}")
        }
        AgentError::Hook(error) => hook_error(error),
        AgentError::Parked { .. }
        | AgentError::Stuck { .. }
        | AgentError::Unguarded { .. }
        | AgentError::Usage(_)
        | AgentError::Output(_)
        | AgentError::Aborted => error.to_string(),
    }
}

/// Returns the choices of a person in a conversation after a run that ended for want of room; nothing after
/// any other.
pub(crate) fn choices(error: &AgentError) -> Option<&'static str> {
    matches!(error, AgentError::ContextExceeded(_)).then_some(
        "choose: /context shows what fills the window; /compact WORDS makes the conversation smaller and keeps what your words \
         say; /uncompact takes the last compaction back; /model NAME goes on with a larger window; /new begins anew",
    )
}

/// Returns the choices without a conversation on a terminal, where the session is stored or not.
pub(crate) fn choices_without_a_person(error: &AgentError, session: Option<&str>) -> Option<String> {
    choices(error)?;
    Some(match session {
        Some(id) => format!(
            "`zk context {id}` shows what fills the window; go on with `zk -p --resume {id}` and --model NAME of a larger \
             window, or with `/compact WORDS` in `zk --resume {id}`; or begin anew"
        ),
        None => "choose a --model NAME with a larger window, or begin anew with less".to_owned(),
    })
}

/// Describes the error of a handler that stopped a run; that of the store means that the session is not
/// saved.
fn hook_error(error: &EmitError) -> String {
    if let EmitError::Hook(HookError { cause: Cause::Failed(cause), .. }) = error
        && let Some(stored) = cause.downcast_ref::<StoreError>()
    {
        return format!("session not saved: {stored}");
    }
    error.to_string()
}

fn provider_error(error: &ProviderError) -> String {
    if error.code.as_deref() == Some(ProviderError::NOT_SIGNED_IN) {
        return format!("{error}; run `zk auth login {}`", error.provider);
    }
    let provider = &error.provider;
    let what = match error.code.as_deref() {
        Some(ProviderError::NO_KEY) => format!("no API key reached {provider}"),
        Some(ProviderError::SIGN_IN) => format!("{provider} rejected the sign-in"),
        _ if error.rejects_key() => format!("invalid API key for {provider}"),
        _ => return error.to_string(),
    };
    let status = error.status.map(|status| status.to_string());
    let request = error.request_id.as_ref().map(|id| format!("request {id}"));
    let facts: Vec<String> = status.into_iter().chain(request).collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    format!("{what}{facts}: {}. Run `zk auth login {provider}`.", error.message.trim_end_matches('.'))
}

/// Whether a run that asked the model got nothing from it.
pub(crate) fn is_empty(outcome: &RunOutcome, text: &str) -> bool {
    outcome.stats.turns > 0 && outcome.stats.output.is_none() && text.trim().is_empty()
}

/// Describes how full the context is, where that is known.
pub(crate) fn context(status: &Status) -> Option<String> {
    let gauge = status.gauge.as_ref()?;
    let compacted = if gauge.compactions > 0 { ", compacted" } else { "" };
    Some(format!("context {} % of {} tokens{compacted}", gauge.percent, gauge.usable))
}

/// Sums up turns, tokens, cost and time of a run in a line.
pub(crate) fn totals(stats: &Stats) -> String {
    let usage = &stats.usage;
    let turns = if stats.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", stats.turns) };
    let mut text = format!("{turns} · {} in, {} out", usage.read(), usage.output);
    if let Some(cost) = stats.cost.filter(|cost| *cost > 0.0) {
        let is_all = stats.flatten().iter().all(|turn| turn.cost.is_some());
        text.push_str(&format!(" · {}${cost:.4}", if is_all { "" } else { "at least " }));
    }
    text.push_str(&format!(" · {:.1} s", stats.duration_ms as f64 / 1e3));
    text
}

#[cfg(test)]
mod tests {
    use zk_core::model::{ErrorKind, ModelRef, Phase, TurnUsage, Usage};

    use super::*;

    #[test]
    fn a_request_without_a_valid_key_or_sign_in_names_the_command_that_signs_in() {
        for (code, status, expected) in [
            (Some(ProviderError::NO_KEY), Some(401), "no API key reached lab (401, request r): why. Run"),
            (Some(ProviderError::SIGN_IN), Some(401), "lab rejected the sign-in (401, request r): why. Run"),
            (None, Some(401), "invalid API key for lab (401, request r): why. Run"),
            (None, Some(403), "lab/m: not authorised (HTTP 403)"),
            (Some(ProviderError::NOT_SIGNED_IN), None, "lab/m: not authorised (not_signed_in)"),
        ] {
            let mut error = ProviderError::new(ErrorKind::Auth, "lab", "m", Phase::Request, "why.");
            error.request_id = Some("r".into());
            (error.code, error.status) = (code.map(str::to_owned), status);
            let text = run_error(&error.into());
            assert!(text.starts_with(expected), "{text}");
            assert_eq!(text.contains("un `zk auth login lab`"), status != Some(403), "{text}");
        }
    }

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
            (&[Some(0.25)], "1 turn · 7 in, 5 out · $0.2500 · 0.0 s"),
            (&[Some(0.25), None], "2 turns · 14 in, 10 out · at least $0.2500 · 0.0 s"),
        ] {
            let mut stats = Stats::default();
            costs.iter().for_each(|cost| stats.add_turn(turn(*cost)));
            assert_eq!(totals(&stats), expected);
        }
    }
}

//! The last line of a turn: how it went and what it cost.

use std::time::Instant;

use serde_json::{Map, Value, json};
use zk_agent::RunOutcome;
use zk_core::model::{AgentError, ModelStats, ProviderError, Usage};

use super::host::{Host, TurnState};
use super::output::{stop_reason, usage_line};

/// Outcome of a turn.
pub(super) struct Ended {
    pub(super) subtype: &'static str,
    /// The SDK's name of the reason; `None` for a turn without a model.
    pub(super) reason: Option<&'static str>,
    pub(super) is_error: bool,
    /// The answer; `None` for an error, which is in `errors`.
    pub(super) text: Option<String>,
    pub(super) errors: Vec<String>,
    pub(super) status: Option<u16>,
}

impl Ended {
    /// Outcome of a turn that asked no model, such as a command.
    pub(super) fn said(text: impl Into<String>) -> Self {
        Self {
            subtype: "success",
            reason: None,
            is_error: false,
            text: Some(text.into()),
            errors: Vec::new(),
            status: None,
        }
    }

    /// Outcome of a turn that could not start.
    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self::error("error_during_execution", None, why.into())
    }

    fn error(subtype: &'static str, reason: Option<&'static str>, why: String) -> Self {
        Self { subtype, reason, is_error: true, text: None, errors: vec![why], status: None }
    }

    /// Outcome of a run.
    pub(super) fn of(outcome: &RunOutcome, turn: &TurnState) -> Self {
        let error = match &outcome.result {
            Ok(()) => {
                let output = outcome.stats.output.as_ref().map(Value::to_string);
                let said = Self::said(output.unwrap_or_else(|| outcome.text.clone()));
                return Self { reason: Some("completed"), ..said };
            }
            Err(error) => error,
        };
        match error {
            AgentError::Provider(failed) | AgentError::ContextExceeded(failed) => Self {
                subtype: "success",
                reason: if matches!(error, AgentError::ContextExceeded(_)) {
                    Some("prompt_too_long")
                } else {
                    Some("api_error")
                },
                is_error: true,
                text: Some(provider_error_text(failed)),
                errors: Vec::new(),
                status: failed.status,
            },
            AgentError::TurnLimit { turns } => Self::error(
                "error_max_turns",
                Some("max_turns"),
                format!("Reached maximum number of turns ({turns})"),
            ),
            AgentError::Budget { .. } => {
                Self::error("error_max_budget_usd", Some("budget_exhausted"), error.to_string())
            }
            AgentError::Aborted
                if outcome.abort_reason.as_deref().is_some_and(|why| why.contains("a hook stopped")) =>
            {
                let why = outcome.abort_reason.clone().unwrap_or_default();
                Self { reason: Some("hook_stopped"), ..Self::said(why) }
            }
            AgentError::Aborted => {
                let reason = Some(if turn.streaming { "aborted_streaming" } else { "aborted_tools" });
                Self::error("error_during_execution", reason, "Request was aborted.".to_owned())
            }
            other => {
                let subtype = if outcome.stats.turns > 0 && other.to_string().contains("output") {
                    "error_max_structured_output_retries"
                } else {
                    "error_during_execution"
                };
                Self::error(subtype, None, other.to_string())
            }
        }
    }
}

/// Formats a provider's error as the text of an answer.
pub(super) fn provider_error_text(error: &ProviderError) -> String {
    match error.status {
        Some(status) => format!("API Error: {status} {}", error.message),
        None => format!("API Error: {}", error.message),
    }
}

/// Usage, cost and other figures of a turn.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) turns: u32,
    pub(super) usage: Usage,
    pub(super) stop: Value,
    pub(super) output: Option<Value>,
    pub(super) models: Vec<(String, ModelStats)>,
    pub(super) cost: f64,
    pub(super) first_token_ms: Option<u64>,
    pub(super) origin: Option<Value>,
}

impl Counted {
    pub(super) fn of(outcome: &RunOutcome) -> Self {
        let stats = &outcome.stats;
        let mut usage = Usage::default();
        stats.turn_usage.iter().for_each(|turn| usage += turn.usage);
        Self {
            turns: stats.turns,
            usage,
            stop: stop_reason(outcome.stop.as_ref()),
            output: stats.output.clone(),
            models: stats.by_model().into_iter().map(|(model, stats)| (model.model, stats)).collect(),
            cost: stats.known_cost().unwrap_or_default(),
            first_token_ms: stats.first_token_ms,
            origin: None,
        }
    }
}

impl Host {
    /// Sends the result of a turn. Cost and usage by model are totals since the start or the last `clear`.
    pub(super) fn send_result(&self, ended: &Ended, counted: Counted, began: Instant) {
        let (denials, cost, models) = {
            let mut known = self.known();
            known.cost += counted.cost;
            for (model, stats) in counted.models {
                let sum = known.models.entry(model).or_default();
                sum.turns += stats.turns;
                sum.usage += stats.usage;
                sum.cost = Some(sum.cost.unwrap_or_default() + stats.cost.unwrap_or_default());
            }
            (std::mem::take(&mut known.turn.denials), known.cost, model_usage(&known.models))
        };
        let spent = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut usage = usage_line(&counted.usage);
        if let Some(usage) = usage.as_object_mut() {
            usage.insert("service_tier".to_owned(), "standard".into());
            let searched = json!({"web_search_requests": 0, "web_fetch_requests": 0});
            usage.insert("server_tool_use".to_owned(), searched);
        }
        let mut line = json!({
            "type": "result",
            "subtype": ended.subtype,
            "is_error": ended.is_error,
            "duration_ms": spent,
            "duration_api_ms": spent,
            "num_turns": counted.turns,
            "stop_reason": counted.stop,
            "total_cost_usd": cost,
            "usage": usage,
            "modelUsage": models,
            "permission_denials": denials,
            "terminal_reason": ended.reason,
            "api_error_status": ended.status,
        });
        if let Some(fields) = line.as_object_mut() {
            let mut put = |key: &str, value: Value| _ = fields.insert(key.to_owned(), value);
            match &ended.text {
                Some(text) => put("result", text.as_str().into()),
                None => put("errors", ended.errors.clone().into()),
            }
            if let Some(output) = counted.output {
                put("structured_output", output);
            }
            if let Some(first) = counted.first_token_ms {
                put("ttft_ms", first.into());
            }
            if let Some(origin) = counted.origin {
                put("origin", origin);
            }
        }
        self.send(line);
    }
}

fn model_usage(models: &std::collections::BTreeMap<String, ModelStats>) -> Value {
    let of_model = |(model, stats): (&String, &ModelStats)| {
        let usage = &stats.usage;
        let counted = json!({
            "inputTokens": usage.input,
            "outputTokens": usage.output,
            "cacheReadInputTokens": usage.cache_read,
            "cacheCreationInputTokens": usage.cache_write,
            "webSearchRequests": 0,
            "costUSD": stats.cost.unwrap_or_default(),
            "contextWindow": 0,
            "maxOutputTokens": 0,
        });
        (model.clone(), counted)
    };
    Value::Object(models.iter().map(of_model).collect::<Map<String, Value>>())
}

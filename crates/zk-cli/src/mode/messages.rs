//! Messages on the end of a run.

use std::time::Duration;

use zk_core::model::{ErrorKind, Phase, ProviderError};

/// Message on a run that had all of its turns.
pub(super) fn turn_limit(turns: u32) -> String {
    let many = if turns == 1 { "" } else { "s" };
    format!("stopped after {turns} turn{many}, the limit of this run: --max-turns raises it")
}

/// Message on a run whose budget is used up.
pub(super) fn budget(shortage: &str, is_money: bool) -> String {
    let flag = if is_money { "--max-budget-usd" } else { "--max-tokens-total" };
    format!("stopped: {shortage}: {flag} raises it")
}

/// Message on an error of a provider.
pub(super) fn provider(error: &ProviderError) -> String {
    let ProviderError { provider, model, message, hint, .. } = error;
    let (facts, message) = (facts(error), message.trim_end_matches('.'));
    let hint = hint.as_deref().map_or(String::new(), |hint| format!(". {}", hint.trim_end_matches('.')));
    match error.kind {
        ErrorKind::Quota => format!("Out of credit at {provider}{facts}: \"{message}\"{hint}"),
        ErrorKind::Transport if matches!(error.phase, Phase::Stream | Phase::FirstEvent) => {
            let attempts = match error.attempts {
                1 => String::new(),
                attempts => format!(", also in {attempts} attempts"),
            };
            format!(
                "The connection to {provider} broke in the middle of the answer{attempts}: {message}{facts}{hint}"
            )
        }
        // The message says that the server cannot be reached, and where.
        ErrorKind::Transport if error.phase == Phase::Connect => {
            let attempts = match error.attempts {
                1 => String::new(),
                attempts => format!(", also in {attempts} attempts"),
            };
            format!("{provider}: {message}{attempts}{facts}{hint}")
        }
        ErrorKind::Rejected if is_unknown_model(error) => {
            let hint = hint.replace(". Check the name of the model, and that it is served here", "");
            format!(
                "{provider} does not know {model}{facts}: /model lists what it has, outside of a conversation `zk models`{hint}"
            )
        }
        ErrorKind::Rate
        | ErrorKind::Overloaded
        | ErrorKind::ContextExceeded
        | ErrorKind::Auth
        | ErrorKind::Transport
        | ErrorKind::Stalled
        | ErrorKind::Malformed
        | ErrorKind::Rejected
        | ErrorKind::Refused
        | ErrorKind::Aborted => error.to_string(),
    }
}

/// Whether the error means that the provider does not know the model. A 404 alone is not enough: a proxy also
/// sends it for a wrong path, without naming the model.
fn is_unknown_model(error: &ProviderError) -> bool {
    let says_so = error.message.contains(&error.model) || error.message.to_lowercase().contains("model");
    match error.code.as_deref() {
        Some("model_not_found") => true,
        Some("not_found_error") => says_so,
        _ => error.status == Some(404) && says_so,
    }
}

/// Lists the facts about an error that the provider's support needs.
pub(super) fn facts(error: &ProviderError) -> String {
    let status = error.status.map(|status| status.to_string());
    let request = error.request_id.as_ref().map(|id| format!("request {id}"));
    let waited = (error.elapsed >= Duration::from_secs(1) && error.status.is_none())
        .then(|| format!("after {:.1} s", error.elapsed.as_secs_f64()));
    let facts: Vec<String> = status.into_iter().chain(waited).chain(request).collect();
    if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ErrorKind, phase: Phase, message: &str) -> ProviderError {
        ProviderError::new(kind, "lab", "big-1", phase, message)
    }

    #[test]
    fn an_error_is_said_in_words_with_what_to_do() {
        let mut poor = error(ErrorKind::Quota, Phase::Response, "Your credit balance is too low.");
        poor.status = Some(400);
        assert_eq!(provider(&poor), "Out of credit at lab (400): \"Your credit balance is too low\"");
        let mut broken = error(ErrorKind::Transport, Phase::Stream, "unexpected end");
        broken.hint = Some("Check the network connection, and try again".to_owned());
        assert_eq!(
            provider(&broken),
            "The connection to lab broke in the middle of the answer: unexpected end. Check the network connection, and \
             try again"
        );
        let mut down =
            error(ErrorKind::Transport, Phase::Connect, "cannot reach http://127.0.0.1:1: refused");
        (down.hint, down.attempts) = (Some("Is the server running?".to_owned()), 3);
        assert_eq!(
            provider(&down),
            "lab: cannot reach http://127.0.0.1:1: refused, also in 3 attempts. Is the server running?"
        );
        let mut unknown = error(ErrorKind::Rejected, Phase::Response, "model: big-1");
        (unknown.status, unknown.code) = (Some(404), Some("not_found_error".to_owned()));
        unknown.hint = Some("Did you mean `big-2`?".to_owned());
        assert_eq!(
            provider(&unknown),
            "lab does not know big-1 (404): /model lists what it has, outside of a conversation `zk models`. Did you mean \
             `big-2`?"
        );
        let elsewhere = error(ErrorKind::Rejected, Phase::Response, "no such page");
        assert_eq!(provider(&elsewhere), elsewhere.to_string());
    }

    #[test]
    fn a_limit_is_said_once_with_the_flag_that_raises_it() {
        assert_eq!(turn_limit(2), "stopped after 2 turns, the limit of this run: --max-turns raises it");
        assert_eq!(
            budget("$1 of $1 is spent", true),
            "stopped: $1 of $1 is spent: --max-budget-usd raises it"
        );
    }
}

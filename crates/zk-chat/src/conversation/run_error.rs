//! Failures of a run, in one line each, for a person.

use std::time::Duration;

use zk_core::kernel::{Cause, EmitError, HookError};
use zk_core::model::{AgentError, ErrorKind, Phase, ProviderError};
use zk_core::service::StoreError;

use crate::ProgramPhrases;

/// Describes the failure of a run for a person, with the next step. A rejected key is described first.
#[must_use]
pub fn describe_run_error(error: &AgentError, phrases: &ProgramPhrases) -> String {
    describe(error, phrases, SignIn::InShell)
}

/// Describes the failure of a run like [`describe_run_error`], for a person who can sign in without leaving.
#[must_use]
pub fn describe_conversation_error(error: &AgentError, phrases: &ProgramPhrases) -> String {
    describe(error, phrases, SignIn::InConversation)
}

/// Place at which a person can sign in.
#[derive(Clone, Copy)]
enum SignIn {
    InShell,
    InConversation,
}

impl SignIn {
    /// Returns the next step; `command` is the program's.
    fn next_step(self, command: &str, provider: &str) -> String {
        match self {
            Self::InShell => format!("run `{command} {provider}`"),
            Self::InConversation => {
                format!("type /login {provider}, or run `{command} {provider}` in a shell")
            }
        }
    }
}

fn describe(error: &AgentError, phrases: &ProgramPhrases, sign_in: SignIn) -> String {
    match error {
        AgentError::Provider(error) | AgentError::ContextExceeded(error) => {
            provider_error(error, phrases, sign_in)
        }
        AgentError::TurnLimit { turns } => turn_limit(*turns, phrases),
        AgentError::Budget { budget, spent, wanted } => {
            budget_used(&budget.describe_shortage(*spent, *wanted), budget.usd.is_some(), phrases)
        }
        AgentError::Hook(error) => hook_error(error),
        AgentError::Parked { .. }
        | AgentError::AwaitsTime { .. }
        | AgentError::HandedOver
        | AgentError::AwaitsChildren { .. }
        | AgentError::Fenced
        | AgentError::StoreFailed { .. }
        | AgentError::Stuck { .. }
        | AgentError::Unguarded { .. }
        | AgentError::Usage(_)
        | AgentError::Output(_)
        | AgentError::Aborted => error.to_string(),
    }
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

fn provider_error(error: &ProviderError, phrases: &ProgramPhrases, sign_in: SignIn) -> String {
    let provider = &error.provider;
    let step = sign_in.next_step(phrases.sign_in, provider);
    if error.code.as_deref() == Some(ProviderError::NOT_SIGNED_IN) {
        return format!("{error}; {step}");
    }
    let what = match error.code.as_deref() {
        Some(ProviderError::NO_KEY) => format!("no API key reached {provider}"),
        Some(ProviderError::SIGN_IN) => format!("{provider} rejected the sign-in"),
        _ if error.rejects_key() => format!("invalid API key for {provider}"),
        _ => return other_provider_error(error, phrases),
    };
    format!("{what}{}: {}; {step}", support_facts(error), error.message.trim_end_matches('.'))
}

/// Message about a run that reached its limit of turns.
fn turn_limit(turns: u32, phrases: &ProgramPhrases) -> String {
    let many = if turns == 1 { "" } else { "s" };
    format!("stopped after {turns} turn{many}, the limit of this run: {} raises it", phrases.turn_limit)
}

/// Message about a run that used up its budget.
fn budget_used(shortage: &str, is_money: bool, phrases: &ProgramPhrases) -> String {
    let flag = if is_money { phrases.money_budget } else { phrases.token_budget };
    format!("stopped: {shortage}: {flag} raises it")
}

/// Message about a provider error that does not concern its key.
fn other_provider_error(error: &ProviderError, phrases: &ProgramPhrases) -> String {
    let ProviderError { provider, model, message, hint, .. } = error;
    let (facts, message) = (support_facts(error), message.trim_end_matches('.'));
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
        // The error's own message names the unreachable server.
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
                "{provider} does not know {model}{facts}: /model lists what it has, outside of a conversation `{}`{hint}",
                phrases.list_models
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
fn support_facts(error: &ProviderError) -> String {
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

    const PHRASES: ProgramPhrases = ProgramPhrases {
        raise_output_limit: "",
        allow_all: "",
        resume: "",
        add_directory: "",
        turn_limit: "--max-turns",
        money_budget: "--max-budget-usd",
        token_budget: "--max-tokens-total",
        sign_in: "zk auth login",
        list_models: "zk models",
    };

    fn describe_provider_error(error: &ProviderError) -> String {
        describe_run_error(&error.clone().into(), &PHRASES)
    }

    fn error(kind: ErrorKind, phase: Phase, message: &str) -> ProviderError {
        ProviderError::new(kind, "lab", "big-1", phase, message)
    }

    #[test]
    fn an_error_is_said_in_words_with_what_to_do() {
        let mut poor = error(ErrorKind::Quota, Phase::Response, "Your credit balance is too low.");
        poor.status = Some(400);
        assert_eq!(
            describe_provider_error(&poor),
            "Out of credit at lab (400): \"Your credit balance is too low\""
        );
        let mut broken = error(ErrorKind::Transport, Phase::Stream, "unexpected end");
        broken.hint = Some("Check the network connection, and try again".to_owned());
        assert_eq!(
            describe_provider_error(&broken),
            "The connection to lab broke in the middle of the answer: unexpected end. Check the network connection, and \
             try again"
        );
        let mut down =
            error(ErrorKind::Transport, Phase::Connect, "cannot reach http://127.0.0.1:1: refused");
        (down.hint, down.attempts) = (Some("Is the server running?".to_owned()), 3);
        assert_eq!(
            describe_provider_error(&down),
            "lab: cannot reach http://127.0.0.1:1: refused, also in 3 attempts. Is the server running?"
        );
        let mut unknown = error(ErrorKind::Rejected, Phase::Response, "model: big-1");
        (unknown.status, unknown.code) = (Some(404), Some("not_found_error".to_owned()));
        unknown.hint = Some("Did you mean `big-2`?".to_owned());
        assert_eq!(
            describe_provider_error(&unknown),
            "lab does not know big-1 (404): /model lists what it has, outside of a conversation `zk models`. Did you mean \
             `big-2`?"
        );
        let elsewhere = error(ErrorKind::Rejected, Phase::Response, "no such page");
        assert_eq!(describe_provider_error(&elsewhere), elsewhere.to_string());
    }

    #[test]
    fn a_limit_is_said_once_with_the_flag_that_raises_it() {
        assert_eq!(
            turn_limit(2, &PHRASES),
            "stopped after 2 turns, the limit of this run: --max-turns raises it"
        );
        assert_eq!(
            budget_used("$1 of $1 is spent", true, &PHRASES),
            "stopped: $1 of $1 is spent: --max-budget-usd raises it"
        );
    }

    #[test]
    fn a_request_without_a_valid_key_or_sign_in_names_the_command_that_signs_in() {
        for (code, status, expected) in [
            (Some(ProviderError::NO_KEY), Some(401), "no API key reached lab (401, request r): why; run"),
            (Some(ProviderError::SIGN_IN), Some(401), "lab rejected the sign-in (401, request r): why; run"),
            (None, Some(401), "invalid API key for lab (401, request r): why; run"),
            (None, Some(403), "lab/m: not authorised (HTTP 403)"),
            (Some(ProviderError::NOT_SIGNED_IN), None, "lab/m: not authorised (not_signed_in)"),
        ] {
            let mut error = ProviderError::new(ErrorKind::Auth, "lab", "m", Phase::Request, "why.");
            error.request_id = Some("r".into());
            (error.code, error.status) = (code.map(str::to_owned), status);
            let text = describe_run_error(&error.clone().into(), &PHRASES);
            assert!(text.starts_with(expected), "{text}");
            assert_eq!(text.contains("; run `zk auth login lab`"), status != Some(403), "{text}");
            let inside = describe_conversation_error(&error.into(), &PHRASES);
            assert_eq!(inside.contains("; type /login lab, or run `zk"), status != Some(403), "{inside}");
        }
    }
}

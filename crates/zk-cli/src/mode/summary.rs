//! Failures of a run, in one line each, for a person.

use zk_core::kernel::{Cause, EmitError, HookError};
use zk_core::model::{AgentError, ProviderError};
use zk_core::service::StoreError;

use super::messages;
use zk_chat::choices;

/// Advice on an answer that its output limit cut.
pub(crate) const RAISE_OUTPUT_LIMIT: &str = "raise it with --max-tokens";

/// Describes the failure of a run for a person, with the next step. A rejected key is described first.
pub(crate) fn run_error(error: &AgentError) -> String {
    describe(error, SignIn::InShell)
}

/// Describes the failure of a run like [`run_error`], for a person who can sign in without leaving.
pub(crate) fn conversation_error(error: &AgentError) -> String {
    describe(error, SignIn::InConversation)
}

/// Place at which a person can sign in.
#[derive(Clone, Copy)]
enum SignIn {
    InShell,
    InConversation,
}

impl SignIn {
    fn step(self, provider: &str) -> String {
        match self {
            Self::InShell => format!("run `zk auth login {provider}`"),
            Self::InConversation => {
                format!("type /login {provider}, or run `zk auth login {provider}` in a shell")
            }
        }
    }
}

fn describe(error: &AgentError, sign_in: SignIn) -> String {
    match error {
        AgentError::Provider(error) | AgentError::ContextExceeded(error) => provider_error(error, sign_in),
        AgentError::TurnLimit { turns } => messages::turn_limit(*turns),
        AgentError::Budget { budget, spent, wanted } => {
            messages::budget(&budget.describe_shortage(*spent, *wanted), budget.usd.is_some())
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

fn provider_error(error: &ProviderError, sign_in: SignIn) -> String {
    let step = sign_in.step(&error.provider);
    if error.code.as_deref() == Some(ProviderError::NOT_SIGNED_IN) {
        return format!("{error}; {step}");
    }
    let provider = &error.provider;
    let what = match error.code.as_deref() {
        Some(ProviderError::NO_KEY) => format!("no API key reached {provider}"),
        Some(ProviderError::SIGN_IN) => format!("{provider} rejected the sign-in"),
        _ if error.rejects_key() => format!("invalid API key for {provider}"),
        _ => return messages::provider(error),
    };
    let message = error.message.trim_end_matches('.');
    format!("{what}{}: {message}; {step}", messages::facts(error))
}

#[cfg(test)]
mod tests {
    use zk_core::model::{ErrorKind, Phase};

    use super::*;

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
            let text = run_error(&error.clone().into());
            assert!(text.starts_with(expected), "{text}");
            assert_eq!(text.contains("; run `zk auth login lab`"), status != Some(403), "{text}");
            let inside = conversation_error(&error.into());
            assert_eq!(inside.contains("; type /login lab, or run `zk"), status != Some(403), "{inside}");
        }
    }
}

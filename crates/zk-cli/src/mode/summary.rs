//! Failures of a run, with the flags and commands of the program.

use zk_chat::{ProgramPhrases, choices, describe_conversation_error, describe_run_error};
use zk_core::model::AgentError;

/// Flags and commands of the program in messages.
pub(crate) const PHRASES: ProgramPhrases = ProgramPhrases {
    raise_output_limit: "raise it with --max-tokens",
    allow_all: "--allow-all",
    resume: "zk --resume",
    add_directory: "`/add-dir DIR` adds one",
    turn_limit: "--max-turns",
    money_budget: "--max-budget-usd",
    token_budget: "--max-tokens-total",
    sign_in: "zk auth login",
    list_models: "zk models",
};

/// Describes the failure of a run for a person, with the next step.
pub(crate) fn run_error(error: &AgentError) -> String {
    describe_run_error(error, &PHRASES)
}

/// Describes the failure of a run like [`run_error`], for a person who can sign in without leaving.
pub(crate) fn conversation_error(error: &AgentError) -> String {
    describe_conversation_error(error, &PHRASES)
}

/// Returns the next steps after a context overflow in an unattended run, for a stored session or none; `None` for other
/// errors.
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

//! Hints for a person on what to do about an error.

use zk_core::model::ErrorKind;

/// Hint of an error; `None` if there is a better source for it than this table.
pub(crate) type Advice = Option<&'static str>;

pub(crate) const KEY: Advice = Some("Check the API key: it is wrong, has expired or is another service's");
pub(crate) const NO_KEY: Advice = Some("No API key reached the provider: set one");
pub(crate) const RIGHTS: Advice =
    Some("The key is known but may not do this: check its rights, and that it may use this model");
pub(crate) const PAYMENT: Advice = Some("Waiting does not help: check how the account is paid for");
pub(crate) const CREDIT: Advice = Some("Waiting does not help: check the account's credit and its plan");
pub(crate) const IN_FLIGHT: Advice =
    Some("The requests under way hold what is left of the credit: wait for them, or add credit");
pub(crate) const SPENDING: Advice =
    Some("Waiting does not help: the account's spending limit is reached, and its owner can raise it");
pub(crate) const CONTRACT: Advice =
    Some("Waiting does not help: the contract's spending limit is reached, and the provider can raise it");
pub(crate) const OWN_LIMIT: Advice =
    Some("The limit is one of the account's own settings: raise it there, or wait for its next period");
pub(crate) const PLAN: Advice = Some("The plan is used up: wait until it renews, or use an API key");
pub(crate) const NOT_IN_PLAN: Advice =
    Some("The plan does not include this: take another model, or use an API key");
pub(crate) const DAY: Advice =
    Some("The day's quota is used up: wait for the next day, or take a larger plan");
pub(crate) const MONTH: Advice =
    Some("The month's quota is used up: wait for the next month, or take a larger plan");
pub(crate) const RATE: Advice =
    Some("Wait a little and try again; fewer requests at once, or a larger plan, help for good");
pub(crate) const RAMP: Advice =
    Some("The requests became more faster than the provider allows: wait, then let them grow slowly");
pub(crate) const QUEUE: Advice =
    Some("The provider's queue is full, whatever the account's limits: wait a little, or take another model");
pub(crate) const BUSY: Advice =
    Some("The model has more requests than it can take: try again in a while, or take another model");
pub(crate) const FAILED: Advice = Some(
    "The provider itself failed: try again in a while, or take another model; if it persists, send the request id to \
     the provider's support",
);
pub(crate) const GATEWAY: Advice =
    Some("A server in front of the model got no answer from it: try again in a while");
pub(crate) const AWAY: Advice = Some("The service is away, or still loads the model: try again in a while");
pub(crate) const SLOW: Advice =
    Some("The answer took the provider too long: try again, or ask for less at once");
pub(crate) const TIMED_OUT: Advice =
    Some("The request took too long to arrive: try again, over a faster connection if it stays");
pub(crate) const CONFLICT: Advice = Some("Something else changes the same thing right now: try again");
pub(crate) const POLICY: Advice = Some("A filter stopped it: say it in other words, or take another model");
pub(crate) const PROMPT: Advice = Some("The provider does not take this prompt: say it in other words");
pub(crate) const IMAGE: Advice =
    Some("An image cannot be used: send it as a PNG or JPEG of common size, or leave it out");
pub(crate) const BLIND: Advice =
    Some("The model sees no images: take one that does, or start llama-server with its `--mmproj`");
pub(crate) const FORGOTTEN: Advice =
    Some("The provider no longer knows the response this one continues: start a new session");
pub(crate) const CALL: Advice =
    Some("The model wrote a tool call that cannot be read: try again, or take another model");
pub(crate) const SETTING: Advice =
    Some("The model does not take this setting: change it or leave it out, or take another model");
pub(crate) const REQUEST: Advice =
    Some("Sending it again does not help: change what the provider names, or take another model");
pub(crate) const FIELD: Advice =
    Some("The server does not know what it names: is it another dialect, or an old version?");
pub(crate) const DIALECT: Advice = Some("Is this the right base URL for this provider?");
pub(crate) const WINDOW: Advice = Some("Start a new session, or take a model with a larger window");
pub(crate) const OWN_WINDOW: Advice = Some(
    "Start a new session, take a model with a larger window, or start the server with more context: `-c` of \
     llama-server, `num_ctx` of Ollama, `--max-model-len` of vLLM",
);
pub(crate) const TOO_LARGE: Advice =
    Some("The request has too many bytes: send fewer or smaller images, or start a new session");
pub(crate) const BARE: Advice = Some(
    "A server that rejects a request without a word most often means that it is too long: start a new \
     session, or take a model with a larger window",
);
pub(crate) const MEMORY: Advice =
    Some("Take a smaller model or a smaller context, or free memory on the machine of the server");
pub(crate) const JINJA: Advice = Some("Start llama-server with `--jinja`");
pub(crate) const OPTION: Advice = Some("Start the server with the option it names");
pub(crate) const UNREAD: Advice =
    Some("The server's chat template cannot take this conversation: a newer server or template may");
/// Hint for an unknown model or path, which is computed from similar names instead.
pub(crate) const NEAR: Advice = None;

/// Returns the hint for an error of which only the class is known.
pub(crate) fn of_kind(kind: ErrorKind) -> Advice {
    match kind {
        ErrorKind::Rate => RATE,
        ErrorKind::Quota => CREDIT,
        ErrorKind::Overloaded => {
            Some("The provider could not go on: try again in a while, or take another model")
        }
        ErrorKind::ContextExceeded => WINDOW,
        ErrorKind::Auth => KEY,
        ErrorKind::Transport => Some("Check the network connection, and try again"),
        ErrorKind::Stalled => {
            Some("Try again; if the model is only slow, give its provider's `clocks` more time")
        }
        ErrorKind::Malformed => {
            Some("Try again; if it stays, the server does not keep to this dialect: is the base URL right?")
        }
        ErrorKind::Rejected => REQUEST,
        ErrorKind::Refused => POLICY,
        ErrorKind::Aborted => None,
    }
}

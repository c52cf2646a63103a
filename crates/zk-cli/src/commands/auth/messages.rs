//! Messages of `zk auth`.

use std::fmt::Display;
use std::path::Path;

/// Message for a key that settings would read as a variable or a command.
pub(super) fn unusable_key(name: &str) -> String {
    format!(
        "a key does not begin with `!` or `env:`: a command or a variable belongs in your settings, as `api_key` under \
         [providers.{name}]"
    )
}

/// Message for a key that its provider refuses.
pub(super) fn rejected_key(name: &str, why: &str) -> String {
    format!("{name} does not take this key, so it is not stored: {}", why.trim_end_matches('.'))
}

/// Remark on a key that the provider does not check before the first request.
pub(super) fn unverified_key(name: &str) -> String {
    format!("{name} says only with the first request whether it is right")
}

/// Remark on a key at a provider that does not answer.
pub(super) fn unreachable_provider(name: &str, why: &str) -> String {
    format!("{name} could not be asked ({})", why.trim_end_matches('.'))
}

/// Warning about a damaged store that was moved away.
pub(super) fn damaged_store(reason: &impl Display, path: &Path) -> String {
    format!("warning: the old file was damaged ({reason}) and is now {}", path.display())
}

/// Message for a missing provider name, without a terminal to show a list.
pub(super) fn missing_provider(names: &str) -> String {
    format!("say for which provider, as in `zk auth login anthropic`: {names}")
}

/// Message about a key that is stored but not checked.
pub(super) fn unchecked_key(remark: &str) -> String {
    format!("zk: warning: the key is stored, but not checked: {remark}")
}

/// Message after a dialog without a choice.
pub(super) const NOTHING_STORED: &str = "nothing was stored";

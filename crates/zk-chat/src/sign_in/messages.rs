//! Messages of the provider dialog.

use super::flow::Purpose;
use crate::opening::provider_access::{AccessWay, LocalOffer, ProviderOffer};

/// Label of the row for model servers of this computer.
pub(super) const THIS_COMPUTER: &str = "This computer";
/// Label of the row for the demo, and the remark on it.
pub(super) const JUST_LOOK: (&str, &str) = ("Just look", "zk demo, a scripted model with real tools");
/// Number of names in the row for all other providers.
const NAMED_OTHERS: usize = 2;

/// Message while local ports are probed.
pub(super) const LOOKING: &str = "Looking for model servers on this computer …";

/// Title of the first list.
pub(super) fn title(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::FirstStart => "zk needs a model.",
        Purpose::SetUp => "Which provider should answer?",
        Purpose::LogIn(_) => "Sign in to which provider?",
    }
}

/// Authentication methods of a provider, for a person.
pub(super) fn method_labels(offer: &ProviderOffer) -> String {
    offer.ways.iter().map(method_label).collect::<Vec<_>>().join(" · ")
}

/// Label of an authentication method.
pub(super) fn method_label(way: &AccessWay) -> &str {
    match way {
        AccessWay::Key(_) => "paste an API key",
        AccessWay::SignIn { label, .. } => label,
    }
}

/// Label of the row for the remaining providers.
pub(super) fn others_label(others: &[&ProviderOffer]) -> String {
    let named: Vec<&str> = others.iter().take(NAMED_OTHERS).map(|offer| offer.title.as_str()).collect();
    match others.len() - named.len() {
        0 => named.join(", "),
        more => format!("{}, {more} more …", named.join(", ")),
    }
}

/// Remark on the model servers of this computer.
pub(super) fn local_note(servers: &[LocalOffer]) -> String {
    let found: Vec<String> = servers
        .iter()
        .filter_map(|server| {
            let (first, rest) = server.models.split_first()?;
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            Some(format!("{}: {first}{more}", server.provider))
        })
        .collect();
    if found.is_empty() { format!("nothing found on {}", ports(servers)) } else { found.join(" · ") }
}

/// Advice if no local model server answers.
pub(super) fn no_local_server(servers: &[LocalOffer]) -> String {
    let each: Vec<String> =
        servers.iter().map(|server| format!("{} (port {})", server.provider, server.port)).collect();
    format!(
        "No model server of this computer answers with a model: start one, then choose this again: {}.",
        each.join(", ")
    )
}

fn ports(servers: &[LocalOffer]) -> String {
    servers.iter().map(|server| server.port.to_string()).collect::<Vec<_>>().join(", ")
}

/// Title of the list of models of this computer.
pub(super) const WHICH_MODEL: &str = "Which model?";

/// Title of the list of all providers.
pub(super) const WHICH_PROVIDER: &str = "Which provider?";

/// Title of the list of a provider's methods.
pub(super) fn method_list_title(offer: &ProviderOffer) -> String {
    format!("{}: how?", offer.title)
}

/// Title of the entry of a key.
pub(super) fn key_title(offer: &ProviderOffer, page: Option<&str>) -> String {
    let page = page.map_or(String::new(), |page| format!(" Keys are made at {page}"));
    format!(
        "Key for {}: paste it, it is not shown. Enter checks and stores it, Esc goes back.{page}",
        offer.title
    )
}

/// Message while a key is checked.
pub(super) fn checking_key(offer: &ProviderOffer) -> String {
    format!("Asking {} about the key …", offer.title)
}

/// Message after a key is stored.
pub(super) fn key_stored(offer: &ProviderOffer, remark: Option<&str>) -> String {
    match remark {
        None => format!("{}: the key works and is stored.", offer.title),
        Some(remark) => format!("{}: the key is stored, but not checked: {remark}.", offer.title),
    }
}

/// Message about an empty entry.
pub(super) const NO_KEY: &str = "there is no key: paste it, or go back with Esc";

/// Message for an entry that contains more than a key.
pub(super) const MORE_THAN_KEY: &str = "that is more than a key: it holds spaces or line breaks";

/// Message with the address of a sign-in.
pub(super) const OPEN_ADDRESS: &str = "Open this address and sign in:";

/// Title of the entry while a sign-in waits.
pub(super) const PASTE_ANSWER: &str = "Waiting for the browser. If it cannot come back here, paste the address it ends at, \
                                       or the code it shows. Esc goes back.";

/// Message after a sign-in.
pub(super) fn signed_in(provider: &str) -> String {
    format!("Signed in to {provider}.")
}

/// Message for a sign-in on a terminal without key input.
pub(super) fn sign_in_elsewhere(provider: &str) -> String {
    format!("Sign in with `zk auth login {provider}` in another terminal, then choose it here again.")
}

/// Message for an unknown provider.
pub(super) fn unknown_provider(name: &str, hint: &str) -> String {
    format!("there is no provider {name} to sign in to{hint}")
}

/// Message for settings that do not keep a choice.
pub(super) fn choice_not_kept(why: &str) -> String {
    format!("The choice is not kept for the next start: {why}")
}

/// Prompt of a list in lines.
pub(super) const NUMBER: &str = "Type a number or a name; an empty line goes back.";

/// Message for a line that names no row.
pub(super) const NO_ROW: &str = "there is no such row: type one of the numbers";

//! Vendors that answered the recorded chats, as zk knows them.

use std::sync::Arc;

use zk_core::service::Provider;
use zk_providers::{Clocks, Compat, CompatProfile, Connection, ToolChoices, Vendor};

use super::Exchange;

/// Vendors of recorded chats, with zk's rows. The others have no special row.
const ROWS: &[(&str, &str)] = &[
    ("azure", "openai_chat"),
    ("deepseek", "deepseek"),
    ("groq", "groq"),
    ("llamacpp", "llama.cpp"),
    ("mistral", "mistral"),
    ("openai", "openai_chat"),
    ("openrouter", "openrouter"),
];

/// xAI's row uses another dialect; its profile is for manual configuration.
const PROFILES: &[(&str, &str)] = &[("xai", "xai")];

/// The vendor's own settings for Chat Completions.
pub(super) fn profile(exchange: &Exchange) -> CompatProfile {
    let is_it = |(name, _): &&(&str, &str)| *name == exchange.provider();
    if let Some((_, row)) = ROWS.iter().find(is_it) {
        return Vendor::named(row).expect("a row").profile();
    }
    match PROFILES.iter().find(is_it) {
        Some((_, name)) => CompatProfile::named(name).expect("a profile"),
        // The recorded servers call the tool they are given.
        None => CompatProfile { tool_choice: ToolChoices::All, ..CompatProfile::default() },
    }
}

/// Provider as configured for this vendor, with the server at `url`.
pub(super) fn provider(exchange: &Exchange, url: &str) -> Arc<dyn Provider> {
    let row = ROWS.iter().find(|(name, _)| *name == exchange.provider());
    let vendor = row.and_then(|(_, row)| Vendor::named(row));
    let connection = vendor.map_or_else(|| Connection::at(url), Vendor::connection);
    let connection = Connection { clocks: Some(Clocks::remote()), ..connection.base_url(url).key("k-test") };
    match vendor {
        Some(vendor) => vendor.provider(connection).expect("valid options"),
        None => Arc::new(Compat::new(connection, profile(exchange)).expect("valid options")),
    }
}

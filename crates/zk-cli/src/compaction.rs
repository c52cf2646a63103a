//! How conversations are made smaller, as the settings say.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_compaction::{Focus, Rolling, Shorten, Subgoal, Summary, Tail, ToolPairs, Window};
use zk_core::kernel::Plugin;
use zk_providers::VendorDialect;

use crate::app::AppContext;
use crate::endpoint::NamedProvider;
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;
use crate::shared_lines::SharedLines;

/// What `compaction.strategy` can be.
pub(crate) const STRATEGIES: &[&str] =
    &["summary", "rolling", "subgoal", "subgoal_mig", "focus", "shorten", SERVER];

/// The provider makes its context smaller itself.
const SERVER: &str = "server";

/// From how many tokens on OpenAI compacts; Anthropic does so at as many by itself.
const THRESHOLD: u32 = 150_000;

/// How often parts are merged, of the strategy `focus`.
const MIN_WINDOW: &str = "compaction.auto_consolidate_min_window";

/// The owner of the context window and its strategies; none where the settings say so.
pub(crate) fn plugins(settings: &Settings) -> Outcome<Vec<Arc<dyn Plugin>>> {
    let chosen = settings.text("compaction.strategy");
    check(settings, chosen)?;
    if !settings.flag("shorten") {
        return Ok(Vec::new());
    }
    let mut plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(Window::default())];
    if settings.flag("compaction.tail") {
        plugins.push(Arc::new(Tail::default()));
    }
    if settings.flag("compaction.tool_pairs") {
        plugins.push(Arc::new(ToolPairs));
    }
    match chosen {
        Some("shorten" | SERVER) => {}
        Some("rolling") => plugins.push(Arc::new(Rolling)),
        Some("subgoal") => plugins.push(Arc::new(Subgoal::default())),
        Some("subgoal_mig") => plugins.push(Arc::new(Subgoal::by_gain())),
        Some("focus") => {
            let focus = Focus::default();
            let turns = settings.count(MIN_WINDOW);
            plugins.push(Arc::new(turns.map_or(focus, |turns| focus.auto_consolidate_min_window(turns))));
        }
        Some(_) | None => plugins.push(Arc::new(Summary)),
    }
    // What needs no model helps where the others cannot.
    plugins.push(Arc::new(Shorten));
    Ok(plugins)
}

/// Where lines of what left conversations are kept for later ones: only where a person is there.
pub(crate) fn shared_lines(app: &AppContext) -> Option<Arc<dyn Plugin>> {
    let path = app.dirs.shared_lines().filter(|_| app.settings.flag("shorten"))?;
    let writes = app.settings.flag_or("compaction.shared_lines", true);
    Some(Arc::new(SharedLines::new(path, &app.project, writes, app.redactor.clone())))
}

/// Refuses choices that contradict each other.
fn check(settings: &Settings, chosen: Option<&str>) -> Outcome<()> {
    let wrong = |what: &str, why: &str| {
        let text = format!("{what}: {why}; take one of them out of the settings");
        Err(Failure::usage(text))
    };
    let name = chosen.unwrap_or_default();
    if !settings.flag("shorten") && chosen.is_some() {
        let both = format!("`shorten = false` and `compaction.strategy = \"{name}\"`");
        return wrong(&both, "one leaves every conversation as it is, the other makes it smaller");
    }
    if matches!(name, "subgoal" | "subgoal_mig") && settings.flag("compaction.tail") {
        let both = format!("`compaction.tail = true` and `compaction.strategy = \"{name}\"`");
        return wrong(&both, "one leaves results out by their age, the other by what they belong to");
    }
    if settings.count(MIN_WINDOW).is_some() && name != "focus" {
        return wrong(
            &format!("`{MIN_WINDOW}` without `compaction.strategy = \"focus\"`"),
            "no other strategy merges anything",
        );
    }
    Ok(())
}

/// Has a provider compact its context itself, where the settings say so: adds to the options of its dialect.
pub(crate) fn ask_server(
    settings: &Settings,
    provider: &NamedProvider,
    options: &mut Map<String, Value>,
) -> Outcome<()> {
    if settings.text("compaction.strategy") != Some(SERVER) || options.contains_key("context_management") {
        return Ok(());
    }
    let asked = match provider.vendor.dialect {
        _ if provider.ready.is_some() => None,
        VendorDialect::Anthropic => Some(json!({"edits": [{"type": "compact_20260112"}]})),
        VendorDialect::Responses => Some(json!([{"type": "compaction", "compact_threshold": THRESHOLD}])),
        VendorDialect::Chat(_)
        | VendorDialect::Subscription
        | VendorDialect::Gemini
        | VendorDialect::Ollama
        | VendorDialect::Own(_) => None,
    };
    let Some(asked) = asked else {
        return Err(Failure::usage(format!(
            "`compaction.strategy = \"{SERVER}\"`: the provider `{}` does not compact conversations itself; choose another \
             strategy, or another provider",
            provider.name
        )));
    };
    options.insert("context_management".to_owned(), asked);
    Ok(())
}

//! How agents, tools and policies behave, as the settings say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zk_agent::{Behavior, DedupKey, OnExceed, OutputBudget, ThinkingDecay, ToolBudget, ToolSet};
use zk_core::events::ToolBegin;
use zk_core::kernel::{Bus, Cx, Plugin, Reach};
use zk_core::model::Budget;
use zk_core::service::{CallPlace, Tool};
use zk_tools::{Compress, Spill, ToolsOptions};

use crate::settings::Settings;

/// The behaviour of the agent, but for what a run is asked.
pub(crate) fn behavior(settings: &Settings, bus: &Bus) -> Behavior {
    Behavior {
        max_turns: settings.count("max_turns"),
        max_tokens: settings.count("max_tokens"),
        budget: budget(settings),
        tool_budgets: tool_budgets(settings),
        dedup_tools: dedup_tools(settings, bus),
        tool_output_budget: output_budget(settings),
        thinking_decay: thinking_decay(settings),
        ..Behavior::default()
    }
}

/// What the conversation may cost.
fn budget(settings: &Settings) -> Option<Budget> {
    let tokens = settings.count("max_tokens_total").map(u64::from);
    let budget = Budget { usd: settings.number("max_budget_usd"), tokens };
    (!budget.is_unlimited()).then_some(budget)
}

fn tool_budgets(settings: &Settings) -> BTreeMap<String, ToolBudget> {
    let steers = settings.text("tools.over_budget") == Some("steer");
    let table = settings.table(&["tools", "budgets"]).unwrap_or_default();
    let budgets = table.into_iter().filter_map(|(tool, max)| {
        let on_exceed = if steers { OnExceed::Steer } else { OnExceed::Block };
        Some((tool, ToolBudget { max: max.as_integer()?.try_into().ok()?, on_exceed }))
    });
    budgets.collect()
}

/// A call of these tools that repeats the last one gets its result, unless something was changed in between.
fn dedup_tools(settings: &Settings, bus: &Bus) -> BTreeMap<String, DedupKey> {
    let names = settings.names("tools.dedup");
    if names.is_empty() {
        return BTreeMap::new();
    }
    let changes = Arc::new(AtomicU64::new(0));
    let count = changes.clone();
    bus.scope("dedup").on_sync_at(Reach::Descendants, move |begin: &ToolBegin, _: &Cx| {
        if !begin.read_only {
            count.fetch_add(1, Ordering::AcqRel);
        }
    });
    let key: DedupKey = Arc::new(move |args| Some(format!("{} {args}", changes.load(Ordering::Acquire))));
    names.into_iter().map(|name| (name, key.clone())).collect()
}

fn output_budget(settings: &Settings) -> Option<OutputBudget> {
    let share = settings
        .count("tools.output_budget_percent")
        .map(|percent| OutputBudget::OfWindow { percent: percent.min(100) });
    settings.count("tools.output_budget").map(|bytes| OutputBudget::Bytes(bytes as usize)).or(share)
}

fn thinking_decay(settings: &Settings) -> Option<ThinkingDecay> {
    let after_turn = settings.count("thinking_decay.after_turn")?;
    let factor = settings.number("thinking_decay.factor").unwrap_or(0.5);
    let floor = settings.count("thinking_decay.floor").unwrap_or(1_024);
    Some(ThinkingDecay::Geometric { after_turn, factor, floor })
}

/// The built-in tools.
pub(crate) fn tools_options(settings: &Settings) -> ToolsOptions {
    let usual = ToolsOptions::default();
    ToolsOptions {
        dedup_reads: settings.flag_or("tools.dedup_reads", usual.dedup_reads),
        read_before_edit: settings.flag_or("tools.read_before_edit", usual.read_before_edit),
        line_numbers: settings.flag_or("tools.line_numbers", usual.line_numbers),
        ..usual
    }
}

/// Which tools the model is offered.
pub(crate) fn tool_set(settings: &Settings, bus: &Bus) -> ToolSet {
    let (allowed, disallowed) = (settings.names("tools.allowed"), settings.names("tools.disallowed"));
    let set = match (settings.flag("tools.read_only"), allowed) {
        (false, allowed) if allowed.is_empty() => ToolSet::All,
        (false, allowed) => ToolSet::Only(allowed),
        (true, allowed) => ToolSet::Only(reading(bus, &allowed)),
    };
    if disallowed.is_empty() { set } else { ToolSet::Except(Box::new(set), disallowed) }
}

/// The tools that only read, of those that are allowed.
fn reading(bus: &Bus, allowed: &[String]) -> Vec<String> {
    let nothing = serde_json::Value::Object(serde_json::Map::new());
    let place = CallPlace { cx: bus.cx(), cwd: ".".into() };
    let is_allowed = ToolSet::Only(allowed.to_vec());
    let tools = bus.items::<dyn Tool>().into_iter();
    let reading = tools.filter(|tool| tool.value.effects(&nothing, &place).is_read_only());
    let named = reading.filter(|tool| allowed.is_empty() || is_allowed.has(&tool.name));
    named.map(|tool| tool.name.to_string()).collect()
}

/// What is done with the results of tools, in this order.
pub(crate) fn result_policies(settings: &Settings) -> Vec<Arc<dyn Plugin>> {
    match settings.text("tools.compress") {
        Some("off") => Vec::new(),
        Some("model") => vec![Arc::new(Compress::new().asking_model())],
        Some(_) | None => vec![Arc::new(Compress::new())],
    }
}

/// Huge results in files of `dir`.
pub(crate) fn spill(settings: &Settings, dir: &std::path::Path) -> Spill {
    let spill = Spill::new(dir);
    let spill = match settings.count("tools.spill_bytes") {
        Some(bytes) => spill.threshold(bytes as usize),
        None => spill,
    };
    settings.names("tools.spill_except").into_iter().fold(spill, Spill::except)
}

//! Behaviour of agents, tools and policies, as the settings say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zk_agent::{Behavior, DedupKey, OnExceed, OutputBudget, QueueMode, ThinkingDecay, ToolBudget, ToolSet};
use zk_core::events::ToolBegin;
use zk_core::kernel::{Bus, Cx, Plugin, Reach};
use zk_core::model::Budget;
use zk_core::service::Tool;
use zk_tools::{Compress, Spill, ToolsOptions};

use crate::settings::Settings;
use crate::suggest::did_you_mean;

/// Beginning of the names of tools that servers bring.
const SERVER_TOOL_PREFIX: &str = "mcp__";

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
        queue_mode: queue_mode(settings, "queue_mode"),
        follow_up_mode: queue_mode(settings, "follow_up_mode"),
        max_concurrent_tools: settings.count("tools.max_concurrent").map(|most| most as usize),
        ..Behavior::default()
    }
}

/// Returns whether all waiting messages join the conversation at a time, or one.
fn queue_mode(settings: &Settings, key: &str) -> Option<QueueMode> {
    settings.text(key).map(|mode| if mode == "all" { QueueMode::All } else { QueueMode::One })
}

/// Returns the budget of the conversation.
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
    let count = |key, usual| settings.count(key).map_or(usual, |count| count as usize);
    let bytes = |key, usual| settings.count(key).map_or(usual, u64::from);
    let seconds = |key| settings.count(key).map(|most| Duration::from_secs(most.into()));
    let shell_timeout = seconds("tools.shell_seconds").unwrap_or(usual.shell_timeout);
    let shell_timeout_max = seconds("tools.shell_seconds_max").unwrap_or(usual.shell_timeout_max);
    ToolsOptions {
        read_lines: bytes("tools.read_lines", usual.read_lines),
        read_bytes: bytes("tools.read_bytes", usual.read_bytes),
        shell_bytes: count("tools.shell_bytes", usual.shell_bytes),
        output_file_bytes: settings
            .count("tools.output_file_mb")
            .map_or(usual.output_file_bytes, |most| u64::from(most) << 20),
        shell_timeout,
        shell_timeout_max: shell_timeout_max.max(shell_timeout),
        shell_prefix: settings.text("tools.shell_prefix").map(str::to_owned),
        shell_footer: settings.flag_or("tools.shell_footer", usual.shell_footer),
        grep_results: count("tools.grep_results", usual.grep_results),
        glob_results: count("tools.glob_results", usual.glob_results),
        dedup_reads: settings.flag_or("tools.dedup_reads", usual.dedup_reads),
        read_before_edit: settings.flag_or("tools.read_before_edit", usual.read_before_edit),
        line_numbers: settings.flag_or("tools.line_numbers", usual.line_numbers),
        ..usual
    }
}

/// Which tools the model is offered.
pub(crate) fn tool_set(settings: &Settings) -> ToolSet {
    let (allowed, disallowed) = (tools(settings, "tools.allowed"), tools(settings, "tools.disallowed"));
    let set = if allowed.is_empty() { ToolSet::All } else { ToolSet::Only(allowed) };
    let set = if settings.flag("tools.read_only") { ToolSet::Reading(Box::new(set)) } else { set };
    if disallowed.is_empty() { set } else { ToolSet::Except(Box::new(set), disallowed) }
}

/// The tools that a setting names, also as other programs call them.
fn tools(settings: &Settings, key: &str) -> Vec<String> {
    let canonical = |name: String| {
        // Other programs write them with a capital; one of zk's own means itself alone.
        let is_foreign = name.starts_with(|first: char| first.is_ascii_uppercase());
        let known = if is_foreign { zk_skills::tool_names(&name) } else { Vec::new() };
        if known.is_empty() { vec![name] } else { known }
    };
    settings.names(key).into_iter().flat_map(canonical).collect()
}

/// Reason why a list of tools cannot be meant as it stands: a name that no tool has would leave one in, or leave none.
pub(crate) fn unknown_tool(settings: &Settings, key: &str, bus: &Bus) -> Option<String> {
    let registered: Vec<String> =
        bus.items::<dyn Tool>().into_iter().map(|tool| tool.name.to_string()).collect();
    // Some of zk's own are offered in some places only, and those of servers come when the servers have started.
    let own = zk_tools::NAMES.into_iter().chain(zk_skills::NAMES).chain(["spawn", "fetch"]);
    let mut known: Vec<&str> = registered.iter().map(String::as_str).chain(own).collect();
    known.sort_unstable();
    known.dedup();
    let is_unknown = |name: &String| match name.strip_suffix('*') {
        Some(begin) => {
            !begin.starts_with(SERVER_TOOL_PREFIX)
                && !SERVER_TOOL_PREFIX.starts_with(begin)
                && !known.iter().any(|known| known.starts_with(begin))
        }
        None => !name.starts_with(SERVER_TOOL_PREFIX) && !known.contains(&name.as_str()),
    };
    let name = tools(settings, key).into_iter().find(is_unknown)?;
    if name.contains('(') {
        return Some(format!(
            "there is no tool `{name}`: tools are named whole; rules with patterns belong in [permissions]"
        ));
    }
    let hint = did_you_mean(name.trim_end_matches('*'), known);
    Some(match name.ends_with('*') {
        true => format!("there is no tool that begins with `{}`{hint}", name.trim_end_matches('*')),
        false => format!("there is no tool `{name}`{hint}"),
    })
}

/// Returns the policies for the results of tools, in this order.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;
    use crate::settings::of_text;

    #[test]
    fn each_key_reaches_its_option() {
        let text = r#"
queue_mode = "all"
follow_up_mode = "all"
max_turns = 1
max_tokens = 2
max_budget_usd = 1.5
max_tokens_total = 3
[thinking_decay]
after_turn = 4
factor = 0.25
floor = 5
[tools]
dedup = ["grep"]
dedup_reads = false
read_before_edit = true
line_numbers = false
max_concurrent = 6
read_lines = 7
read_bytes = 8
shell_bytes = 9
shell_seconds = 10
shell_seconds_max = 11
shell_footer = false
shell_prefix = "source env"
grep_results = 12
glob_results = 13
output_file_mb = 14
over_budget = "steer"
output_budget = 15
[tools.budgets]
shell = 16
"#;
        let settings = of_text(text);
        let behavior = behavior(&settings, &Bus::new());
        let all = Some(QueueMode::All);
        assert_eq!((behavior.queue_mode, behavior.follow_up_mode), (all, all));
        assert_eq!((behavior.max_turns, behavior.max_tokens), (Some(1), Some(2)));
        assert_eq!(behavior.budget, Some(Budget { usd: Some(1.5), tokens: Some(3) }));
        assert_eq!(behavior.max_concurrent_tools, Some(6));
        let Some(ThinkingDecay::Geometric { after_turn, factor, floor }) = behavior.thinking_decay else {
            panic!("no decay")
        };
        assert_eq!((after_turn, factor, floor), (4, 0.25, 5));
        assert!(matches!(behavior.tool_output_budget, Some(OutputBudget::Bytes(15))));
        let budget = &behavior.tool_budgets["shell"];
        assert!(budget.max == 16 && matches!(budget.on_exceed, OnExceed::Steer));
        assert!(behavior.dedup_tools.contains_key("grep"));
        let expected = ToolsOptions {
            dedup_reads: false,
            read_before_edit: true,
            line_numbers: false,
            read_lines: 7,
            read_bytes: 8,
            shell_bytes: 9,
            output_file_bytes: 14 << 20,
            shell_timeout: Duration::from_secs(10),
            shell_timeout_max: Duration::from_secs(11),
            shell_footer: false,
            shell_prefix: Some("source env".to_owned()),
            grep_results: 12,
            glob_results: 13,
            ..ToolsOptions::default()
        };
        assert_eq!(tools_options(&settings), expected);
        let share = of_text("[tools]\noutput_budget_percent = 17\n");
        assert!(matches!(output_budget(&share), Some(OutputBudget::OfWindow { percent: 17 })));
        let most = limits::of_time(&of_text("[limits]\nseconds = 5\n"), expected);
        let five = Duration::from_secs(5);
        assert_eq!(
            (most.shell_timeout, most.shell_timeout_max, most.job_timeout_max),
            (five, five, Some(five))
        );
    }
}

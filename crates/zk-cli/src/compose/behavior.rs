//! Behaviour of agents, tools and policies, as the settings say.

use zk_agent::settings::CallSettings;
use zk_agent::{Behavior, ToolSet};
use zk_core::kernel::Bus;
use zk_core::service::{SERVER_TOOL_PREFIX, Tool};
use zk_settings::suggest::did_you_mean;

use crate::settings::{Settings, own_tools};

/// Returns the agent's behaviour from the settings.
pub(crate) fn behavior(settings: &Settings, bus: &Bus) -> Behavior {
    Behavior {
        dedup_tools: settings.calls.dedup_keys(bus),
        ..Behavior::of_settings(&settings.run, &settings.calls)
    }
}

/// Returns the set of tools offered to the model.
pub(crate) fn tool_set(calls: &CallSettings) -> ToolSet {
    calls.tool_set(resolve_tool_names)
}

/// Converts tool names, also those of other programs, to names of zk's tools.
fn resolve_tool_names(names: &[String]) -> Vec<String> {
    let canonical = |name: &String| {
        // Names of other programs begin with a capital; names of zk are used as they are.
        let is_foreign = name.starts_with(|first: char| first.is_ascii_uppercase());
        let known = if is_foreign { zk_skills::tool_names(name) } else { Vec::new() };
        if known.is_empty() { vec![name.clone()] } else { known }
    };
    names.iter().flat_map(canonical).collect()
}

/// Reports an unknown name in a list of tools, which would otherwise keep or remove the wrong tools.
pub(crate) fn unknown_tool(names: &[String], bus: &Bus) -> Option<String> {
    let registered: Vec<String> =
        bus.items::<dyn Tool>().into_iter().map(|tool| tool.name.to_string()).collect();
    // Tools of servers are only known after the servers started.
    let mut known: Vec<&str> = own_tools().collect();
    known.extend(registered.iter().map(String::as_str));
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
    let name = resolve_tool_names(names).into_iter().find(is_unknown)?;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zk_agent::{OnExceed, OutputBudget, QueueMode, ThinkingDecay};
    use zk_core::model::Budget;
    use zk_tools::ToolsOptions;

    use super::*;
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
        assert_eq!(settings.tools.clone().sorted_limits(), expected);
        let share = of_text("[tools]\noutput_budget_percent = 17\n");
        let budget = Behavior::of_settings(&share.run, &share.calls).tool_output_budget;
        assert!(matches!(budget, Some(OutputBudget::OfWindow { percent: 17 })));
        let most = expected.within(of_text("[limits]\nseconds = 5\n").limits.time().unwrap());
        let five = Duration::from_secs(5);
        assert_eq!(
            (most.shell_timeout, most.shell_timeout_max, most.job_timeout_max),
            (five, five, Some(five))
        );
    }
}

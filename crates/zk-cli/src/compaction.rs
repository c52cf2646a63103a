//! Compaction of conversations, as the settings say.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_compaction::settings::{CompactionSettings, StrategyName};
use zk_compaction::{
    Focus, LineFile, Rolling, Shorten, Subgoal, Summary, Tail, ToolPairs, Window, WindowOptions,
};
use zk_core::kernel::Plugin;
use zk_core::service::PluginSettings;
use zk_exec::LocalStateFiles;
use zk_providers::select::NamedProvider;
use zk_providers::{CompactAt, VendorDialect};

use crate::app::AppContext;
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;

/// Setting of the strategy `focus`: the turns between two merges of parts, at most.
const MIN_WINDOW: &str = "compaction.auto_consolidate_min_window";

/// The owner of the context window and its strategies; none where the settings say so.
pub(crate) fn plugins(settings: &Settings) -> Outcome<Vec<Arc<dyn Plugin>>> {
    let said = &settings.compaction;
    Choice::of(settings).check()?;
    if !settings.program.shorten {
        return Ok(Vec::new());
    }
    let mut plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(Window::default())];
    let of_tail = [("compaction.tail_bytes", said.tail_bytes), ("compaction.tail_turns", said.tail_turns)];
    if said.tail {
        plugins.push(Arc::new(tail(said)));
    } else if let Some((name, _)) = of_tail.into_iter().find(|(_, set)| set.is_some()) {
        let why = "has no effect; remove it, or set `compaction.tail = true`";
        return Err(Failure::usage(format!("`{name}` {why}")));
    }
    if said.tool_pairs {
        plugins.push(Arc::new(ToolPairs));
    }
    match said.strategy {
        Some(StrategyName::Shorten | StrategyName::Server) => {}
        Some(StrategyName::Rolling) => plugins.push(Arc::new(Rolling)),
        Some(StrategyName::Subgoal) => plugins.push(Arc::new(Subgoal::default())),
        Some(StrategyName::SubgoalMig) => plugins.push(Arc::new(Subgoal::by_gain())),
        Some(StrategyName::Focus) => {
            let focus = Focus::default();
            let turns = said.auto_consolidate_min_window;
            plugins.push(Arc::new(turns.map_or(focus, |turns| focus.auto_consolidate_min_window(turns))));
        }
        Some(StrategyName::Summary) | None => plugins.push(Arc::new(Summary)),
    }
    // A strategy without a model helps where the others cannot.
    plugins.push(Arc::new(Shorten));
    Ok(plugins)
}

fn tail(said: &CompactionSettings) -> Tail {
    let tail = Tail::default();
    let tail = match said.tail_bytes {
        Some(bytes) => tail.threshold(bytes as usize),
        None => tail,
    };
    match said.tail_turns {
        Some(turns) => tail.keep_turns(turns as usize),
        None => tail,
    }
}

/// Returns the plugin that keeps lines of what left conversations for later ones: only where a person is
/// there.
pub(crate) fn shared_lines(app: &AppContext) -> Option<Arc<dyn Plugin>> {
    let path = app.dirs.shared_lines().filter(|_| app.settings.program.shorten)?;
    let writes = app.settings.compaction.shared_lines;
    let files = Arc::new(LocalStateFiles::default());
    Some(Arc::new(LineFile::new(path, &app.project, writes, app.redactor.clone(), files)))
}

/// Choices of the settings among the ways to make a conversation smaller.
#[derive(Clone, Copy)]
struct Choice {
    shorten: bool,
    strategy: Option<StrategyName>,
    tail: bool,
    tool_pairs: bool,
    min_window: bool,
}

impl Choice {
    fn of(settings: &Settings) -> Self {
        let said = &settings.compaction;
        Self {
            shorten: settings.program.shorten,
            strategy: said.strategy,
            tail: said.tail,
            tool_pairs: said.tool_pairs,
            min_window: said.auto_consolidate_min_window.is_some(),
        }
    }

    /// Refuses choices that contradict each other.
    fn check(&self) -> Outcome<()> {
        let strategy = self.strategy.map(|chosen| format!("compaction.strategy = \"{}\"", chosen.name()));
        let is_by_subgoal = matches!(self.strategy, Some(StrategyName::Subgoal | StrategyName::SubgoalMig));
        let (tail, tool_pairs) = ("compaction.tail = true", "compaction.tool_pairs = true");
        let both = |one: &str, other: &str| format!("`{one}` and `{other}`");
        let chosen = strategy.as_deref().unwrap_or_default();
        let found = if !self.shorten {
            let other = match (&strategy, self.tail, self.tool_pairs, self.min_window) {
                (Some(strategy), ..) => Some(strategy.as_str()),
                (None, true, ..) => Some(tail),
                (None, false, true, _) => Some(tool_pairs),
                (None, false, false, true) => Some(MIN_WINDOW),
                (None, false, false, false) => None,
            };
            let why = "one leaves every conversation as it is, the other makes it smaller";
            other.map(|other| (both("shorten = false", other), why))
        } else if self.tail && self.tool_pairs {
            let why = "one leaves older results out, the other sends a summary of each";
            Some((both(tail, tool_pairs), why))
        } else if self.tail && is_by_subgoal {
            let why = "one leaves results out by their age, the other by what they belong to";
            Some((both(tail, chosen), why))
        } else if self.strategy == Some(StrategyName::Server) && (self.tail || self.tool_pairs) {
            let why = "one leaves it to the provider what it keeps, the other decides about results here";
            Some((both(if self.tail { tail } else { tool_pairs }, chosen), why))
        } else if self.min_window && self.strategy != Some(StrategyName::Focus) {
            let text = format!("`{MIN_WINDOW}` without `compaction.strategy = \"focus\"`");
            Some((text, "no other strategy merges anything"))
        } else {
            None
        };
        let refuse = |(what, why): (String, &str)| {
            Failure::usage(format!("{what}: {why}; take one of them out of the settings"))
        };
        found.map_or(Ok(()), |found| Err(refuse(found)))
    }
}

/// Has a provider compact its context itself, where the settings say so: adds to the options of its dialect.
pub(crate) fn ask_server(
    settings: &Settings,
    provider: &NamedProvider,
    options: &mut Map<String, Value>,
) -> Outcome<()> {
    if settings.compaction.strategy != Some(StrategyName::Server)
        || options.contains_key("context_management")
    {
        return Ok(());
    }
    let asked = match provider.vendor.dialect {
        _ if provider.prebuilt.is_some() => None,
        VendorDialect::Anthropic => Some(json!({"edits": [{"type": "compact_20260112"}]})),
        VendorDialect::Responses => Some(json!([{"type": "compaction"}])),
        VendorDialect::Chat(_)
        | VendorDialect::Subscription
        | VendorDialect::Gemini
        | VendorDialect::Ollama
        | VendorDialect::Own(_) => None,
    };
    let Some(asked) = asked else {
        return Err(Failure::usage(format!(
            "`compaction.strategy = \"server\"`: the provider `{}` does not compact conversations itself; choose another \
             strategy, or another provider",
            provider.name
        )));
    };
    options.insert("context_management".to_owned(), asked);
    if !options.contains_key("compact_at") {
        let window: WindowOptions = PluginSettings::table(settings, Window::default().name())
            .map_or_else(|| Ok(WindowOptions::default()), serde_json::from_value)
            .map_err(|error| Failure::usage(format!("`[plugins.context-window]`: {error}")))?;
        // Between both thresholds: what is done here comes after it, where it does not suffice.
        let at = CompactAt { part: f64::midpoint(window.soft, window.hard), reserve: window.reserve };
        options.insert("compact_at".to_owned(), serde_json::to_value(at).map_err(Failure::failed)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_any_two_choices_those_that_contradict_each_other_are_refused_and_both_are_named() {
        let none =
            Choice { shorten: true, strategy: None, tail: false, tool_pairs: false, min_window: false };
        let strategies = StrategyName::ALL
            .into_iter()
            .map(|strategy| (strategy.name(), Choice { strategy: Some(strategy), ..none }));
        let mut choices: Vec<(&str, Choice)> = vec![
            ("shorten = false", Choice { shorten: false, ..none }),
            ("tail", Choice { tail: true, ..none }),
            ("tool_pairs", Choice { tool_pairs: true, ..none }),
            ("auto_consolidate_min_window", Choice { min_window: true, ..none }),
        ];
        choices.extend(strategies);
        let mut refused = Vec::new();
        for (at, (name, one)) in choices.iter().enumerate() {
            for (other_name, other) in &choices[at + 1..] {
                let pair = Choice {
                    shorten: one.shorten && other.shorten,
                    strategy: one.strategy.or(other.strategy),
                    tail: one.tail || other.tail,
                    tool_pairs: one.tool_pairs || other.tool_pairs,
                    min_window: one.min_window || other.min_window,
                };
                if one.strategy.is_some() && other.strategy.is_some() {
                    // A setting has one value.
                    continue;
                }
                if let Err(error) = pair.check() {
                    let text = error.to_string();
                    // One that needs another choice names that.
                    let needs = pair.min_window && pair.shorten;
                    let named =
                        if needs { ["auto_consolidate_min_window", "focus"] } else { [*name, *other_name] };
                    assert!(named.iter().all(|it| text.contains(it)), "{name}, {other_name}: {text}");
                    refused.push(format!("{name} + {other_name}"));
                }
            }
        }
        let mut expected: Vec<String> =
            choices[1..].iter().map(|(name, _)| format!("shorten = false + {name}")).collect();
        expected.extend(
            [
                "tail + tool_pairs",
                "tail + auto_consolidate_min_window",
                "tail + subgoal",
                "tail + subgoal_mig",
                "tail + server",
                "tool_pairs + auto_consolidate_min_window",
                "tool_pairs + server",
                "auto_consolidate_min_window + summary",
                "auto_consolidate_min_window + rolling",
                "auto_consolidate_min_window + subgoal",
                "auto_consolidate_min_window + subgoal_mig",
                "auto_consolidate_min_window + shorten",
                "auto_consolidate_min_window + server",
            ]
            .map(str::to_owned),
        );
        assert_eq!(refused, expected);
    }
}

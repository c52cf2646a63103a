use super::{CompactionSettings, StrategyName};

/// Setting of the strategy `focus`: fewest turns between two merges of sections.
const MIN_WINDOW: &str = "compaction.auto_consolidate_min_window";

/// Setting of the strategy `stale_reads`, as written.
const STALE_READS: &str = "compaction.elide_stale_reads = true";

/// Invalid combination of compaction settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompactionChoiceError {
    /// Two settings contradict each other.
    #[error("{choices}: {why}; take one of them out of the settings")]
    Contradiction {
        /// Both settings, as written.
        choices: String,
        /// Reason for the contradiction.
        why: &'static str,
    },
    /// A setting of the strategy `tail` is given, but the strategy is off.
    #[error("`{key}` has no effect; remove it, or set `compaction.tail = true`")]
    WithoutTail {
        /// The setting.
        key: &'static str,
    },
}

/// Compaction settings that depend on each other.
#[derive(Clone, Copy)]
pub(super) struct Choices {
    shorten: bool,
    strategy: Option<StrategyName>,
    tail: bool,
    tool_pairs: bool,
    min_window: bool,
    stale_reads: bool,
}

impl Choices {
    pub(super) fn of(said: &CompactionSettings, shorten: bool) -> Self {
        Self {
            shorten,
            strategy: said.strategy,
            tail: said.tail,
            tool_pairs: said.tool_pairs,
            min_window: said.auto_consolidate_min_window.is_some(),
            stale_reads: said.elide_stale_reads,
        }
    }

    /// Checks the combination of settings.
    pub(super) fn check(&self) -> Result<(), CompactionChoiceError> {
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
                (None, false, false, false) => self.stale_reads.then_some(STALE_READS),
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
        found.map_or(Ok(()), |(choices, why)| Err(CompactionChoiceError::Contradiction { choices, why }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_any_two_choices_those_that_contradict_each_other_are_refused_and_both_are_named() {
        let none = CompactionSettings::default();
        let none = Choices::of(&none, true);
        let strategies = StrategyName::ALL
            .into_iter()
            .map(|strategy| (strategy.name(), Choices { strategy: Some(strategy), ..none }));
        let mut choices: Vec<(&str, Choices)> = vec![
            ("shorten = false", Choices { shorten: false, ..none }),
            ("tail", Choices { tail: true, ..none }),
            ("tool_pairs", Choices { tool_pairs: true, ..none }),
            ("auto_consolidate_min_window", Choices { min_window: true, ..none }),
            ("elide_stale_reads", Choices { stale_reads: true, ..none }),
        ];
        choices.extend(strategies);
        let mut refused = Vec::new();
        for (at, (name, one)) in choices.iter().enumerate() {
            for (other_name, other) in &choices[at + 1..] {
                let pair = Choices {
                    shorten: one.shorten && other.shorten,
                    strategy: one.strategy.or(other.strategy),
                    tail: one.tail || other.tail,
                    tool_pairs: one.tool_pairs || other.tool_pairs,
                    min_window: one.min_window || other.min_window,
                    stale_reads: one.stale_reads || other.stale_reads,
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
                "auto_consolidate_min_window + elide_stale_reads",
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

//! Effort levels of reasoning, with a provider's value for each.

use std::borrow::Cow;

use zk_core::model::ThinkingLevel;

/// Effort levels, lowest first, with the usual value of each in APIs.
const DEFAULT_VALUES: [(&str, &str); 7] = [
    ("off", "none"),
    ("minimal", "minimal"),
    ("low", "low"),
    ("medium", "medium"),
    ("high", "high"),
    ("xhigh", "xhigh"),
    ("max", "max"),
];

/// Index of `high`.
const HIGH: usize = 4;

/// Effort levels of one model, each with its value in the API. Empty if they are not known.
///
/// ```
/// use zk_core::model::ThinkingLevel;
/// use zk_providers::Efforts;
///
/// let efforts = Efforts::of([("low", None), ("high", Some("default".into()))]);
/// assert_eq!(efforts.value(ThinkingLevel::XHigh), Some("default"));
/// assert_eq!(efforts.value(ThinkingLevel::Off), Some("low"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Efforts([Option<Cow<'static, str>>; DEFAULT_VALUES.len()]);

impl Efforts {
    /// Names of the levels, lowest first. Same as [`ThinkingLevel`] without `adaptive`.
    pub const LEVELS: [&'static str; 7] = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

    /// Creates the levels, each with its value if it is not the usual one. Unknown levels are ignored.
    pub fn of<'a>(levels: impl IntoIterator<Item = (&'a str, Option<Cow<'static, str>>)>) -> Self {
        let mut efforts = Self::default();
        for (level, word) in levels {
            let mut places = DEFAULT_VALUES.iter().zip(&mut efforts.0);
            if let Some(((_, usual), place)) = places.find(|((name, _), _)| *name == level) {
                *place = Some(word.unwrap_or(Cow::Borrowed(usual)));
            }
        }
        efforts
    }

    /// Iterates over the levels, lowest first, with their values.
    pub fn levels(&self) -> impl Iterator<Item = (&'static str, &str)> {
        DEFAULT_VALUES.iter().zip(&self.0).filter_map(|((level, _), word)| Some((*level, word.as_deref()?)))
    }

    /// Whether the levels are not known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Whether reasoning can be turned off.
    #[must_use]
    pub fn can_be_off(&self) -> bool {
        matches!(self.0, [Some(_), ..])
    }

    /// Whether there are several levels besides off.
    #[must_use]
    pub fn has_steps(&self) -> bool {
        self.0.iter().skip(1).flatten().count() > 1
    }

    /// Returns the value for a level, clamped to the nearest level of the model; `None` leaves it to the
    /// provider.
    #[must_use]
    pub fn value(&self, level: ThinkingLevel) -> Option<&str> {
        let wanted = match level {
            ThinkingLevel::Adaptive => return None,
            _ if self.is_unknown() => return default_value(level),
            _ => DEFAULT_VALUES.iter().position(|(name, _)| *name == level.as_str())?,
        };
        // A request for reasoning is never clamped to off.
        let first = usize::from(level != ThinkingLevel::Off);
        let words =
            self.0.iter().enumerate().skip(first).filter_map(|(at, word)| Some((at, word.as_deref()?)));
        // Of two equally near levels, the one nearer to the provider's usual default counts.
        words.min_by_key(|(at, _)| (at.abs_diff(wanted), at.abs_diff(HIGH))).map(|(_, word)| word)
    }
}

/// Returns the values that nearly every reasoning model accepts: few accept the lowest and the highest.
fn default_value(level: ThinkingLevel) -> Option<&'static str> {
    match level {
        // Leaving the field out is the safest way to request no reasoning.
        ThinkingLevel::Adaptive | ThinkingLevel::Off => None,
        ThinkingLevel::Minimal | ThinkingLevel::Low => Some("low"),
        ThinkingLevel::Medium => Some("medium"),
        ThinkingLevel::High | ThinkingLevel::XHigh | ThinkingLevel::Max => Some("high"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn efforts(levels: &[&'static str]) -> Efforts {
        Efforts::of(levels.iter().map(|level| (*level, None)))
    }

    #[test]
    fn the_names_of_the_levels_are_those_of_the_table() {
        assert_eq!(DEFAULT_VALUES.map(|(name, _)| name), Efforts::LEVELS);
        assert_eq!(DEFAULT_VALUES[HIGH].0, "high");
        for level in ThinkingLevel::ALL {
            let is_step = Efforts::LEVELS.contains(&level.as_str());
            assert_eq!(is_step, level != ThinkingLevel::Adaptive, "{level:?}");
        }
    }

    #[test]
    fn a_supported_level_is_sent_as_the_model_names_it() {
        let efforts =
            Efforts::of([("off", None), ("minimal", Some("low".into())), ("high", Some("on".into()))]);
        assert_eq!(efforts.value(ThinkingLevel::Off), Some("none"));
        assert_eq!(efforts.value(ThinkingLevel::Minimal), Some("low"));
        assert_eq!(efforts.value(ThinkingLevel::High), Some("on"));
    }

    #[test]
    fn a_level_the_model_lacks_is_the_nearest_it_has_and_of_two_the_one_nearer_to_high() {
        let few = efforts(&["off", "low", "high", "max"]);
        assert_eq!(few.value(ThinkingLevel::Minimal), Some("low"));
        assert_eq!(few.value(ThinkingLevel::Medium), Some("high"));
        assert_eq!(few.value(ThinkingLevel::XHigh), Some("high"));
        assert_eq!(few.value(ThinkingLevel::Max), Some("max"));
        assert_eq!(efforts(&["low", "xhigh"]).value(ThinkingLevel::Max), Some("xhigh"));
        assert_eq!(efforts(&["high"]).value(ThinkingLevel::Low), Some("high"));
    }

    #[test]
    fn a_model_that_cannot_be_off_reasons_as_little_as_it_can() {
        let always = efforts(&["medium", "high"]);
        assert!(!always.can_be_off() && efforts(&["off", "low"]).can_be_off());
        assert_eq!(always.value(ThinkingLevel::Off), Some("medium"));
        assert!(always.has_steps() && !efforts(&["off", "high"]).has_steps());
    }

    #[test]
    fn thinking_that_was_asked_for_is_not_turned_off() {
        assert_eq!(efforts(&["off", "max"]).value(ThinkingLevel::Minimal), Some("max"));
        assert_eq!(efforts(&["off"]).value(ThinkingLevel::High), None);
    }

    #[test]
    fn where_nothing_is_known_only_common_words_are_used() {
        let words = ThinkingLevel::ALL.map(|level| Efforts::default().value(level).unwrap_or("-").to_owned());
        assert_eq!(words, ["-", "low", "low", "medium", "high", "high", "high", "-"]);
    }
}

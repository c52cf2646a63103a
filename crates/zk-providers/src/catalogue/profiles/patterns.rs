//! Patterns that match model names.

use std::borrow::Cow;

use regex_lite::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::profile::{CacheMarks, CompatProfile, FixedField, JsonSchemas, ReasoningEcho};

/// A set of models: one id, or all ids that match a case-insensitive regular expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct ModelPattern {
    text: Cow<'static, str>,
    is_exact: bool,
}

/// The pattern is not a valid regular expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is no pattern of model ids: {reason}. Write a regular expression")]
pub struct PatternError {
    /// Pattern as given.
    pub pattern: String,
    /// Description of the problem.
    pub reason: String,
}

/// Form of a [`ModelPattern`] in settings: `"^deepseek"` or `{exactly = "deepseek-flash"}`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Pattern(String),
    Exactly { exactly: String },
}

impl TryFrom<Written> for ModelPattern {
    type Error = PatternError;

    fn try_from(written: Written) -> Result<Self, PatternError> {
        match written {
            Written::Pattern(pattern) => Self::new(&pattern),
            Written::Exactly { exactly } => Ok(Self::exactly(exactly)),
        }
    }
}

impl From<ModelPattern> for Written {
    fn from(pattern: ModelPattern) -> Self {
        let text = pattern.text.into_owned();
        if pattern.is_exact { Self::Exactly { exactly: text } } else { Self::Pattern(text) }
    }
}

impl ModelPattern {
    /// Matches models whose id contains a match of `pattern`, at any place unless anchored.
    ///
    /// # Errors
    /// [`PatternError`] when `pattern` is no valid regular expression.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        match compile(pattern) {
            Ok(_) => Ok(Self { text: Cow::Owned(pattern.to_owned()), is_exact: false }),
            Err(error) => Err(PatternError { pattern: pattern.to_owned(), reason: error.to_string() }),
        }
    }

    /// Matches the model with this id only.
    #[must_use]
    pub fn exactly(id: impl Into<String>) -> Self {
        Self { text: Cow::Owned(id.into()), is_exact: true }
    }

    pub(crate) const fn built_in(pattern: &'static str) -> Self {
        Self { text: Cow::Borrowed(pattern), is_exact: false }
    }

    fn matcher(&self) -> Matcher {
        // Settings are checked when they are read, and a test compiles the built-in patterns.
        match (self.is_exact, compile(&self.text)) {
            (false, Ok(regex)) => Matcher::Regex(regex),
            (true, _) | (false, Err(_)) => Matcher::Exactly(self.text.to_string()),
        }
    }
}

fn compile(pattern: &str) -> Result<Regex, regex_lite::Error> {
    RegexBuilder::new(pattern).case_insensitive(true).build()
}

#[derive(Debug)]
enum Matcher {
    Exactly(String),
    Regex(Regex),
}

impl Matcher {
    fn matches(&self, id: &str) -> bool {
        match self {
            Self::Exactly(known) => known == id,
            Self::Regex(regex) => regex.is_match(id),
        }
    }

    fn is_exact(&self) -> bool {
        matches!(self, Self::Exactly(_))
    }
}

/// Compiled patterns of a profile.
#[derive(Debug)]
pub(crate) struct Patterns {
    echo: Vec<Matcher>,
    marks: Option<Matcher>,
    schemas: Option<Matcher>,
    unforced_while_thinking: Option<Matcher>,
    always_thinking: Option<Matcher>,
    inline_tools: Option<Matcher>,
    fields: Vec<Option<Matcher>>,
}

/// Traits of one model according to its profile.
#[derive(Debug)]
pub(crate) struct Traits<'a> {
    pub(crate) echo: &'a ReasoningEcho,
    pub(crate) details: bool,
    pub(crate) marks: bool,
    /// Whether answers can follow a schema in requests without tools.
    schemas_alone: bool,
    /// Whether answers can follow a schema in requests with tools.
    schemas_with_tools: bool,
    /// Whether the model cannot be forced to call a tool while it thinks.
    pub(crate) unforced_while_thinking: bool,
    /// Whether thinking cannot be turned off.
    pub(crate) always_thinking: bool,
    /// Whether the model is offered tools as text.
    pub(crate) inline_tools: bool,
    pub(crate) fields: Vec<&'a FixedField>,
}

impl Traits<'_> {
    /// Whether answers can follow a schema, in a request with or without tools.
    pub(crate) fn has_schemas(&self, with_tools: bool) -> bool {
        if with_tools { self.schemas_with_tools } else { self.schemas_alone }
    }
}

impl Patterns {
    pub(crate) fn new(profile: &CompatProfile) -> Self {
        Self {
            echo: profile.echo_models.iter().map(|rule| rule.models.matcher()).collect(),
            marks: match &profile.cache_marks {
                CacheMarks::For(models) => Some(models.matcher()),
                CacheMarks::On | CacheMarks::Off => None,
            },
            schemas: match &profile.json_schema {
                JsonSchemas::For(models) => Some(models.matcher()),
                JsonSchemas::No | JsonSchemas::Alone | JsonSchemas::WithTools => None,
            },
            unforced_while_thinking: profile.unforced_while_thinking.as_ref().map(ModelPattern::matcher),
            always_thinking: profile.always_thinking.as_ref().map(ModelPattern::matcher),
            inline_tools: profile.inline_tools.as_ref().map(ModelPattern::matcher),
            fields: profile
                .fields
                .iter()
                .map(|field| field.models.as_ref().map(ModelPattern::matcher))
                .collect(),
        }
    }

    /// Returns the traits of a model in `profile`, from which these patterns were compiled.
    pub(crate) fn traits<'a>(&self, profile: &'a CompatProfile, id: &str) -> Traits<'a> {
        let rules = || self.echo.iter().zip(profile.echo_models.iter()).filter(|(at, _)| at.matches(id));
        let rule = rules().find(|(at, _)| at.is_exact()).or_else(|| rules().next());
        let echo = rule.map_or(&profile.echo, |(_, rule)| &rule.echo);
        let is_in = |models: &Option<Matcher>| models.as_ref().is_some_and(|models| models.matches(id));
        let fields = self.fields.iter().zip(profile.fields.iter());
        let (schemas_alone, schemas_with_tools) = match &profile.json_schema {
            JsonSchemas::No => (false, false),
            JsonSchemas::Alone => (true, false),
            JsonSchemas::WithTools => (true, true),
            JsonSchemas::For(_) => (is_in(&self.schemas), is_in(&self.schemas)),
        };
        Traits {
            echo,
            details: profile.echo_details && *echo != ReasoningEcho::No,
            marks: match &self.marks {
                Some(models) => models.matches(id),
                None => profile.cache_marks == CacheMarks::On,
            },
            schemas_alone,
            schemas_with_tools,
            unforced_while_thinking: is_in(&self.unforced_while_thinking),
            always_thinking: is_in(&self.always_thinking),
            inline_tools: is_in(&self.inline_tools),
            fields: fields
                .filter(|(models, _)| models.as_ref().is_none_or(|models| models.matches(id)))
                .map(|(_, field)| field)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::profiles::PROFILES;

    #[test]
    fn every_built_in_pattern_is_one() {
        let mut count = 0;
        for profile in PROFILES {
            let marks = match &profile.cache_marks {
                CacheMarks::For(models) => Some(models),
                CacheMarks::On | CacheMarks::Off => None,
            };
            let echo = profile.echo_models.iter().map(|rule| &rule.models);
            let fields = profile.fields.iter().filter_map(|field| field.models.as_ref());
            let schemas = match &profile.json_schema {
                JsonSchemas::For(models) => Some(models),
                JsonSchemas::No | JsonSchemas::Alone | JsonSchemas::WithTools => None,
            };
            let levels = [&profile.unforced_while_thinking, &profile.always_thinking, &profile.inline_tools];
            for pattern in echo.chain(fields).chain(marks).chain(schemas).chain(levels.into_iter().flatten())
            {
                assert!(matches!(pattern.matcher(), Matcher::Regex(_)), "{}: {pattern:?}", profile.name);
                count += 1;
            }
        }
        assert!(count > 0, "the table has patterns");
    }

    #[test]
    fn an_exact_id_goes_before_patterns_and_new_patterns_before_old_ones() {
        let field = |name: &'static str| ReasoningEcho::In(Cow::Borrowed(name));
        let mut profile = CompatProfile::default();
        profile.echo_exactly("Deep-1", field("exact"));
        profile.echo_matching("deep", field("old")).unwrap();
        profile.echo_matching("^DEEP-[12]", field("new")).unwrap();
        let patterns = Patterns::new(&profile);
        let echo = |id| patterns.traits(&profile, id).echo.clone();
        assert_eq!(echo("Deep-1"), field("exact"));
        assert_eq!(echo("deep-1"), field("new"), "an exact id is exact");
        assert_eq!(echo("vendor/deep-1"), field("old"));
        assert_eq!(echo("shallow"), ReasoningEcho::No);
    }

    #[test]
    fn a_bad_pattern_is_refused_with_a_message_and_changes_nothing() {
        let mut profile = CompatProfile::default();
        let error = profile.echo_matching("deep(", ReasoningEcho::Parts).unwrap_err();
        assert!(error.to_string().starts_with("`deep(` is no pattern"), "{error}");
        assert_eq!(profile, CompatProfile::default());
    }
}

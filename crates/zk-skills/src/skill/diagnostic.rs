use std::fmt;

use serde::Serialize;

/// Diagnostic about a skill for its author.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Whether the skill can be used in spite of it.
    pub level: DiagnosticLevel,
    /// Problem, as the end of a sentence about the skill.
    pub message: String,
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosticLevel {
    /// The skill is used.
    Warning,
    /// The skill is not used.
    Error,
}

impl Diagnostic {
    pub(crate) fn warning(message: impl Into<String>) -> Self {
        Self { level: DiagnosticLevel::Warning, message: message.into() }
    }

    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self { level: DiagnosticLevel::Error, message: message.into() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            DiagnosticLevel::Warning => "warning",
            DiagnosticLevel::Error => "error",
        };
        write!(f, "{level}: {}", self.message)
    }
}

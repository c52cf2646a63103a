use std::fmt;

use zk_core::model::Effects;
use zk_core::service::Connections;

use crate::rules::{Decision, Layer, Rule};

/// Decision about a call, with all reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Strictest decision of all reasons.
    pub decision: Decision,
    /// Reasons about each part of the call, in order; at least one has this `decision`.
    pub reasons: Vec<Reason>,
    /// Effects of the call. For a command they include the effects found by the judge.
    pub effects: Effects,
    /// Connections that the call opens in its sandbox; `None` without connections or without a sandbox.
    pub connections: Option<Connections>,
    /// Program and arguments, if the call needs no shell.
    pub argv: Option<Vec<String>>,
    /// Programs that were judged, each preceded by the programs that start it. Parts that cannot be parsed
    /// have none.
    pub programs: Vec<JudgedProgram>,
}

/// Program, or builtin of the shell, that a call runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedProgram {
    /// Program and arguments. In a program that `find` starts, `{}` stands for the found paths.
    pub argv: Vec<String>,
    /// Whether further arguments follow that are not known yet.
    pub has_more: bool,
    /// Whether it may start programs that its arguments do not reveal.
    pub is_opaque: bool,
}

/// Reason about one part of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Decision about this part.
    pub decision: Decision,
    /// Part of the call: a command of a text, a redirection, or the whole call.
    pub subject: String,
    /// Explanation.
    pub why: String,
    /// Rule that decided, if any.
    pub rule: Option<RuleRef>,
}

/// Reference to a rule that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleRef {
    /// Layer of the rule.
    pub layer: Layer,
    /// Decision of the rule.
    pub decision: Decision,
    /// Text of the rule as it was written.
    pub text: String,
}

impl From<&Rule> for RuleRef {
    fn from(rule: &Rule) -> Self {
        Self { layer: rule.layer, decision: rule.decision, text: rule.text.clone() }
    }
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}` ({})", self.decision, self.text, self.layer)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`: {}", self.decision, self.subject, self.why)?;
        match &self.rule {
            Some(rule) => write!(f, "; rule: {rule}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.decision)?;
        for reason in &self.reasons {
            write!(f, "\n  {reason}")?;
        }
        Ok(())
    }
}

use std::fmt;

use zk_core::model::Effects;
use zk_core::service::Connections;

use crate::rules::{Decision, Layer, Rule};

/// Decision on a call, and everything that was said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The strictest of all reasons.
    pub decision: Decision,
    /// Reasons about each part of the call, in its order; at least one, and one that says what `decision`
    /// says.
    pub reasons: Vec<Reason>,
    /// Effects of the call, as far as its words tell. More is known than before if it is a command.
    pub effects: Effects,
    /// Connections that the call opens in its sandbox if it runs; nothing if it opens none, or where no sandbox holds it.
    pub connections: Option<Connections>,
    /// Program and arguments, if no shell is needed to run it.
    pub argv: Option<Vec<String>>,
    /// The programs that were judged, each behind those that start it. A part that is not understood has none.
    pub programs: Vec<JudgedProgram>,
}

/// A program that runs, or that the shell carries out itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedProgram {
    /// Program and its arguments. Where `find` starts it, `{}` stands for what is found.
    pub argv: Vec<String>,
    /// Whether arguments follow that nobody knows yet.
    pub has_more: bool,
    /// Whether it may start programs that its arguments do not tell.
    pub is_opaque: bool,
}

/// Reason about one part of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Decision that follows for this part.
    pub decision: Decision,
    /// The part: a command of a text, a redirection, the whole.
    pub subject: String,
    /// Explanation, in words.
    pub why: String,
    /// The rule that said it, if it was one.
    pub rule: Option<RuleRef>,
}

/// A rule that spoke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleRef {
    /// Layer that the rule is from.
    pub layer: Layer,
    /// Decision of the rule.
    pub decision: Decision,
    /// Text of the rule, as it was written.
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

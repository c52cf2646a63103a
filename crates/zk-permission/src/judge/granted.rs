use zk_core::model::{Effect, Effects};

use super::{Call, Evaluation, Reason, RuleRef, judge};
use crate::connections::{Vicinity, is_plain_push};
use crate::mode::Mode;
use crate::program::inspect;
use crate::rules::{Decision, filtered_command, plain_command};
use crate::shell::Script;

impl Evaluation<'_> {
    /// Removes the questions about a text, whose reasons begin at `before`, if a person approved the text:
    /// exactly these bytes, or one plain command that runs the project's code. Questions by rules stay.
    pub(super) fn approved_text(&mut self, text: &str, before: usize) {
        let exact = self.exact_allowance(text).map(|rule| (rule, "approved exactly so"));
        let approved = exact.or_else(|| Some((self.code_allowance(text)?, "approved for this project")));
        let Some((rule, how)) = approved else { return };
        let mine = self.reasons.get_mut(before..).unwrap_or_default();
        for reason in
            mine.iter_mut().filter(|reason| reason.decision == Decision::Ask && reason.rule.is_none())
        {
            reason.decision = Decision::Allow;
            reason.why = format!("{how}, although {}", reason.why);
            reason.rule = Some(rule.clone());
        }
    }

    /// Removes the questions about a push outside of the sandbox, if a person approved such pushes. Questions by rules
    /// stay.
    pub(super) fn approved_push(&mut self, effects: &Effects) {
        let Effects::Known { list } = effects else { return };
        let mut texts = list.iter().filter_map(|effect| match effect {
            Effect::Executes { command, .. } => Some(command.as_deref()),
            _ => None,
        });
        let (Some(Some(text)), None) = (texts.next(), texts.next()) else { return };
        let near = Vicinity { cwd: self.here.cwd, classifier: self.here.classifier, trusts_project: false };
        let is_push = |argv: Vec<String>| {
            argv.first().is_some_and(|word| !word.contains('/') && self.plain_name(word).is_some())
                && is_plain_push(&argv, near)
        };
        let mut rules = self.rules.saying(Decision::Allow).filter(|rule| rule.allows_pushes_outside());
        let Some(rule) = rules.next().map(RuleRef::from) else { return };
        let holds = effects.leaves_context()
            && self.mode != Mode::ReadOnly
            && self.here.trusts_repository
            && plain_command(text).is_some_and(is_push);
        if holds {
            let asked = |reason: &&mut Reason| reason.decision == Decision::Ask && reason.rule.is_none();
            for reason in self.reasons.iter_mut().filter(asked) {
                reason.decision = Decision::Allow;
                reason.why = format!("approved for this session, although {}", reason.why);
                reason.rule = Some(rule.clone());
            }
        }
    }

    fn exact_allowance(&self, text: &str) -> Option<RuleRef> {
        if self.mode == Mode::ReadOnly {
            return None;
        }
        self.rules.saying(Decision::Allow).find(|rule| rule.is_exactly(text)).map(RuleRef::from)
    }

    /// Rule that allows a command which runs the project's code: one plain command by program name with filters
    /// after it, in the sandbox also without anything that the sandbox would not limit.
    fn code_allowance(&self, text: &str) -> Option<RuleRef> {
        let is_auto = self.mode == Mode::Auto && self.here.is_contained;
        if self.mode == Mode::ReadOnly || is_auto {
            return None;
        }
        let mut rules = self.rules.saying(Decision::Allow).filter(|rule| rule.code().is_some()).peekable();
        rules.peek()?;
        let (argv, filters) = match plain_command(text) {
            Some(argv) => (argv, Vec::new()),
            None => filtered_command(text)?,
        };
        if filters.iter().any(|name| name.contains('/') || self.plain_name(name).is_none()) {
            return None;
        }
        let script = Script::parse(text).ok()?;
        let leaves = inspect(script.commands.first()?, Vec::new());
        let [leaf] = leaves.as_slice() else { return None };
        let is_plain =
            leaf.forms.len() == 1 && leaf.hazard.is_none() && !leaf.is_opaque && !leaf.changes_shell;
        if !is_plain || argv.first().is_none_or(|word| word.contains('/') || self.plain_name(word).is_none())
        {
            return None;
        }
        let is_bounded = || {
            let effects = Effects::executes(text);
            let verdict =
                judge(&Call { tool: self.tool, effects: &effects }, Mode::Auto, self.rules, self.here);
            verdict.decision == Decision::Allow
        };
        let holds = |is_bound: bool| is_bound || (self.here.is_contained && is_bounded());
        rules
            .find(|rule| {
                let code = rule.code();
                code.is_some_and(|code| code.matches(&argv, self.here.cwd) && holds(code.bound.is_some()))
            })
            .map(RuleRef::from)
    }
}

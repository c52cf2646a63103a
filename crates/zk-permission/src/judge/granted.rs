use zk_core::model::Effects;

use super::{Call, Evaluation, RuleRef, judge};
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

    fn exact_allowance(&self, text: &str) -> Option<RuleRef> {
        if self.mode == Mode::ReadOnly {
            return None;
        }
        self.rules.saying(Decision::Allow).find(|rule| rule.is_exactly(text)).map(RuleRef::from)
    }

    /// Rule that allows a command which runs the project's code: one plain command by program name, in the
    /// sandbox also without anything that the sandbox would not limit, with filters after it.
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
        let is_plain_text = plain_command(text).is_some();
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
        // Approvals for the sandbox also cover commands in pipelines and with redirections.
        let holds = |is_bound: bool| {
            (is_bound && is_plain_text) || (!is_bound && self.here.is_contained && is_bounded())
        };
        rules
            .find(|rule| {
                let code = rule.code();
                code.is_some_and(|code| code.matches(&argv, self.here.cwd) && holds(code.bound.is_some()))
            })
            .map(RuleRef::from)
    }
}

use std::path::Path;

use zk_core::model::Effect;

use super::command::is_harmless;
use super::place::Whereabouts;
use super::{Evaluation, RuleRef};
use crate::mode::Mode;
use crate::program::{Leaf, Unseen, hazard_in};
use crate::rules::{Access, Decision, Rule};

impl Evaluation<'_> {
    /// Judges an opaque part of a command, which may start programs to which rules apply.
    pub(super) fn judge_opaque_part(&mut self, subject: &str, why: &str) {
        let contained = self.mode == Mode::Auto && self.here.is_contained;
        let unseen = if self.mode == Mode::ReadOnly { Vec::new() } else { self.rules_unseen(Unseen::ALL) };
        if !unseen.is_empty() {
            for rule in unseen {
                let why = format!("{why}; a rule restricts what it could do");
                self.add_reason(Decision::Ask, subject, why, Some(rule));
            }
        } else if contained {
            // The words of a hazard are visible in any text that does not hide them deliberately.
            let hazard = hazard_in(subject).map(|hazard| hazard.describe().to_owned());
            match hazard.or_else(|| self.private_word(subject)) {
                Some(hazard) => self.add_reason(Decision::Ask, subject, format!("{why}; {hazard}"), None),
                None => {
                    self.add_reason(Decision::Allow, subject, format!("{why}; the sandbox bounds it"), None)
                }
            }
        } else if let Some(rule) = self.tool_allow_rule() {
            self.add_reason(Decision::Allow, subject, "a rule about this tool", Some(rule));
        } else {
            self.decide_unallowed(subject, why);
        }
    }

    /// Rules that deny or ask about an action that a command may do unseen. A rule about files that the
    /// sandbox enforces is left out.
    pub(super) fn rules_unseen(&self, unseen: Unseen) -> Vec<RuleRef> {
        let restricts = |rule: &&Rule| {
            let is_program = rule.pattern().is_some() || rule.host().is_some();
            let is_file = rule.is_about(Access::Read) || rule.is_about(Access::Write);
            rule.decision != Decision::Allow
                && ((unseen.programs && is_program) || (unseen.files && is_file && !self.is_held(rule)))
        };
        self.rules.iter().filter(restricts).map(RuleRef::from).collect()
    }

    /// Applies the rules that deny or ask about files which a command shows from another source than the file
    /// tree, or about files below the directories that it walks; returns whether any did.
    pub(super) fn apply_tree_rules(&mut self, leaf: &Leaf, place: &Whereabouts, subject: &str) -> bool {
        let mut spoke = false;
        let trees = leaf.trees.iter().filter(|tree| tree.walk.reads_contents);
        let read = trees.map(|tree| (Access::Read, tree.root.as_str()));
        let written = leaf.deep_writes.iter().map(|root| (Access::Write, root.as_str()));
        let roots: Vec<(Access, &str)> = read.chain(written).collect();
        for (access, root) in roots {
            for full in place.of(Path::new(root)).into_iter().flatten() {
                spoke |= self.apply_rules_below(access, &full, subject);
            }
        }
        for mention in &leaf.mentions {
            for full in place.of(Path::new(mention)).into_iter().flatten() {
                let matches = self.apply_path_rules(Access::Read, &full, subject);
                spoke |= matches || self.apply_rules_below(Access::Read, &full, subject);
            }
        }
        spoke
    }

    fn apply_rules_below(&mut self, access: Access, full: &Path, subject: &str) -> bool {
        let found: Vec<RuleRef> = self
            .rules
            .iter()
            .filter(|rule| rule.decision != Decision::Allow && !self.is_held(rule))
            .filter(|rule| rule.can_be_below(access, full) && !rule.matches_path(access, full))
            .map(RuleRef::from)
            .collect();
        let spoke = !found.is_empty();
        for rule in found {
            let why = "it goes through a directory below which the rule is about files";
            self.add_reason(Decision::Ask, subject, why, Some(rule));
        }
        spoke
    }

    fn is_held(&self, rule: &Rule) -> bool {
        rule.is_held() && self.here.is_contained
    }
}

/// Unseen actions of a command, including those through its variables and through an unknown working
/// directory.
pub(super) fn unseen(leaf: &Leaf, place: &Whereabouts) -> Unseen {
    let has_variables = leaf.changes.is_some() || !leaf.effects.is_empty() || leaf.reads_repository;
    if has_variables && !leaf.assignments.iter().all(is_harmless) {
        return Unseen::ALL;
    }
    let names_files = leaf.effects.iter().any(|effect| match effect {
        Effect::Reads { paths } | Effect::Writes { paths } => {
            paths.iter().any(|path| place.of(path).is_none())
        }
        Effect::Executes { .. } | Effect::Network { .. } | Effect::LeavesContext { .. } => false,
    });
    let is_lost = !place.is_known() && (names_files || !leaf.trees.is_empty() || leaf.reads_repository);
    Unseen { files: leaf.unseen.files || is_lost, ..leaf.unseen }
}

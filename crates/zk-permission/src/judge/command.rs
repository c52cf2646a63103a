use std::path::Path;

use zk_core::model::Effect;

use super::place::Whereabouts;
use super::private::private_use;
use super::unseen::unseen;
use super::{Evaluation, JudgedProgram, RuleRef};
use crate::classifier::{PathPlace, ProgramPlace};
use crate::mode::Mode;
use crate::program::{
    Form, Hazard, Leaf, Unseen, base_name, inspect, inspect_program, printed_names, reads_listed_files,
    starts_nothing_by_itself,
};
use crate::rules::{Access, Decision, Layer, Likeness, Rule};
use crate::shell::{Assignment, Command, Connector, Obstacle, Redirect, Script, quote_all};

/// Variables that change only the look of a program's output.
const HARMLESS_VARIABLES: [&str; 15] = [
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "FORCE_COLOR",
    "LANG",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LINES",
    "NO_COLOR",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUST_TEST_THREADS",
];

impl Evaluation<'_> {
    /// Judges a shell text.
    pub(super) fn judge_text(&mut self, text: &str) {
        let before = self.reasons.len();
        match Script::parse(text) {
            Err(why) if matches!(why.what, Obstacle::Glob(_)) && self.allow_reads_of_matches(text) => {}
            Err(why) => {
                self.effects.push(Effect::Executes { command: Some(text.to_owned()), argv: Vec::new() });
                self.judge_opaque_part(text, &why.explain(text));
            }
            Ok(script) => {
                self.judge_commands(&script, false);
                if let Some(argv) = script.argv() {
                    self.argv = Some(argv.to_vec());
                }
            }
        }
        self.approved_text(text, before);
    }

    /// Judges the commands of a text in turn.
    pub(super) fn judge_commands(&mut self, script: &Script, has_patterns: bool) {
        let mut place = Whereabouts::start(self.here.cwd);
        let mut before: Option<&Command> = None;
        for command in &script.commands {
            let has_input = |redirect: &Redirect| matches!(redirect, Redirect::Read { .. });
            let is_fed = command.connector == Connector::Pipe && !command.redirects.iter().any(has_input);
            let words = before.filter(|_| is_fed).and_then(|before| printed_names(before, command));
            before = Some(command);
            for leaf in inspect(command, words.unwrap_or_default()) {
                self.judge_leaf(&leaf, &place);
                if has_patterns {
                    self.check_matches(command, &leaf, &place);
                }
                if let Some(target) = &leaf.goes_to {
                    place.change_directory(target);
                } else if leaf.changes_shell {
                    place = Whereabouts::unknown();
                }
            }
            for redirect in &command.redirects {
                self.judge_redirect(redirect, &place);
            }
        }
    }

    /// Judges a program with arguments, without a shell.
    pub(super) fn judge_program(&mut self, argv: &[String]) {
        let place = Whereabouts::start(self.here.cwd);
        for leaf in inspect_program(argv) {
            self.judge_leaf(&leaf, &place);
        }
        self.argv = Some(argv.to_vec());
    }

    fn judge_leaf(&mut self, leaf: &Leaf, place: &Whereabouts) {
        self.effects.extend(leaf.effects.iter().cloned());
        self.programs.extend(leaf.forms.iter().map(|form| JudgedProgram {
            argv: form.argv.clone(),
            has_more: form.has_unknown_tail,
            is_opaque: leaf.is_opaque,
        }));
        let outermost = leaf.forms.first().map(|form| form.argv.as_slice()).unwrap_or_default();
        let subject = quote_all(outermost);
        let restricted =
            self.apply_command_rules(leaf, &subject) | self.apply_file_rules(leaf, place, &subject);
        // In mode `read-only`, a command with effects is denied even if a rule only asks about it.
        if restricted && !(self.mode == Mode::ReadOnly && leaf.changes.is_some()) {
            return;
        }
        let doubt = self.reason_to_ask(leaf, place).or_else(|| self.configurable_program(leaf));
        // In mode `read-only`, a command with effects is denied without a question.
        let unseen = if self.mode == Mode::ReadOnly && leaf.changes.is_some() {
            Vec::new()
        } else {
            self.rules_unseen(unseen(leaf, place))
        };
        if doubt.is_none() && unseen.is_empty() {
            self.add_reason(Decision::Allow, &subject, "it only reads", None);
            return;
        }
        match self.allow_rule(leaf, place) {
            Some(rule) => {
                self.add_reason(Decision::Allow, &subject, "a rule about this command", Some(rule));
                return;
            }
            None => {
                if let Some(rule) = self.tool_allow_rule() {
                    self.add_reason(Decision::Allow, &subject, "a rule about this tool", Some(rule));
                    return;
                }
            }
        }
        let why = doubt.unwrap_or_default();
        if let Some(rule) = unseen.into_iter().max_by_key(|rule| rule.decision) {
            let why = "its words do not tell all that it does, and rules restrict what it could do; to run it unasked, \
                       allow it by a rule of its own";
            self.add_reason(Decision::Ask, &subject, why, Some(rule));
            return;
        }
        if leaf.changes.is_none() && self.mode == Mode::ReadOnly {
            // The command only reads, so a person may allow it.
            self.add_reason(Decision::Ask, &subject, why, None);
            return;
        }
        let is_contained = self.mode == Mode::Auto && self.here.is_contained;
        let private = || self.private_file(leaf, place).or_else(|| Self::private_argument(leaf));
        if let Some(why) = is_contained.then(private).flatten() {
            self.add_reason(Decision::Ask, &subject, why, None);
            return;
        }
        if let Some(hazard) = leaf.hazard.filter(|_| is_contained) {
            self.add_reason(Decision::Ask, &subject, hazard.describe(), None);
            return;
        }
        if leaf.is_opaque {
            self.judge_opaque_part(&subject, &why);
            return;
        }
        if is_contained {
            self.add_reason(Decision::Allow, &subject, format!("{why}; the sandbox bounds it"), None);
            return;
        }
        let why = match leaf.hazard {
            Some(hazard @ (Hazard::Publishes | Hazard::Discards)) => format!("{why}; {}", hazard.describe()),
            Some(Hazard::Network | Hazard::Privilege | Hazard::Delegates) | None => why,
        };
        self.decide_unallowed(&subject, &why);
    }

    /// Applies the rules that deny or ask about a command; returns whether any did.
    fn apply_command_rules(&mut self, leaf: &Leaf, subject: &str) -> bool {
        let mut spoke = false;
        for decision in [Decision::Deny, Decision::Ask] {
            for rule in self.rules.saying(decision) {
                let Some(pattern) = rule.pattern() else { continue };
                match likeness(leaf, rule) {
                    Likeness::No => continue,
                    Likeness::Yes => {
                        self.add_reason(decision, subject, "a rule about this command", Some(rule.into()))
                    }
                    Likeness::Possible => {
                        let why = format!("it could be what the rule `{pattern}` is about");
                        self.add_reason(Decision::Ask, subject, why, Some(rule.into()));
                    }
                }
                spoke = true;
            }
        }
        spoke
    }

    /// Applies the rules that deny or ask about a command's known files and hosts; returns whether any did.
    fn apply_file_rules(&mut self, leaf: &Leaf, place: &Whereabouts, subject: &str) -> bool {
        let mut spoke = false;
        for effect in &leaf.effects {
            let (access, paths) = match effect {
                Effect::Reads { paths } => (Access::Read, paths),
                Effect::Writes { paths } => (Access::Write, paths),
                Effect::Network { .. } => {
                    spoke |= self.apply_host_rules(None, subject);
                    continue;
                }
                Effect::Executes { .. } | Effect::LeavesContext { .. } => continue,
            };
            for full in paths.iter().filter_map(|path| place.of(path)).flatten() {
                spoke |= self.apply_path_rules(access, &full, subject);
            }
        }
        spoke | self.apply_tree_rules(leaf, place, subject)
    }

    /// Reason why a read-only command needs a question if no sandbox contains its child processes.
    fn configurable_program(&self, leaf: &Leaf) -> Option<String> {
        if self.here.holds_reads
            || self.mode == Mode::All
            || (self.mode == Mode::Auto && self.here.is_contained)
        {
            return None;
        }
        if reads_listed_files(leaf.innermost()) {
            return Some("a list says which files it reads, and no sandbox holds them".to_owned());
        }
        let names = leaf.forms.iter().filter_map(|form| form.argv.first());
        let name = names.map(String::as_str).find(|name| !starts_nothing_by_itself(name))?;
        Some(format!(
            "`{name}` may start programs that its configuration names, and no sandbox is there to hold them"
        ))
    }

    /// Reason why a command needs a question; `None` if it only reads allowed files.
    fn reason_to_ask(&self, leaf: &Leaf, place: &Whereabouts) -> Option<String> {
        if let Some(why) = &leaf.changes {
            return Some(why.clone());
        }
        if let Some(why) = self.unsafe_programs(leaf) {
            return Some(why);
        }
        if let Some(variable) = leaf.assignments.iter().find(|assignment| !is_harmless(assignment)) {
            return Some(format!("it sets the variable `{}`", variable.name));
        }
        if leaf.reads_repository && (!self.here.trusts_repository || !place.is_unchanged()) {
            return Some("git runs programs that the configuration of the repository names".to_owned());
        }
        let elsewhere = leaf.git_directory.as_deref().filter(|directory| {
            let all = place.of(Path::new(directory)).unwrap_or_default();
            all.is_empty() || all.iter().any(|full| crate::classifier::normalise(full) != self.here.cwd)
        });
        if let Some(directory) = elsewhere {
            return Some(format!("git runs programs that the configuration in `{directory}` names"));
        }
        if !place.is_known() {
            return Some("nobody can tell in which directory it runs".to_owned());
        }
        for tree in &leaf.trees {
            let root = Path::new(&tree.root);
            let all = place.of(root).unwrap_or_default();
            let mut places = all.iter().map(|full| self.here.classifier.tree(full, tree.walk));
            let root = root.display();
            match places.find(|place| !matches!(place, PathPlace::Inside | PathPlace::Protected)) {
                None => {}
                Some(PathPlace::Secret | PathPlace::Private) => {
                    return Some(format!("what is below `{root}` may hold credentials"));
                }
                Some(PathPlace::Inside | PathPlace::Protected | PathPlace::Outside) => {
                    return Some(format!("what is below `{root}` may lead out of the workspace"));
                }
            }
        }
        if let Some(why) = self.private_file(leaf, place) {
            return Some(why);
        }
        for effect in &leaf.effects {
            let Effect::Reads { paths } = effect else { continue };
            for path in paths {
                let all = place.of(path).unwrap_or_default();
                let shown = path.display();
                match all.iter().map(|full| self.read_place(full)).find(|place| *place != PathPlace::Inside) {
                    None => {}
                    Some(PathPlace::Secret | PathPlace::Private) => {
                        return Some(format!("`{shown}` may hold credentials"));
                    }
                    Some(PathPlace::Inside | PathPlace::Protected | PathPlace::Outside) => {
                        return Some(format!("`{shown}` is outside of the workspace"));
                    }
                }
            }
        }
        None
    }

    /// Reason why the names of a command's programs do not identify them; `None` if they do.
    fn unsafe_programs(&self, leaf: &Leaf) -> Option<String> {
        leaf.forms.iter().find_map(|form| {
            let word = form.argv.first()?;
            if form.is_builtin || self.plain_name(word).is_some() {
                return None;
            }
            Some(if word.contains('/') {
                format!("`{word}` is not the program of that name in the path")
            } else {
                format!("`{word}` is missing in the path, or others can change it")
            })
        })
    }

    /// Name of a program if its path leads to the trusted program of that name.
    pub(super) fn plain_name<'w>(&self, word: &'w str) -> Option<&'w str> {
        let name = base_name(word);
        if name.is_empty() {
            return None;
        }
        match self.here.classifier.program(name) {
            ProgramPlace::Trusted(path) if !word.contains('/') || Path::new(word) == path => Some(name),
            ProgramPlace::Trusted(_) | ProgramPlace::Writable(_) | ProgramPlace::Missing => None,
        }
    }

    /// Rule that allows a command.
    fn allow_rule(&self, leaf: &Leaf, place: &Whereabouts) -> Option<RuleRef> {
        let reads_secret = || {
            leaf.effects.iter().any(|effect| match effect {
                Effect::Reads { paths } | Effect::Writes { paths } => paths
                    .iter()
                    .filter_map(|path| place.of(path))
                    .flatten()
                    .any(|full| self.here.classifier.path(&full) == PathPlace::Secret),
                Effect::Executes { .. } | Effect::Network { .. } | Effect::LeavesContext { .. } => false,
            })
        };
        let is_excluded = self.mode == Mode::ReadOnly
            || leaf.changes_shell
            || !leaf.assignments.iter().all(is_harmless)
            || reads_secret();
        if is_excluded {
            return None;
        }
        // Only the innermost program matters; the programs around it have to appear literally in the rule.
        let mut names = Vec::new();
        for form in &leaf.forms {
            names.push(self.argv_for_rules(form, place)?);
        }
        let innermost = leaf.forms.len().checked_sub(1)?;
        let outermost_to_name = leaf.forms.iter().position(|form| form.has_to_be_named).unwrap_or(innermost);
        self.rules
            .saying(Decision::Allow)
            // A prefix that a person approved holds in the sandbox alone.
            .filter(|rule| self.here.is_contained || rule.layer != Layer::Approvals)
            .find(|rule| {
                let Some(pattern) = rule.pattern() else { return false };
                leaf.forms.iter().zip(&names).enumerate().any(|(at, (form, argv))| {
                    let tail_fits = !form.has_unknown_tail || pattern.has_rest();
                    let says_inner = at == innermost || names_inner(&leaf.forms, at, pattern);
                    at <= outermost_to_name && tail_fits && says_inner && pattern.matches(argv)
                })
            })
            .map(RuleRef::from)
    }

    /// Arguments as allow rules see them; `None` if the program's name does not identify it.
    fn argv_for_rules(&self, form: &Form, place: &Whereabouts) -> Option<Vec<String>> {
        let word = form.argv.first()?;
        let mut argv = form.argv.clone();
        if form.is_builtin {
            return Some(argv);
        }
        if let Some(name) = self.plain_name(word) {
            *argv.first_mut()? = name.to_owned();
            return Some(argv);
        }
        // A program given by path matches only a rule with the same path, and only if the path is
        // unambiguous.
        (word.contains('/') && (word.starts_with('/') || place.is_unchanged())).then_some(argv)
    }

    fn judge_redirect(&mut self, redirect: &Redirect, place: &Whereabouts) {
        let (access, path, subject) = match redirect {
            Redirect::Duplicate => return,
            Redirect::Read { path } => (Access::Read, path, format!("< {path}")),
            Redirect::Write { path, appends: false } => (Access::Write, path, format!("> {path}")),
            Redirect::Write { path, appends: true } => (Access::Write, path, format!(">> {path}")),
        };
        if access == Access::Write && matches!(path.as_str(), "/dev/null" | "/dev/stdout" | "/dev/stderr") {
            return;
        }
        let path = Path::new(path);
        self.effects.push(match access {
            Access::Read => Effect::Reads { paths: vec![path.to_owned()] },
            Access::Write => Effect::Writes { paths: vec![path.to_owned()] },
        });
        let all = place.of(path);
        let mut restricted = false;
        if all.is_none() && !(self.mode == Mode::ReadOnly && access == Access::Write) {
            for rule in self.rules_unseen(Unseen::FILES) {
                restricted = true;
                let why = "nobody can tell in which directory it is, and a rule restricts some files";
                self.add_reason(Decision::Ask, &subject, why, Some(rule));
            }
        }
        for full in all.iter().flatten() {
            restricted |= self.apply_path_rules(access, full, &subject);
        }
        if restricted && !(self.mode == Mode::ReadOnly && access == Access::Write) {
            return;
        }
        let all = all.unwrap_or_default();
        let places: Vec<PathPlace> = all.iter().map(|full| self.read_place(full)).collect();
        let is_inside = !places.is_empty() && places.iter().all(|place| *place == PathPlace::Inside);
        if access == Access::Read && is_inside {
            self.add_reason(Decision::Allow, &subject, "it only reads", None);
            return;
        }
        if access == Access::Write && is_inside {
            let rules: Option<Vec<RuleRef>> = all.iter().map(|full| self.write_allow_rule(full)).collect();
            if let Some(rule) = rules.and_then(|rules| rules.into_iter().next()) {
                self.add_reason(Decision::Allow, &subject, "a rule about this file", Some(rule));
                return;
            }
        }
        if places.contains(&PathPlace::Private) {
            let why = private_use(path);
            match self.mode {
                // The command only reads, so a person may allow it.
                Mode::ReadOnly if access == Access::Read => {
                    self.add_reason(Decision::Ask, &subject, why, None)
                }
                _ => self.decide_unallowed(&subject, &why),
            }
            return;
        }
        if self.mode == Mode::Auto && self.here.is_contained {
            self.add_reason(Decision::Allow, &subject, "the sandbox bounds it", None);
            return;
        }
        self.decide_unallowed(
            &subject,
            match (access, is_inside) {
                (Access::Read, _) => "the redirection reads a file outside of the workspace",
                (Access::Write, true) => "the redirection writes a file",
                (Access::Write, false) => "the redirection writes a file outside of the workspace",
            },
        );
    }
}

pub(super) fn is_harmless(assignment: &Assignment) -> bool {
    HARMLESS_VARIABLES.contains(&assignment.name.as_str())
}

/// Whether a pattern names literally the programs that the form at `at` starts.
fn names_inner(forms: &[Form], at: usize, pattern: &crate::rules::CommandPattern) -> bool {
    let mut index = 0;
    forms.get(at..).unwrap_or_default().iter().all(|form| match form.inner {
        Some(inner) => {
            index += inner;
            pattern.is_literal_at(index)
        }
        None => true,
    })
}

/// Match of a command with a deny or ask rule, in the form in which any of its nested programs sees it.
fn likeness(leaf: &Leaf, rule: &Rule) -> Likeness {
    let Some(pattern) = rule.pattern() else { return Likeness::No };
    let of = |form: &Form| pattern.likeness(&form.argv, form.has_unknown_tail);
    let direct = leaf.forms.iter().map(of).max().unwrap_or(Likeness::No);
    let git = leaf.innermost().split_first().filter(|(word, _)| base_name(word) == "git").and_then(
        |(word, args)| {
            let (at, _) = crate::program::git_subcommand(args)?;
            let plain: Vec<String> =
                std::iter::once(word.clone()).chain(args.get(at..)?.iter().cloned()).collect();
            Some(pattern.likeness(&plain, false))
        },
    );
    let direct = direct.max(git.unwrap_or(Likeness::No));
    if direct != Likeness::No || leaf.changes.is_none() {
        return direct;
    }
    // An unknown program may execute the words after its name.
    let innermost = leaf.innermost();
    let is_argument = !pattern.is_any_program()
        && (1..innermost.len()).any(|at| {
            let rest = innermost.get(at..).unwrap_or_default();
            pattern.likeness(rest, false) != Likeness::No
        });
    if is_argument { Likeness::Possible } else { Likeness::No }
}

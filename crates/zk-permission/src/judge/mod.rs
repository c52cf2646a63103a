//! Judge: from a call, a mode and rules to a verdict, without a question.

mod command;
mod globs;
mod granted;
mod patterns;
mod place;
mod private;
mod unseen;
mod verdict;

use std::fmt;
use std::path::{Path, PathBuf};

use zk_core::model::{Effect, Effects};

pub use verdict::{JudgedProgram, Reason, RuleRef, Verdict};

use crate::classifier::{PathClassifier, PathPlace, sounds_like_credentials};
use crate::connections;
use crate::mode::Mode;
use crate::rules::{Access, Decision, Layer, Rule, Rules};

/// Reason for a question about a call without declared effects.
const UNDECLARED: &str = "its tool does not declare whether it only reads";

/// Call to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Canonical name of the tool.
    pub tool: &'a str,
    /// Effects of the call, as declared by its tool.
    pub effects: &'a Effects,
}

/// Facts besides call, mode and rules that affect a verdict.
#[derive(Clone)]
pub struct Circumstances<'a> {
    /// Absolute directory in which the call runs.
    pub cwd: &'a Path,
    /// Classifier of program names and paths.
    pub classifier: &'a dyn PathClassifier,
    /// Whether the call runs in a sandbox whose self-test passed.
    pub is_contained: bool,
    /// Whether read-only calls need no restriction, because a sandbox contains them or a person waived it.
    /// Otherwise only programs without configuration files, plugins and child processes count as read-only.
    pub holds_reads: bool,
    /// Whether only the person configured the repository, whose configuration can name programs that git
    /// runs.
    pub trusts_repository: bool,
}

impl fmt::Debug for Circumstances<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Circumstances")
            .field("cwd", &self.cwd)
            .field("is_contained", &self.is_contained)
            .field("holds_reads", &self.holds_reads)
            .field("trusts_repository", &self.trusts_repository)
            .finish_non_exhaustive()
    }
}

/// Judges a call: the strictest decision about any of its parts wins. For each part, a deny rule decides
/// first, then an ask rule; then read-only parts are allowed, then parts that a rule or the mode allows. A
/// part that cannot be parsed is never allowed while any rule restricts commands.
///
/// ```
/// use std::path::Path;
/// use zk_core::model::Effects;
/// use zk_permission::{TextPathClassifier, Call, Circumstances, Decision, Layer, Mode, Rule, RuleBase, Rules, judge};
///
/// let mut rules = Rules::new();
/// let base = RuleBase { root: "/p".into(), home: None };
/// rules.push(Rule::parse(Layer::User, Decision::Allow, "cargo test **", &base)?);
/// rules.push(Rule::parse(Layer::User, Decision::Deny, "git push **", &base)?);
///
/// let classifier = TextPathClassifier::new(["/p"]);
/// let here = Circumstances {
///     cwd: Path::new("/p"),
///     classifier: &classifier,
///     is_contained: false,
///     holds_reads: true,
///     trusts_repository: true,
/// };
/// let decide = |command: &str| {
///     let effects = Effects::executes(command);
///     judge(&Call { tool: "shell", effects: &effects }, Mode::Ask, &rules, &here).decision
/// };
/// assert_eq!(decide("cargo test -p core 2>&1 | tail -n 20"), Decision::Allow);
/// assert_eq!(decide("cargo test && rm -rf target"), Decision::Ask);
/// assert_eq!(decide("cargo test && git push"), Decision::Deny);
/// # Ok::<(), zk_permission::RuleError>(())
/// ```
#[must_use]
pub fn judge(call: &Call<'_>, mode: Mode, rules: &Rules, here: &Circumstances<'_>) -> Verdict {
    // The sandbox does not contain commands that leave it.
    let here =
        Circumstances { is_contained: here.is_contained && !call.effects.leaves_context(), ..here.clone() };
    let mut evaluation = Evaluation {
        mode,
        rules,
        here: &here,
        tool: call.tool,
        reasons: Vec::new(),
        effects: Vec::new(),
        argv: None,
        programs: Vec::new(),
    };
    evaluation.apply_tool_rules();
    let effects = match call.effects {
        Effects::Unknown => {
            evaluation.judge_unknown_effects();
            Effects::Unknown
        }
        Effects::Known { list } => {
            list.iter().for_each(|effect| evaluation.judge_effect(effect));
            if list.is_empty() {
                evaluation.add_reason(Decision::Allow, call.tool, "it has no effect", None);
            }
            Effects::Known { list: std::mem::take(&mut evaluation.effects) }
        }
    };
    let decision = evaluation.reasons.iter().map(|reason| reason.decision).max().unwrap_or(Decision::Ask);
    let is_held = here.is_contained && mode != Mode::ReadOnly;
    let near = connections::Vicinity {
        cwd: here.cwd,
        classifier: here.classifier,
        trusts_project: decision == Decision::Ask || mode == Mode::All,
    };
    let connections = if is_held { connections::of_effects(call.effects, near) } else { None };
    let asked = evaluation.reasons.iter_mut().find(|reason| reason.decision == Decision::Ask);
    if let (Some(connections), Some(reason)) = (&connections, asked.filter(|_| decision == Decision::Ask)) {
        // The person approves these connections only, and nothing outside of the sandbox.
        reason.why.push_str(&format!("; it would run in the sandbox, connected to {connections}"));
    }
    Verdict {
        decision,
        reasons: evaluation.reasons,
        effects,
        connections,
        argv: evaluation.argv,
        programs: evaluation.programs,
    }
}

/// Reason for a question about a read of a file tool outside of the workspace.
const OUTSIDE_READ: &str = "it is outside of this project";

/// Reason for a question about reading a file outside of the workspace that is named like credentials.
const OUTSIDE_CREDENTIALS: &str = "it is outside of this project and may hold credentials";

/// State of one judgement.
struct Evaluation<'a> {
    mode: Mode,
    rules: &'a Rules,
    here: &'a Circumstances<'a>,
    tool: &'a str,
    reasons: Vec<Reason>,
    effects: Vec<Effect>,
    argv: Option<Vec<String>>,
    programs: Vec<JudgedProgram>,
}

impl<'a> Evaluation<'a> {
    fn add_reason(
        &mut self,
        decision: Decision,
        subject: &str,
        why: impl Into<String>,
        rule: Option<RuleRef>,
    ) {
        self.reasons.push(Reason { decision, subject: subject.to_owned(), why: why.into(), rule });
    }

    /// Decides about a part that no rule allows.
    fn decide_unallowed(&mut self, subject: &str, why: &str) {
        match self.mode {
            Mode::ReadOnly => {
                self.add_reason(Decision::Deny, subject, format!("{why}, and the mode is read-only"), None)
            }
            Mode::Ask | Mode::AcceptEdits | Mode::Auto => self.add_reason(Decision::Ask, subject, why, None),
            Mode::All => self.add_reason(Decision::Allow, subject, "the mode allows everything", None),
        }
    }

    /// Applies the rules that deny or ask about the whole tool.
    fn apply_tool_rules(&mut self) {
        let tool = self.tool;
        for decision in [Decision::Deny, Decision::Ask] {
            for rule in self.rules.saying(decision).filter(|rule| rule.matches_tool(tool)) {
                self.add_reason(decision, tool, "a rule about this tool", Some(rule.into()));
            }
        }
    }

    /// Rule that allows all calls of the tool.
    fn tool_allow_rule(&self) -> Option<RuleRef> {
        if self.mode == Mode::ReadOnly {
            return None;
        }
        self.rules.saying(Decision::Allow).find(|rule| rule.matches_tool(self.tool)).map(RuleRef::from)
    }

    fn judge_unknown_effects(&mut self) {
        let tool = self.tool;
        match self.tool_allow_rule() {
            Some(rule) => self.add_reason(Decision::Allow, tool, "a rule about this tool", Some(rule)),
            None => self.decide_unallowed(tool, UNDECLARED),
        }
    }

    fn judge_effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Reads { paths } => {
                self.effects.push(effect.clone());
                self.judge_files(Access::Read, paths);
            }
            Effect::Writes { paths } => {
                self.effects.push(effect.clone());
                self.judge_files(Access::Write, paths);
            }
            Effect::Executes { command: Some(command), .. } => self.judge_text(command),
            Effect::Executes { command: None, argv } if argv.is_empty() => {
                self.effects.push(effect.clone());
                self.judge_unknown_effects();
            }
            Effect::Executes { command: None, argv } => self.judge_program(argv),
            Effect::LeavesContext { .. } => {
                self.effects.push(effect.clone());
                let tool = self.tool;
                let why = "it runs outside of the sandbox";
                match self.mode {
                    // Leaving a sandbox or container needs a question in mode `all`, too: the person chose
                    // that execution context.
                    Mode::All => self.add_reason(Decision::Ask, tool, why, None),
                    Mode::ReadOnly | Mode::Ask | Mode::AcceptEdits | Mode::Auto => {
                        self.decide_unallowed(tool, why)
                    }
                }
            }
            Effect::Network { hosts } => {
                self.effects.push(effect.clone());
                self.judge_hosts(hosts);
            }
        }
    }

    /// Judges the hosts that a tool connects to.
    fn judge_hosts(&mut self, hosts: &[String]) {
        let tool = self.tool;
        let subjects: Vec<&str> =
            if hosts.is_empty() { vec![tool] } else { hosts.iter().map(String::as_str).collect() };
        for (at, subject) in subjects.into_iter().enumerate() {
            let host = hosts.get(at).map(String::as_str);
            if self.apply_host_rules(host, subject) && self.mode != Mode::ReadOnly {
                continue;
            }
            let about_host = host.and_then(|host| self.host_allow_rule(host));
            match (about_host, self.tool_allow_rule()) {
                (Some(rule), _) => {
                    self.add_reason(Decision::Allow, subject, "a rule about this host", Some(rule))
                }
                (None, Some(rule)) => {
                    self.add_reason(Decision::Allow, subject, "a rule about this tool", Some(rule))
                }
                (None, None) => self.decide_unallowed(subject, "it opens connections"),
            }
        }
    }

    /// Applies the rules that deny or ask about a host, or about any host if it is unknown; returns whether
    /// any did.
    fn apply_host_rules(&mut self, host: Option<&str>, subject: &str) -> bool {
        let mut spoke = false;
        for decision in [Decision::Deny, Decision::Ask] {
            for rule in self.rules.saying(decision).filter(|rule| rule.host().is_some()) {
                match host {
                    Some(host) if rule.matches_host(host) => {
                        self.add_reason(decision, subject, "a rule about this host", Some(rule.into()));
                    }
                    Some(_) => continue,
                    None => {
                        let why = "it opens connections and does not say to whom, and a rule restricts some";
                        self.add_reason(Decision::Ask, subject, why, Some(rule.into()));
                    }
                }
                spoke = true;
            }
        }
        spoke
    }

    fn host_allow_rule(&self, host: &str) -> Option<RuleRef> {
        if self.mode == Mode::ReadOnly {
            return None;
        }
        self.rules.saying(Decision::Allow).find(|rule| rule.matches_host(host)).map(RuleRef::from)
    }

    /// Judges files that a tool reads or writes through the file service, which bounds it.
    fn judge_files(&mut self, access: Access, paths: &[PathBuf]) {
        let tool = self.tool;
        if paths.is_empty() {
            // A tool that cannot list its files may use a file that a rule restricts.
            let asked =
                self.rules.iter().find(|rule| rule.decision != Decision::Allow && rule.is_about(access));
            match (asked, access, self.tool_allow_rule()) {
                (Some(rule), ..) if self.mode != Mode::ReadOnly || access == Access::Read => {
                    let why = "it does not say which files, and a rule restricts some";
                    self.add_reason(Decision::Ask, tool, why, Some(rule.into()));
                }
                (_, Access::Read, _) => self.add_reason(Decision::Allow, tool, "it only reads", None),
                (_, Access::Write, Some(rule)) => {
                    self.add_reason(Decision::Allow, tool, "a rule about this tool", Some(rule));
                }
                (_, Access::Write, None) => {
                    self.decide_unallowed(tool, "it writes files and does not say which")
                }
            }
            return;
        }
        for path in paths {
            let subject = path.display().to_string();
            let full = self.here.cwd.join(path);
            let restricted = self.apply_path_rules(access, &full, &subject);
            if restricted && !(self.mode == Mode::ReadOnly && access == Access::Write) {
                continue;
            }
            match access {
                Access::Read => self.judge_file_read(&full, &subject),
                Access::Write => self.judge_file_write(&full, &subject),
            }
        }
    }

    fn judge_file_read(&mut self, full: &Path, subject: &str) {
        let why = match self.here.classifier.path(full) {
            PathPlace::Private => private::private_use(Path::new(subject)),
            // By its name as well, so that a file swapped for a link is not read without a question.
            _ if self.here.classifier.asks_read(full) => {
                let is_named = full.file_name().is_some_and(|name| sounds_like_credentials(Path::new(name)));
                if is_named { OUTSIDE_CREDENTIALS.to_owned() } else { OUTSIDE_READ.to_owned() }
            }
            // The file service itself refuses secrets.
            PathPlace::Inside | PathPlace::Protected | PathPlace::Secret | PathPlace::Outside => {
                self.add_reason(Decision::Allow, subject, "it only reads", None);
                return;
            }
        };
        let rule = self.read_allow_rule(full).or_else(|| self.tool_allow_rule());
        match (rule, self.mode) {
            (Some(rule), _) => {
                self.add_reason(Decision::Allow, subject, "a rule about this file", Some(rule))
            }
            // A person may allow the read.
            (None, Mode::ReadOnly) => self.add_reason(Decision::Ask, subject, why, None),
            (None, _) => self.decide_unallowed(subject, &why),
        }
    }

    /// Rule that allows reading a file.
    fn read_allow_rule(&self, full: &Path) -> Option<RuleRef> {
        // A read that a person allowed also holds in read-only modes.
        let counts = |rule: &&Rule| self.mode != Mode::ReadOnly || rule.layer == Layer::Session;
        let mut rules = self.rules.saying(Decision::Allow).filter(counts);
        rules.find(|rule| rule.matches_path(Access::Read, full)).map(RuleRef::from)
    }

    fn judge_file_write(&mut self, full: &Path, subject: &str) {
        if let Some(rule) = self.write_allow_rule(full) {
            self.add_reason(Decision::Allow, subject, "a rule about this file", Some(rule));
            return;
        }
        if let Some(rule) = self.tool_allow_rule() {
            self.add_reason(Decision::Allow, subject, "a rule about this tool", Some(rule));
            return;
        }
        let place = self.here.classifier.path(full);
        let accepts = match self.mode {
            Mode::AcceptEdits => true,
            Mode::Auto => self.here.is_contained,
            Mode::ReadOnly | Mode::Ask | Mode::All => false,
        };
        match place {
            PathPlace::Inside if accepts => {
                self.add_reason(
                    Decision::Allow,
                    subject,
                    format!("the mode {} allows changes in the workspace", self.mode),
                    None,
                );
            }
            PathPlace::Inside => self.decide_unallowed(subject, "it changes a file"),
            PathPlace::Protected => {
                self.decide_unallowed(subject, "programs are started from what it changes")
            }
            PathPlace::Secret | PathPlace::Private => {
                self.decide_unallowed(subject, "it changes a file with credentials");
            }
            PathPlace::Outside => {
                self.decide_unallowed(subject, "it changes a file outside of the workspace")
            }
        }
    }

    /// Rule that allows writing a file; patterns never allow writes of start files.
    fn write_allow_rule(&self, full: &Path) -> Option<RuleRef> {
        if self.mode == Mode::ReadOnly || self.here.classifier.path(full) != PathPlace::Inside {
            return None;
        }
        self.rules
            .saying(Decision::Allow)
            .find(|rule| rule.matches_path(Access::Write, full))
            .map(RuleRef::from)
    }

    /// Applies the rules that deny or ask about a file; returns whether any did.
    fn apply_path_rules(&mut self, access: Access, full: &Path, subject: &str) -> bool {
        let mut spoke = false;
        for decision in [Decision::Deny, Decision::Ask] {
            for rule in self.rules.saying(decision).filter(|rule| rule.matches_path(access, full)) {
                spoke = true;
                self.add_reason(decision, subject, "a rule about this file", Some(rule.into()));
            }
        }
        spoke
    }
}

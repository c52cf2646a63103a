use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use zk_core::events::TurnBefore;
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::model::{Effect, Effects};
use zk_core::service::{CallDecision, CallJudge, CallJudgement, CallOffer, Connections};

use crate::approvals::{Approval, ApprovalKind, Approvals, AskedPlace, call_offer, from_key, offered};
use crate::classifier::PathClassifier;
use crate::judge::{Call, Circumstances, Verdict, judge};
use crate::mode::{Mode, ModeSwitch};
use crate::repository::starts_nothing;
use crate::rules::{Decision, Layer, Rule, Rules};

/// Maximum number of paths for judging a call on the run's thread.
const MAX_QUICK_PATHS: usize = 8;

/// Plugin that provides the judge to permission gates, as a [`CallJudge`].
///
/// ```
/// use std::sync::Arc;
/// use zk_core::kernel::Bus;
/// use zk_core::service::CallJudge;
/// use zk_permission::{TextPathClassifier, Mode, PermissionJudge, Rules};
///
/// let classifier = Arc::new(TextPathClassifier::new(["/p"]));
/// let bus = Bus::new();
/// bus.install(&PermissionJudge::new(Mode::AcceptEdits, Rules::new(), "/p", classifier))?;
/// assert!(bus.service::<dyn CallJudge>().is_some());
/// # Ok::<(), zk_core::kernel::BoxError>(())
/// ```
#[derive(Clone)]
pub struct PermissionJudge {
    state: Arc<State>,
}

struct State {
    modes: ModeSwitch,
    holds_reads: AtomicBool,
    /// Whether the host ever reported on the read-only sandbox. Without a report, read-only calls need no
    /// sandbox.
    has_reported_read_sandbox: AtomicBool,
    /// Canonical root of the project.
    project: PathBuf,
    classifier: Arc<dyn PathClassifier>,
    approvals: Option<Approvals>,
    /// Rules of the settings and of the approvals file.
    rules: RwLock<Rules>,
    /// Rules that hold for this session only.
    session: RwLock<Vec<Rule>>,
}

impl std::fmt::Debug for PermissionJudge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (mode, project) = (self.mode(), &self.state.project);
        f.debug_struct("PermissionJudge")
            .field("mode", &mode)
            .field("project", project)
            .finish_non_exhaustive()
    }
}

impl PermissionJudge {
    /// Judge for the project with this canonical root.
    #[must_use]
    pub fn new(
        mode: impl Into<ModeSwitch>,
        rules: Rules,
        project: impl Into<PathBuf>,
        classifier: Arc<dyn PathClassifier>,
    ) -> Self {
        Self::build(mode.into(), rules, project.into(), classifier, None)
    }

    /// Judge with a file for lasting approvals; the rules in the file are not loaded here.
    #[must_use]
    pub fn with_approvals(
        mode: impl Into<ModeSwitch>,
        rules: Rules,
        project: impl Into<PathBuf>,
        classifier: Arc<dyn PathClassifier>,
        approvals: Approvals,
    ) -> Self {
        Self::build(mode.into(), rules, project.into(), classifier, Some(approvals))
    }

    /// Declares that commands run in a sandbox whose self-test passed.
    #[must_use]
    pub fn contained(self) -> Self {
        self.state.modes.contain();
        self
    }

    /// Restricts read-only calls to programs without configuration files, plugins and child processes,
    /// because no sandbox contains the processes of others.
    pub fn restrict_reads(&self) {
        self.set_holds_reads(false);
    }

    /// Allows all read-only programs again, because a sandbox contains their processes.
    pub fn hold_reads(&self) {
        self.set_holds_reads(true);
    }

    fn set_holds_reads(&self, holds_reads: bool) {
        self.state.classifier.hide_private(holds_reads);
        self.state.has_reported_read_sandbox.store(true, Ordering::Relaxed);
        self.state.holds_reads.store(holds_reads, Ordering::Relaxed);
    }

    /// Records whether the sandbox enforces a rule of the settings, from the next call on.
    pub fn set_held(&self, rule: &Rule, is_held: bool) {
        let mut rules = self.state.rules.write().unwrap_or_else(PoisonError::into_inner);
        let same = rules.iter_mut().filter(|own| (own.layer, &own.text) == (rule.layer, &rule.text));
        same.for_each(|own| own.is_held = is_held);
    }

    /// Mode for the next call.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.state.modes.now()
    }

    /// Switch of the mode, for code that shows or changes it.
    #[must_use]
    pub fn modes(&self) -> &ModeSwitch {
        &self.state.modes
    }

    /// Whether commands run in a sandbox whose self-test passed.
    #[must_use]
    pub fn is_contained(&self) -> bool {
        self.state.modes.is_contained()
    }

    fn build(
        modes: ModeSwitch,
        rules: Rules,
        project: PathBuf,
        classifier: Arc<dyn PathClassifier>,
        approvals: Option<Approvals>,
    ) -> Self {
        let (rules, session) = (RwLock::new(rules), RwLock::default());
        let holds_reads = AtomicBool::new(true);
        Self {
            state: Arc::new(State {
                modes,
                holds_reads,
                has_reported_read_sandbox: AtomicBool::new(false),
                project,
                classifier,
                approvals,
                rules,
                session,
            }),
        }
    }

    /// Judges a call in a directory.
    #[must_use]
    pub fn verdict(&self, tool: &str, effects: &Effects, cwd: &Path) -> Verdict {
        self.verdict_in(self.mode(), tool, effects, cwd)
    }

    fn verdict_in(&self, mode: Mode, tool: &str, effects: &Effects, cwd: &Path) -> Verdict {
        self.verdict_with_reads(self.state.holds_reads.load(Ordering::Relaxed), mode, tool, effects, cwd)
    }

    /// Judges a call in a given mode, with or without a read-only sandbox.
    fn verdict_with_reads(
        &self,
        holds_reads: bool,
        mode: Mode,
        tool: &str,
        effects: &Effects,
        cwd: &Path,
    ) -> Verdict {
        let State { rules, session, .. } = &*self.state;
        let mut rules = rules.read().unwrap_or_else(PoisonError::into_inner).clone();
        session
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .for_each(|rule| rules.push(rule.clone()));
        rules.drop_outdated();
        self.judge_by(&rules, holds_reads, mode, &Call { tool, effects }, cwd)
    }

    /// Whether an approval of this kind would allow the call; one without effect is not offered.
    fn would_allow(&self, kind: &ApprovalKind, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        if !matches!(kind, ApprovalKind::Code(_)) {
            return true;
        }
        let mut rules = self.state.rules.read().unwrap_or_else(PoisonError::into_inner).clone();
        let approval =
            Approval { kind: kind.clone(), project: self.state.project.clone(), created: String::new() };
        rules.push(approval.rule());
        let holds_reads = self.state.holds_reads.load(Ordering::Relaxed);
        self.judge_by(&rules, holds_reads, self.mode(), &Call { tool, effects }, cwd).decision
            == Decision::Allow
    }

    fn judge_by(&self, rules: &Rules, holds_reads: bool, mode: Mode, call: &Call<'_>, cwd: &Path) -> Verdict {
        let State { project, classifier, .. } = &*self.state;
        let here = Circumstances {
            cwd,
            classifier: &**classifier,
            is_contained: self.is_contained(),
            holds_reads,
            // Reads the repository, so only for commands.
            trusts_repository: runs_command(call.effects)
                && is_in_project_repository(cwd, project)
                && starts_nothing(project),
        };
        judge(call, mode, rules, &here)
    }
}

impl Plugin for PermissionJudge {
    fn name(&self) -> &'static str {
        "permission-judge"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide_service::<dyn CallJudge>(Arc::new(self.clone()));
        let state = self.state.clone();
        scope.on_sync(move |_: &TurnBefore, _: &Cx| {
            state.modes.begin_turn();
        });
        Ok(())
    }
}

impl PermissionJudge {
    /// Whether a call is allowed only because it seems to be read-only.
    fn is_allowed_only_as_read(&self, holds_reads: bool, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        let mode = match self.mode() {
            Mode::All => return false,
            // In mode `auto` the sandbox allows most calls; a read is a call that would be allowed without
            // it.
            Mode::Auto if self.is_contained() => Mode::ReadOnly,
            mode => mode,
        };
        let verdict = self.verdict_with_reads(holds_reads, mode, tool, effects, cwd);
        verdict.decision == Decision::Allow && verdict.reasons.iter().all(|reason| reason.rule.is_none())
    }
}

impl CallJudge for PermissionJudge {
    fn judge(&self, tool: &str, effects: &Effects, cwd: &Path) -> CallJudgement {
        let verdict = self.verdict(tool, effects, cwd);
        let by_rule =
            verdict.reasons.iter().any(|reason| reason.decision == Decision::Ask && reason.rule.is_some());
        let decision = match verdict.decision {
            Decision::Allow => CallDecision::Allow,
            Decision::Ask => CallDecision::Ask { by_rule },
            Decision::Deny => CallDecision::Deny,
        };
        let had_a_say = verdict.reasons.iter().filter(|reason| reason.decision == verdict.decision);
        let reasons = had_a_say.map(ToString::to_string).collect();
        let State { project, classifier, .. } = &*self.state;
        let is_contained = self.is_contained() && !effects.leaves_context();
        let at = AskedPlace { cwd, project, classifier: &**classifier, is_contained };
        let offer = (verdict.decision == Decision::Ask)
            .then(|| offered(tool, &verdict, effects, at))
            .flatten()
            .filter(|kind| self.would_allow(kind, tool, effects, cwd))
            .and_then(|kind| call_offer(&kind, project));
        let mode = self.mode();
        // `--permission-mode all` alone selects the process context, which has no sandbox to leave.
        let within = effects.without_leaving();
        let is_allowed = |mode: &&Mode| {
            let effects = if **mode == Mode::All { &within } else { effects };
            self.verdict_in(**mode, tool, effects, cwd).decision == Decision::Allow
        };
        let wider_modes =
            Mode::ALL.iter().filter(|wider| **wider > mode && verdict.decision != Decision::Allow);
        let allowed_by = wider_modes.filter(is_allowed).map(|mode| mode.name().to_owned()).next();
        CallJudgement { decision, reasons, offer, allowed_by }
    }

    fn is_quick(&self, effects: &Effects, cwd: &Path) -> bool {
        let Effects::Known { list } = effects else { return false };
        let [Effect::Reads { paths }] = list.as_slice() else { return false };
        let State { rules, session, classifier, .. } = &*self.state;
        let of_session = session.read().unwrap_or_else(PoisonError::into_inner);
        paths.len() <= MAX_QUICK_PATHS
            && of_session.iter().all(|rule| rule.code().is_none())
            && !rules.read().unwrap_or_else(PoisonError::into_inner).has_file_bound_rules()
            && paths.iter().all(|path| classifier.is_cached(&cwd.join(path)))
    }

    fn allows_as_read(&self, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        // Calls that are allowed because of the commands' sandbox run there if there is no read-only sandbox.
        let is_held = self.mode() == Mode::Auto || self.state.holds_reads.load(Ordering::Relaxed);
        self.is_allowed_only_as_read(is_held, tool, effects, cwd)
    }

    fn would_allow_as_read(&self, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        self.is_allowed_only_as_read(true, tool, effects, cwd)
    }

    fn allows_beyond_read(&self, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        let mode = self.mode();
        let verdict = self.verdict_in(mode, tool, effects, cwd);
        verdict.decision == Decision::Allow
            && (mode == Mode::All
                || (mode == Mode::Auto && self.is_contained())
                || verdict.reasons.iter().any(|reason| reason.rule.is_some()))
    }

    fn allows_unheld_read(&self, tool: &str, effects: &Effects, cwd: &Path) -> bool {
        // In mode `auto` the commands' sandbox contains the read.
        let is_contained = self.mode() == Mode::Auto && self.is_contained();
        let is_left = !self.state.has_reported_read_sandbox.load(Ordering::Relaxed);
        self.is_allowed_only_as_read(is_contained || is_left, tool, effects, cwd)
    }

    fn connections(&self, tool: &str, effects: &Effects, cwd: &Path) -> Option<Connections> {
        self.verdict(tool, effects, cwd).connections
    }

    fn remember(&self, offer: &CallOffer, lasting: bool) -> Result<(), String> {
        let Some(kind) = from_key(&offer.key) else { return Err("there is no such offer".to_owned()) };
        let approval = Approval { kind, project: self.state.project.clone(), created: today() };
        let rule = Rule { layer: Layer::Session, ..approval.rule() };
        self.state.session.write().unwrap_or_else(PoisonError::into_inner).push(rule);
        if !lasting {
            return Ok(());
        }
        let Some(approvals) = &self.state.approvals else {
            return Err("there is no place to remember it".to_owned());
        };
        approvals.add(&approval).map_err(|error| error.to_string())?;
        self.state.rules.write().unwrap_or_else(PoisonError::into_inner).push(approval.rule());
        Ok(())
    }

    fn forget_session(&self) {
        self.state.session.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Whether a call runs a command.
fn runs_command(effects: &Effects) -> bool {
    let Effects::Known { list } = effects else { return false };
    list.iter().any(|effect| matches!(effect, Effect::Executes { .. }))
}

/// Whether a directory belongs to the repository at `project`, with no nested repository in between.
fn is_in_project_repository(cwd: &Path, project: &Path) -> bool {
    let is_absent = |path: PathBuf| std::fs::symlink_metadata(path).is_err();
    cwd.starts_with(project)
        && cwd
            .ancestors()
            .take_while(|dir| *dir != project)
            .all(|dir| is_absent(dir.join(".git")) && is_absent(dir.join("HEAD")))
}

/// Current day in UTC, as `2026-11-22`.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    date_of_day(seconds / 86_400)
}

/// Date of a day since 1970, as `2026-11-22`, computed with 400-year cycles that begin in March.
pub(crate) fn date_of_day(days: u64) -> String {
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", year + 400 * cycle + carry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_computed_from_days_since_1970() {
        for (days, text) in
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_779, "2026-11-22")]
        {
            assert_eq!(date_of_day(days), text);
        }
    }
}

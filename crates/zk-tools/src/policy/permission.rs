use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use zk_core::events::{PermissionReply, PermissionRequest, Ruling, SessionLoaded, ToolGate, TurnBefore};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Plugin, Scope, Stage};
use zk_core::model::{Effect, Effects};
use zk_core::service::{
    Approval, CallDecision, CallJudge, CallJudgement, CallOffer, Question, Questions, Redactor, Trust,
    TrustError, TrustItem, Ui, UiAnswer,
};

/// How long a person may think before the call is refused.
const PATIENCE: Duration = Duration::from_secs(600);

/// How much longer the gate waits than the question: the question's own end says why.
const MARGIN: Duration = Duration::from_secs(5);

/// How much of a remembered call is listed; all of it is what counts.
const RULE_CHARS: usize = 500;

/// What may run without being asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PermissionMode {
    /// Read-only calls; for all others a person is asked, and without one they are refused.
    #[default]
    Ask,
    /// Everything.
    AllowAll,
}

/// Asks before a call that changes something, for the agent it is installed with and all of its descendants.
///
/// Runs as the last gate, on the final arguments. Choices for the session hold in all agents of the tree, until
/// another conversation takes the place of this one; *always* is offered where the host [has it
/// remembered](Self::remembering). Where the host has a [`CallJudge`], that decides first: what it denies nobody is
/// asked about, what it allows runs, and what it offers to allow is what a question offers.
///
/// ```
/// use zk_core::kernel::Bus;
/// use zk_tools::{PermissionGate, PermissionMode};
///
/// let bus = Bus::new();
/// bus.install(&PermissionGate::new(PermissionMode::Ask)).unwrap();
/// ```
#[derive(Debug)]
pub struct PermissionGate {
    granted: Arc<Granted>,
}

/// Changes the mode of a [`PermissionGate`] while it works. Clones are the same.
#[derive(Clone, Debug)]
pub struct PermissionControl {
    granted: Arc<Granted>,
}

impl PermissionControl {
    /// The mode of the next call.
    #[must_use]
    pub fn mode(&self) -> PermissionMode {
        self.granted.mode().now
    }

    /// Sets the mode. A tighter one holds from the next call on; a wider one from the next turn on, so that it
    /// lets nothing through that the model asked for before.
    pub fn set_mode(&self, mode: PermissionMode) {
        let mut current = self.granted.mode();
        current.next = Some(mode);
        if mode == PermissionMode::Ask {
            current.now = mode;
        }
    }
}

/// The mode now, and the one from the next turn on.
#[derive(Debug, Default)]
struct Mode {
    now: PermissionMode,
    next: Option<PermissionMode>,
}

/// What the person allowed for the rest of the session.
#[derive(Debug, Default)]
struct Granted {
    /// The project whose rules are remembered.
    project: Option<PathBuf>,
    mode: Mutex<Mode>,
    grants: Mutex<BTreeSet<Grant>>,
    /// Told of each new grant: it may answer other pending questions.
    added: Notify,
}

/// What one choice allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Grant {
    /// Every call of a tool that only writes files.
    Tool(String),
    /// This call with exactly these arguments, as JSON.
    Exact(String, String),
}

impl Grant {
    /// What *for this session* allows: for a tool that only writes files, the tool; for anything else, whose
    /// next call may do something quite different, the call as it is.
    fn for_session(gate: &ToolGate) -> Self {
        let writes_files = match &gate.effects {
            Effects::Unknown => false,
            Effects::Known { list } => list.iter().all(|effect| match effect {
                Effect::Reads { .. } | Effect::Writes { .. } => true,
                Effect::Executes { .. } | Effect::Network { .. } => false,
            }),
        };
        if writes_files { Self::Tool(gate.call.name.clone()) } else { Self::exact(gate) }
    }

    fn exact(gate: &ToolGate) -> Self {
        Self::Exact(gate.call.name.clone(), gate.args.to_string())
    }

    fn describe(&self) -> String {
        match self {
            Self::Tool(name) => format!("every call of `{name}`"),
            Self::Exact(..) => "exactly this call".to_owned(),
        }
    }
}

impl PermissionGate {
    /// The gate.
    #[must_use]
    pub fn new(mode: PermissionMode) -> Self {
        let mode = Mutex::new(Mode { now: mode, next: None });
        Self { granted: Arc::new(Granted { mode, ..Granted::default() }) }
    }

    /// Changes the mode of this gate later.
    #[must_use]
    pub fn control(&self) -> PermissionControl {
        PermissionControl { granted: self.granted.clone() }
    }

    /// Offers *always this exact call*, which the host's [`Trust`] remembers for `project`, canonical, under the
    /// kind [`PermissionGate::TRUST_KIND`].
    #[must_use]
    pub fn remembering(self, project: impl Into<PathBuf>) -> Self {
        let mode = Mutex::new(Mode { now: self.granted.mode().now, next: None });
        let granted = Granted { project: Some(project.into()), mode, ..Granted::default() };
        Self { granted: Arc::new(granted) }
    }

    /// What remembered calls are in the trust store.
    pub const TRUST_KIND: &'static str = "command";
}

impl Plugin for PermissionGate {
    fn name(&self) -> &'static str {
        "permission"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let last = HookOptions { time_limit: Some(PATIENCE + MARGIN), ..HookOptions::from(Stage::Late) };
        scope.handle_at::<ToolGate, _>(last, self.granted.clone());
        let granted = self.granted.clone();
        scope.on_sync(move |_: &TurnBefore, _: &Cx| {
            let mut mode = granted.mode();
            mode.now = mode.next.take().unwrap_or(mode.now);
        });
        // What a person allowed in one session is not allowed in the next.
        let granted = self.granted.clone();
        scope.on_sync(move |_: &SessionLoaded, cx: &Cx| {
            granted.granted().clear();
            if let Some(judge) = cx.service::<dyn CallJudge>() {
                judge.forget_session();
            }
        });
        Ok(())
    }
}

impl Handler<ToolGate> for Granted {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        // The loop tells the model that there is no such tool.
        let Some(tool) = gate.tool.as_ref().filter(|_| !gate.is_decided()) else { return Ok(None) };
        let judge = cx.service::<dyn CallJudge>();
        let judgement =
            judge.as_ref().map(|judge| judge.judge(&gate.call.name, &gate.effects, &gate.place.cwd));
        let asks_by_rule = match judgement.as_ref().map(|judgement| judgement.decision) {
            Some(CallDecision::Deny) => return Ok(Some(denied(judgement.as_ref()))),
            Some(CallDecision::Allow) => return Ok(None),
            Some(CallDecision::Ask { by_rule }) => by_rule,
            // Nobody knows more of it than it says itself.
            None if gate.effects.is_read_only() => return Ok(None),
            None => false,
        };
        if !asks_by_rule && (self.mode().now == PermissionMode::AllowAll || self.allows(gate)) {
            return Ok(None);
        }
        // A rule that asks does so every time.
        let rule = if asks_by_rule { None } else { self.exact_rule(gate, cx) };
        if rule.as_ref().is_some_and(ExactRule::is_trusted) {
            return Ok(None);
        }
        if cx.bus().has_listeners::<PermissionRequest>() {
            let (call, args, effects) = (gate.call.clone(), gate.args.clone(), gate.effects.clone());
            match cx.emit(PermissionRequest { call, args, effects, by_rule: asks_by_rule }).await? {
                Some(PermissionReply::Deny { reason }) => return Ok(Some(Ruling::Refuse(reason))),
                Some(PermissionReply::Allow) if !asks_by_rule => return Ok(None),
                Some(PermissionReply::Allow) | None => {}
            }
        }
        let offer =
            judgement.as_ref().and_then(|judgement| judgement.offer.clone()).filter(|_| !asks_by_rule);
        let shown = &gate.call.display_name;
        let Some(questions) = cx.service::<Questions>().filter(|questions| questions.is_attended()) else {
            return Ok(Some(Ruling::refuse(format!(
                "`{shown}` changes things and nobody is here to approve it; to allow it, run zk with --allow-all, or \
                 start it on a terminal to be asked{}",
                because(judgement.as_ref())
            ))));
        };
        let session = Grant::for_session(gate);
        let approval = Approval {
            tool: gate.call.name.clone(),
            args: gate.args.clone(),
            effects: gate.effects.clone(),
            preview: tool.preview(&gate.args, &gate.place).await,
            session: match (&offer, asks_by_rule) {
                (_, true) => None,
                (Some(offer), false) => Some(offer.describes.clone()),
                (None, false) => Some(session.describe()),
            },
            always: offer.as_ref().map(describe_lasting).or(rule.as_ref().map(ExactRule::describe)),
        };
        let meanwhile = async {
            if asks_by_rule {
                std::future::pending().await
            } else {
                self.allowed_meanwhile(gate, judge.as_deref()).await
            }
        };
        let answer = tokio::select! {
            answer = questions.ask(Question::Approve(Box::new(approval)), cx, PATIENCE) => answer,
            () = meanwhile => return Ok(None),
        };
        if let (Some(judge), Some(offer)) = (&judge, &offer)
            && matches!(answer, UiAnswer::Session | UiAnswer::Always)
        {
            if let Err(error) = judge.remember(offer, answer == UiAnswer::Always)
                && let Some(ui) = cx.service::<dyn Ui>()
            {
                ui.notify(&format!("allowed for this session only: {error}"));
            }
            self.added.notify_waiters();
            return Ok(None);
        }
        Ok(match answer {
            UiAnswer::Once => None,
            // What was not offered is not chosen; it would still be a yes to this call.
            UiAnswer::Session | UiAnswer::Always if asks_by_rule => None,
            UiAnswer::Session => {
                self.grant(session);
                None
            }
            UiAnswer::Always => {
                self.grant(Grant::exact(gate));
                if let Some(Err(error)) = rule.map(|rule| rule.remember())
                    && let Some(ui) = cx.service::<dyn Ui>()
                {
                    ui.notify(&format!("allowed for this session only: {error}"));
                }
                None
            }
            UiAnswer::No { message: Some(message) } => {
                Some(Ruling::refuse(format!("the user declined this call: {message}")))
            }
            UiAnswer::No { message: None } => Some(Ruling::refuse(
                "the user declined this call; do not try it again, ask what to do instead",
            )),
            UiAnswer::Absent => Some(Ruling::refuse(
                "nobody answered whether this call may run; it was not the user who declined it",
            )),
            UiAnswer::Choice { .. } | UiAnswer::Text { .. } => {
                Some(Ruling::refuse("the answer was neither yes nor no, so this call was not made"))
            }
        })
    }
}

fn denied(judgement: Option<&CallJudgement>) -> Ruling {
    Ruling::refuse(format!(
        "this call is not allowed here, and nobody is asked about it{}",
        because(judgement)
    ))
}

/// The reasons of a judgement, behind a sentence.
fn because(judgement: Option<&CallJudgement>) -> String {
    let reasons = judgement.map(|judgement| judgement.reasons.as_slice()).unwrap_or_default();
    reasons.iter().map(|reason| format!("\n{reason}")).collect()
}

fn describe_lasting(offer: &CallOffer) -> String {
    format!(
        "{}, in this project and in later sessions too; `zk policy revoke` takes it back",
        offer.describes
    )
}

/// A call as a rule of the trust store: the tool, the arguments and the directory, exactly.
struct ExactRule {
    trust: Arc<dyn Trust>,
    project: PathBuf,
    /// For people, and to revoke it by.
    name: String,
    bytes: Vec<u8>,
    cwd: String,
}

impl ExactRule {
    fn item(&self) -> TrustItem<'_> {
        let kind = PermissionGate::TRUST_KIND;
        TrustItem { project: &self.project, kind, name: &self.name, bytes: &self.bytes }
    }

    fn is_trusted(&self) -> bool {
        self.trust.is_trusted(&self.item())
    }

    fn remember(&self) -> Result<(), TrustError> {
        self.trust.approve(&self.item())
    }

    fn describe(&self) -> String {
        format!("exactly this call in {}, in later sessions too; `zk trust` lists and revokes it", self.cwd)
    }
}

impl Granted {
    /// The rule that would allow exactly this call, where the host remembers any.
    fn exact_rule(&self, gate: &ToolGate, cx: &Cx) -> Option<ExactRule> {
        let (project, trust) = (self.project.clone()?, cx.service::<dyn Trust>()?);
        // One that is no UTF-8 could be taken for another one.
        let cwd = gate.place.cwd.to_str()?.to_owned();
        let tool = &gate.call.name;
        let bytes = serde_json::to_vec(&(&cwd, tool, &gate.args)).ok()?;
        let shown = format!("{tool} {}", gate.args);
        let redacted = cx.service::<Redactor>().map(|redactor| redactor.redact(&shown).into_owned());
        let mut name = redacted.unwrap_or(shown);
        if let Some((at, _)) = name.char_indices().nth(RULE_CHARS) {
            name.truncate(at);
            name.push('…');
        }
        Some(ExactRule { trust, project, name, bytes, cwd })
    }

    fn grant(&self, grant: Grant) {
        self.granted().insert(grant);
        self.added.notify_waiters();
    }

    fn allows(&self, gate: &ToolGate) -> bool {
        let granted = self.granted();
        granted.contains(&Grant::exact(gate)) || granted.contains(&Grant::for_session(gate))
    }

    /// Waits until another answer allows this call too.
    async fn allowed_meanwhile(&self, gate: &ToolGate, judge: Option<&dyn CallJudge>) {
        loop {
            let added = self.added.notified();
            let is_allowed = |judge: &dyn CallJudge| {
                judge.judge(&gate.call.name, &gate.effects, &gate.place.cwd).decision == CallDecision::Allow
            };
            if self.allows(gate) || judge.is_some_and(is_allowed) {
                return;
            }
            added.await;
        }
    }

    fn mode(&self) -> MutexGuard<'_, Mode> {
        self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn granted(&self) -> MutexGuard<'_, BTreeSet<Grant>> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

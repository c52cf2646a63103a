use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use zk_core::events::{
    AgentBeforeStart, AgentStart, GoalChanged, GoalState, SessionEnd, SessionSwitch, SideCallEnd, UsageUpdate,
};
use zk_core::kernel::{BoxError, Cx, Plugin, Reach, Scope};
use zk_core::model::SessionId;
use zk_core::service::{
    Command, CurrentCwd, Questions, Redactor, RunControl, RunningAgents, StateLock, Ui, UiAnswer,
    visible_line,
};

use super::command::FleetCommand;
use super::dir::FleetDir;
use super::entry::{ENTRY_VERSION, FleetEntry, FleetRequest, OpenAnswers, OpenQuestion, redacted_line};
use super::lines::{open_goal_notice, orphan_notice};
use super::now_ms;
use crate::Goals;
use crate::drive::{cut, stop_agents};

/// Age from which a conversation is listed, so that a short one never is.
const FIRST_WRITE_DELAY: Duration = Duration::from_millis(300);

/// Minimum time between two writes of the entry.
const WRITE_PAUSE: Duration = Duration::from_millis(250);

/// Polling interval for requests of other processes.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum size of a listed prompt, in bytes.
const MAX_PROMPT_BYTES: usize = 400;

/// Reason for a stop that another process requested.
const STOP_REASON: &str = "stopped by zk fleet";

/// Plugin that publishes a conversation's status in the [`FleetDir`], and handles stop and answer requests of other
/// processes. A consent is never given by another process.
#[derive(Clone, Debug)]
pub struct FleetBeacon(Arc<Beacon>);

struct Beacon {
    dir: FleetDir,
    redactor: Arc<Redactor>,
    entry: Mutex<Listed>,
    changed: Notify,
    run: Mutex<Option<Weak<dyn RunControl>>>,
    /// Lock on the entry's file, held from its first write on.
    lock: Mutex<Option<StateLock>>,
    /// Closed entries of sessions with an open goal that the conversation left for another session.
    left: Mutex<Vec<FleetEntry>>,
    /// Last session of which entries of dead processes were removed.
    cleaned_session: Mutex<Option<SessionId>>,
}

/// Listed entry, with the time at which its present work began.
struct Listed {
    entry: FleetEntry,
    /// Time at which the conversation last began to work, in milliseconds since 1970; 0 before.
    working_since_ms: u64,
}

impl fmt::Debug for Beacon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beacon").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl FleetBeacon {
    /// Creates the plugin for a conversation of the process `pid` in the directory `cwd`.
    #[must_use]
    pub fn new(dir: FleetDir, redactor: Arc<Redactor>, pid: u32, cwd: PathBuf) -> Self {
        let now = now_ms();
        let entry = FleetEntry {
            version: ENTRY_VERSION,
            id: new_id(),
            pid,
            started_ms: now,
            updated_ms: now,
            session: None,
            cwd,
            prompt: String::new(),
            is_running: false,
            questions: Vec::new(),
            turns: 0,
            cost: 0.0,
            goal: None,
            is_closed: false,
            is_told: false,
            gone_ms: None,
        };
        Self(Arc::new(Beacon {
            dir,
            redactor,
            entry: Mutex::new(Listed { entry, working_since_ms: 0 }),
            changed: Notify::new(),
            run: Mutex::default(),
            lock: Mutex::default(),
            left: Mutex::default(),
            cleaned_session: Mutex::default(),
        }))
    }
}

impl Plugin for FleetBeacon {
    fn name(&self) -> &'static str {
        "fleet"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let beacon = &self.0;
        scope.provide::<dyn Command>("fleet", Arc::new(FleetCommand(beacon.dir.clone())))?;
        watch_runs(beacon, scope);
        let (task, of_task) = (beacon.clone(), scope.clone());
        scope.spawn(async move { task.publish(&of_task).await });
        let closing = beacon.clone();
        scope.on_close(async move || {
            let _ = tokio::task::spawn_blocking(move || closing.close_entry()).await;
        });
        Ok(())
    }
}

fn watch_runs(beacon: &Arc<Beacon>, scope: &Scope) {
    let own = beacon.clone();
    scope.on_sync_at(Reach::Own, move |event: &AgentBeforeStart, _: &Cx| {
        if let Some(prompt) = event.prompt.as_ref().filter(|prompt| prompt.injected_by.is_none()) {
            let text = own.redact(&prompt.text());
            let first = visible_line(&cut(text.lines().next().unwrap_or_default(), MAX_PROMPT_BYTES));
            own.change_entry(|entry| entry.prompt = first);
        }
        None
    });
    let own = beacon.clone();
    scope.on_sync_at(Reach::Own, move |_: &AgentStart, cx: &Cx| {
        *lock(&own.run) = cx.service::<dyn RunControl>().map(|run| Arc::downgrade(&run));
        own.change_entry(|entry| entry.is_running = true);
    });
    let own = beacon.clone();
    scope.on_sync_at(Reach::Own, move |_: &SessionEnd, _: &Cx| {
        *lock(&own.run) = None;
        own.change_entry(|entry| entry.is_running = false);
    });
    let own = beacon.clone();
    scope.on_sync_at(Reach::Descendants, move |event: &UsageUpdate, cx: &Cx| {
        let is_own = cx.origin().depth == 0;
        own.change_entry(|entry| {
            entry.turns += u32::from(is_own);
            entry.cost += event.turn.cost.unwrap_or_default();
        });
    });
    let own = beacon.clone();
    scope.on_sync_at(Reach::Descendants, move |event: &SideCallEnd, _: &Cx| {
        own.change_entry(|entry| entry.cost += event.usage.cost.unwrap_or_default());
    });
    let own = beacon.clone();
    scope.on_sync_at(Reach::Own, move |event: &GoalChanged, _: &Cx| own.set_goal(Some(event.clone())));
    let own = beacon.clone();
    scope.on_sync_at(Reach::Own, move |event: &SessionSwitch, cx: &Cx| {
        let goal = cx.service::<Goals>().and_then(|goals| goals.goal()).map(|goal| goal.changed());
        if !event.is_same_session() {
            own.leave_session(event.from.clone());
            tell_open_goal(goal.as_ref(), cx);
        }
        own.set_goal(goal);
    });
}

/// Tells the person of the open goal of a session that was opened.
fn tell_open_goal(goal: Option<&GoalChanged>, cx: &Cx) {
    if let (Some(notice), Some(ui)) = (goal.and_then(open_goal_notice), cx.service::<dyn Ui>()) {
        ui.notify(&notice);
    }
}

impl Beacon {
    fn redact(&self, text: &str) -> String {
        self.redactor.redact(text).into_owned()
    }

    fn change_entry(&self, change: impl FnOnce(&mut FleetEntry)) {
        let mut listed = lock(&self.entry);
        let was_working = listed.entry.is_working();
        change(&mut listed.entry);
        // Every change has a later time than the change before, so that a request shows which state its
        // sender saw.
        let now = now_ms().max(listed.entry.updated_ms.saturating_add(1));
        listed.entry.updated_ms = now;
        if !was_working && listed.entry.is_working() {
            listed.working_since_ms = now;
        }
        drop(listed);
        self.changed.notify_one();
    }

    fn set_goal(&self, goal: Option<GoalChanged>) {
        let redact = |text: &str| self.redact(text);
        let goal = goal.filter(|goal| goal.state != GoalState::Cleared).map(|goal| GoalChanged {
            text: redacted_line(&goal.text, &redact),
            reason: goal.reason.map(|reason| redacted_line(&reason, &redact)),
            waiting: goal.waiting.iter().map(|decision| redacted_line(decision, &redact)).collect(),
            ..goal
        });
        self.change_entry(|entry| entry.goal = goal);
    }

    /// Keeps a session in the list whose goal is open, while the conversation goes on with another session.
    fn leave_session(&self, session: Option<SessionId>) {
        let entry = lock(&self.entry).entry.clone();
        if session.is_some() && entry.has_open_goal() {
            let (id, questions) = (new_id(), Vec::new());
            let left = FleetEntry { id, session, questions, is_running: false, is_closed: true, ..entry };
            lock(&self.left).push(left);
        }
    }

    /// Writes the closed entries of sessions that the conversation left.
    fn write_left_entries(&self) {
        for entry in lock(&self.left).drain(..) {
            // A failed write costs only the place in the list; the goal is in its session.
            let _ = self.dir.write(&entry);
        }
    }

    /// Writes the entry when it changes, and carries out requests, until the conversation closes.
    async fn publish(self: Arc<Self>, scope: &Scope) {
        tokio::time::sleep(FIRST_WRITE_DELAY).await;
        self.refresh_session(scope);
        // Before the first write, which removes the entry of the session's dead process.
        self.load_goal(scope).await;
        if !self.run_blocking(Self::write_first_entry).await {
            // If the entry cannot be written, the conversation works without being listed.
            return;
        }
        self.report_orphans(scope).await;
        let questions = scope.bus().and_then(|bus| bus.service::<Questions>());
        let mut changes = questions.as_ref().map(|questions| questions.subscribe());
        if let Some(changes) = &mut changes {
            // A question may have been asked before this subscription.
            changes.mark_changed();
        }
        let mut requests = tokio::time::interval(REQUEST_INTERVAL);
        requests.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let take = |own: &Self| own.dir.take_requests(&own.entry_id()).unwrap_or_default();
        loop {
            let agents = || scope.bus().and_then(|bus| bus.service::<dyn RunningAgents>());
            let is_working = lock(&self.entry).entry.is_working()
                || agents().is_some_and(|agents| agents.is_any_running());
            let asked = async {
                match &mut changes {
                    Some(changes) => changes.changed().await.is_ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                _ = asked => {
                    let pending = questions.iter().flat_map(|questions| questions.pending());
                    let redact = |text: &str| self.redact(text);
                    let open = pending.map(|pending| OpenQuestion::new(&pending, &redact)).collect();
                    self.change_entry(|entry| entry.questions = open);
                }
                // Requests are polled only while the conversation works, so that an idle one needs no
                // wake-ups.
                _ = requests.tick(), if is_working => {
                    for request in self.run_blocking(take).await {
                        self.carry_out(request, questions.as_deref(), scope).await;
                    }
                    continue;
                }
            }
            self.refresh_session(scope);
            // The next change repeats a failed write.
            self.run_blocking(|own| _ = own.write_entry()).await;
            tokio::time::sleep(WRITE_PAUSE).await;
        }
    }

    /// Copies the goal of a resumed session to the entry, and tells the person of an open one. A conversation that was
    /// only looked at stays in the list then.
    async fn load_goal(&self, scope: &Scope) {
        let Some(bus) = scope.bus() else { return };
        let Some(goals) = bus.service::<Goals>() else { return };
        if lock(&self.entry).entry.goal.is_some() {
            return;
        }
        // If the session cannot be read, its first run reports that.
        let Ok(Some(goal)) = goals.load(&bus.cx()).await else { return };
        let changed = goal.changed();
        self.set_goal(Some(changed.clone()));
        // A run that goes on with the goal, or with a prompt, tells of it.
        if !lock(&self.entry).entry.is_running {
            tell_open_goal(Some(&changed), &bus.cx());
        }
    }

    async fn run_blocking<T: Default + Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let own = self.clone();
        tokio::task::spawn_blocking(move || work(&own)).await.unwrap_or_default()
    }

    fn entry_id(&self) -> String {
        lock(&self.entry).entry.id.clone()
    }

    /// Copies the session and the directory of the conversation to the entry.
    fn refresh_session(&self, scope: &Scope) {
        let Some(bus) = scope.bus() else { return };
        let session = bus.service::<SessionId>().map(|id| SessionId::clone(&id));
        let cwd = bus.service::<dyn CurrentCwd>().and_then(|cwd| cwd.cwd());
        let entry = &mut lock(&self.entry).entry;
        entry.session = session;
        if let Some(cwd) = cwd {
            entry.cwd = cwd;
        }
    }

    /// Locks and writes the entry for the first time; returns whether that succeeded.
    fn write_first_entry(&self) -> bool {
        let id = self.entry_id();
        let Ok(held) = self.dir.lock(&id) else { return false };
        *lock(&self.lock) = Some(held);
        self.write_entry()
    }

    /// Writes the entry, if the conversation is listed; returns false if writing failed.
    fn write_entry(&self) -> bool {
        // Locked during the write, so that closing waits for it and no later write follows.
        let held = lock(&self.lock);
        if held.is_none() {
            return true;
        }
        let entry = lock(&self.entry).entry.clone();
        self.remove_dead_entries(&entry);
        self.write_left_entries();
        self.dir.publish(&entry).is_ok()
    }

    /// Removes entries of dead processes of the same session. Done once per session, because it reads the
    /// whole list.
    fn remove_dead_entries(&self, entry: &FleetEntry) {
        let Some(session) = &entry.session else { return };
        let mut cleaned_session = lock(&self.cleaned_session);
        if cleaned_session.as_ref() != Some(session)
            && self.dir.remove_dead_entries(session, &entry.id).is_ok()
        {
            *cleaned_session = Some(session.clone());
        }
    }

    async fn report_orphans(self: &Arc<Self>, scope: &Scope) {
        // Without a front-end, the orphans stay unreported.
        let Some(ui) = scope.bus().and_then(|bus| bus.service::<dyn Ui>()) else { return };
        let orphans = self.run_blocking(|own| own.dir.reconcile().unwrap_or_default()).await;
        let cwd = lock(&self.entry).entry.cwd.clone();
        if let Some(notice) = orphan_notice(&orphans, &cwd) {
            ui.notify(&notice);
        }
    }

    async fn carry_out(&self, request: FleetRequest, questions: Option<&Questions>, scope: &Scope) {
        match request {
            FleetRequest::Stop { listed_ms } => {
                if listed_ms < lock(&self.entry).working_since_ms {
                    // The work that the request refers to has ended.
                    return;
                }
                let run = lock(&self.run).as_ref().and_then(Weak::upgrade);
                if let Some(run) = run {
                    run.abort(STOP_REASON);
                }
                let Some(bus) = scope.bus() else { return };
                stop_agents(STOP_REASON, &bus.cx());
                // Between two runs there is no run to stop, but a goal to pause.
                if let Some(goals) = bus.service::<Goals>() {
                    let _ = goals.pause(STOP_REASON, &bus.cx()).await;
                }
            }
            FleetRequest::Answer { id, digest, answer } => {
                let Some(questions) = questions else { return };
                let pending = questions.pending().into_iter().find(|pending| pending.id == id);
                let only_refuses =
                    pending.is_none_or(|pending| OpenAnswers::of(&pending.question) == OpenAnswers::Refusal);
                if only_refuses && !matches!(answer, UiAnswer::No { .. }) {
                    return;
                }
                // Rejected if the question was answered meanwhile.
                let _ = questions.attach().answer(id, digest, answer);
            }
        }
    }

    /// Removes the fleet entry of the process at its end, or stores it as paused if its goal is not reached.
    fn close_entry(&self) {
        let mut held = lock(&self.lock);
        if held.is_none() {
            return;
        }
        let entry = {
            let entry = &mut lock(&self.entry).entry;
            (entry.is_closed, entry.is_running) = (true, false);
            entry.questions.clear();
            entry.clone()
        };
        self.write_left_entries();
        if entry.has_open_goal() && entry.session.is_some() {
            let _ = self.dir.write(&entry);
        } else {
            self.dir.remove_files(&entry.id);
        }
        *held = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates the id of an entry: eight letters and digits.
fn new_id() -> String {
    const LETTERS: &[u8] = b"abcdefghjkmnpqrstuvwxyz23456789";
    (0..8)
        .filter_map(|_| LETTERS.get(fastrand::usize(..LETTERS.len())).map(|byte| char::from(*byte)))
        .collect()
}

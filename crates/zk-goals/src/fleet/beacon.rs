use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
use super::entry::{ENTRY_VERSION, FleetEntry, FleetRequest, OpenAnswers, OpenQuestion, line};
use crate::Goals;
use crate::drive::{cut, stop_agents};

/// Time that a conversation lives before it is listed: a short one never is.
const FIRST_WRITE_DELAY: Duration = Duration::from_millis(300);

/// Shortest time between two writes.
const WRITE_PAUSE: Duration = Duration::from_millis(250);

/// Time between two looks for requests.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of a prompt in a line.
const MAX_PROMPT_BYTES: usize = 400;

/// Reason of a stop that another process asked for.
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
    /// Lock of the entry, once it is written.
    lock: Mutex<Option<StateLock>>,
    /// Session whose entries of ended processes were removed.
    adopted: Mutex<Option<SessionId>>,
}

/// Entry with the begin of its work.
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
        };
        Self(Arc::new(Beacon {
            dir,
            redactor,
            entry: Mutex::new(Listed { entry, working_since_ms: 0 }),
            changed: Notify::new(),
            run: Mutex::default(),
            lock: Mutex::default(),
            adopted: Mutex::default(),
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
        scope.spawn(async move { task.report(&of_task).await });
        let closing = beacon.clone();
        scope.on_close(async move || {
            let _ = tokio::task::spawn_blocking(move || closing.close()).await;
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
            own.change(|entry| entry.prompt = first);
        }
        None
    });
    let own = beacon.clone();
    scope.on_sync_at(Reach::Own, move |_: &AgentStart, cx: &Cx| {
        *lock(&own.run) = cx.service::<dyn RunControl>().map(|run| Arc::downgrade(&run));
        own.change(|entry| entry.is_running = true);
    });
    let own = beacon.clone();
    scope.on_sync_at(Reach::Own, move |_: &SessionEnd, _: &Cx| {
        *lock(&own.run) = None;
        own.change(|entry| entry.is_running = false);
    });
    let own = beacon.clone();
    scope.on_sync_at(Reach::Descendants, move |event: &UsageUpdate, cx: &Cx| {
        let is_own = cx.origin().depth == 0;
        own.change(|entry| {
            entry.turns += u32::from(is_own);
            entry.cost += event.turn.cost.unwrap_or_default();
        });
    });
    let own = beacon.clone();
    scope.on_sync_at(Reach::Descendants, move |event: &SideCallEnd, _: &Cx| {
        own.change(|entry| entry.cost += event.usage.cost.unwrap_or_default());
    });
    let own = beacon.clone();
    scope.on_sync_at(Reach::Own, move |event: &GoalChanged, _: &Cx| own.set_goal(Some(event.clone())));
    let own = beacon.clone();
    scope.on_sync_at(Reach::Own, move |_: &SessionSwitch, cx: &Cx| {
        let goal = cx.service::<Goals>().and_then(|goals| goals.goal());
        own.set_goal(goal.map(|goal| goal.changed()));
    });
}

impl Beacon {
    fn redact(&self, text: &str) -> String {
        self.redactor.redact(text).into_owned()
    }

    fn change(&self, change: impl FnOnce(&mut FleetEntry)) {
        let mut listed = lock(&self.entry);
        let was_working = listed.entry.is_working();
        change(&mut listed.entry);
        // Each change is later than the one before, so that requests show which they knew.
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
            text: line(&goal.text, &redact),
            reason: goal.reason.map(|reason| line(&reason, &redact)),
            waiting: goal.waiting.iter().map(|decision| line(decision, &redact)).collect(),
            ..goal
        });
        self.change(|entry| entry.goal = goal);
    }

    /// Writes the entry when it changes, and carries out requests, until the conversation closes.
    async fn report(self: Arc<Self>, scope: &Scope) {
        tokio::time::sleep(FIRST_WRITE_DELAY).await;
        self.refresh(scope);
        if !self.blocking(Self::begin).await {
            // Without a place for its entry the conversation works unlisted.
            return;
        }
        self.tell_orphans(scope).await;
        let questions = scope.bus().and_then(|bus| bus.service::<Questions>());
        let mut changes = questions.as_ref().map(|questions| questions.subscribe());
        if let Some(changes) = &mut changes {
            // A question may have been asked before.
            changes.mark_changed();
        }
        let mut requests = tokio::time::interval(REQUEST_INTERVAL);
        requests.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let take = |own: &Self| own.dir.take_requests(&own.id()).unwrap_or_default();
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
                    self.change(|entry| entry.questions = open);
                }
                // An idle conversation does not wake up.
                _ = requests.tick(), if is_working => {
                    for request in self.blocking(take).await {
                        self.carry_out(request, questions.as_deref(), scope).await;
                    }
                    continue;
                }
            }
            self.refresh(scope);
            // A write that fails is made up for by the next change.
            self.blocking(|own| _ = own.write()).await;
            tokio::time::sleep(WRITE_PAUSE).await;
        }
    }

    async fn blocking<T: Default + Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let own = self.clone();
        tokio::task::spawn_blocking(move || work(&own)).await.unwrap_or_default()
    }

    fn id(&self) -> String {
        lock(&self.entry).entry.id.clone()
    }

    /// Takes over the session and the directory of the conversation.
    fn refresh(&self, scope: &Scope) {
        let Some(bus) = scope.bus() else { return };
        let session = bus.service::<SessionId>().map(|id| SessionId::clone(&id));
        let cwd = bus.service::<dyn CurrentCwd>().and_then(|cwd| cwd.cwd());
        let entry = &mut lock(&self.entry).entry;
        entry.session = session;
        if let Some(cwd) = cwd {
            entry.cwd = cwd;
        }
    }

    /// Writes the first entry; returns whether that was possible.
    fn begin(&self) -> bool {
        let id = self.id();
        let Ok(held) = self.dir.lock(&id) else { return false };
        *lock(&self.lock) = Some(held);
        self.write()
    }

    /// Writes the entry, if it is listed at all; returns whether that succeeded.
    fn write(&self) -> bool {
        // Held over the write, so that closing waits for it and nothing is written behind it.
        let held = lock(&self.lock);
        if held.is_none() {
            return true;
        }
        let entry = lock(&self.entry).entry.clone();
        self.adopt(&entry);
        self.dir.write(&entry).is_ok()
    }

    /// Removes entries that ended processes left of this session, once for each session: the whole list is read.
    fn adopt(&self, entry: &FleetEntry) {
        let Some(session) = &entry.session else { return };
        let mut adopted = lock(&self.adopted);
        if adopted.as_ref() != Some(session) && self.dir.adopt(session, &entry.id).is_ok() {
            *adopted = Some(session.clone());
        }
    }

    async fn tell_orphans(self: &Arc<Self>, scope: &Scope) {
        // Only somebody who reads it is told.
        let Some(ui) = scope.bus().and_then(|bus| bus.service::<dyn Ui>()) else { return };
        let orphans = self.blocking(|own| own.dir.reconcile().unwrap_or_default()).await;
        match orphans.len() {
            0 => {}
            1 => ui.notify("a conversation ended without being closed: /fleet lists it"),
            count => {
                ui.notify(&format!("{count} conversations ended without being closed: /fleet lists them"))
            }
        }
    }

    async fn carry_out(&self, request: FleetRequest, questions: Option<&Questions>, scope: &Scope) {
        match request {
            FleetRequest::Stop { listed_ms } => {
                if listed_ms < lock(&self.entry).working_since_ms {
                    // The work that it is about is over.
                    return;
                }
                let run = lock(&self.run).as_ref().and_then(Weak::upgrade);
                if let Some(run) = run {
                    run.abort(STOP_REASON);
                }
                let Some(bus) = scope.bus() else { return };
                stop_agents(STOP_REASON, &bus.cx());
                // Between two runs there is none to stop.
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
                // A question that was answered meanwhile needs no answer.
                let _ = questions.attach().answer(id, digest, answer);
            }
        }
    }

    /// Removes the entry, or leaves it as paused if its goal is not reached.
    fn close(&self) {
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

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Id of an entry: eight letters and digits.
fn new_id() -> String {
    const LETTERS: &[u8] = b"abcdefghjkmnpqrstuvwxyz23456789";
    (0..8)
        .filter_map(|_| LETTERS.get(fastrand::usize(..LETTERS.len())).map(|byte| char::from(*byte)))
        .collect()
}

//! Reducer of a view: takes events, intents and the time, returns patches and effects, and does nothing else.

mod adopt;
mod core;
pub(crate) mod events;
mod keep;
mod lane;
mod parts;
mod restore;
mod run;
mod subagent_runs;
mod whole;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use zk_core::kernel::{AnyEvent, Origin};
use zk_core::model::{CheckState, RunId};
use zk_core::service::{Entry, PendingQuestion};

use self::core::Core;
use self::lane::AgentBlocks;
use self::run::{Compaction, Run};
use self::subagent_runs::SubagentRun;
use crate::{
    Block, BlockId, Card, Content, Effect, Intent, JobRow, Lines, NoteLevel, Patch, Queued, Text, View,
};

pub use adopt::{AdoptedAgent, adopted_run};
pub use keep::Kept;
pub use restore::{body_of, rebuild};
pub use whole::{WholeBlock, rebuild_whole};

/// Input of a view.
#[derive(Clone, Copy)]
pub enum EngineInput<'a> {
    /// An event of the agent or of a sub-agent.
    Event(ObservedEvent<'a>),
    /// Intent of the person.
    Intent(&'a Intent),
    /// All open questions.
    Questions(&'a [Arc<PendingQuestion>]),
    /// Session switch, with the entries from the first to the leaf; empty for a new session. Queued texts
    /// return as [`Effect::GiveBack`].
    Begin(&'a [Entry]),
    /// All lines of a body, in response to [`Effect::LoadBody`].
    Body(&'a BlockId, &'a Lines),
    /// All commands in the background, the oldest first.
    Jobs(&'a [JobRow]),
    /// A notice of the program.
    Note(NoteLevel, &'a str),
    /// Passage of time; [`Engine::next_tick`] tells when it is needed.
    Tick,
}

/// Event with its origin.
#[derive(Clone, Copy)]
pub struct ObservedEvent<'a> {
    /// The event.
    pub event: &'a dyn AnyEvent,
    /// The agent.
    pub origin: &'a Origin,
}

impl std::fmt::Debug for ObservedEvent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObservedEvent")
            .field("event", &self.event.name())
            .field("origin", &self.origin)
            .finish()
    }
}

impl std::fmt::Debug for EngineInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Event(seen) => seen.fmt(f),
            Self::Intent(intent) => intent.fmt(f),
            Self::Questions(pending) => f.debug_tuple("Questions").field(&pending.len()).finish(),
            Self::Begin(entries) => f.debug_tuple("Begin").field(&entries.len()).finish(),
            Self::Body(id, _) => f.debug_tuple("Body").field(id).finish_non_exhaustive(),
            Self::Jobs(jobs) => f.debug_tuple("Jobs").field(&jobs.len()).finish(),
            Self::Note(level, text) => f.debug_tuple("Note").field(level).field(text).finish(),
            Self::Tick => f.write_str("Tick"),
        }
    }
}

/// Outcome of an input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineOutput {
    /// Patches, already applied to [`Engine::view`].
    pub patches: Vec<Patch>,
    /// Effects that the host has to carry out.
    pub effects: Vec<Effect>,
}

/// Reducer of one conversation. Pure: no clock and no I/O; equal inputs at equal times give equal patches.
///
/// ```
/// use zk_core::events::StreamText;
/// use zk_core::kernel::Origin;
/// use zk_view::{Content, Engine, EngineInput, ObservedEvent};
///
/// let mut engine = Engine::new();
/// let event = StreamText { turn_id: "t".into(), delta: "Hello\u{1b}[2J.".into() };
/// engine.apply(0, EngineInput::Event(ObservedEvent { event: &event, origin: &Origin::default() }));
/// let Content::Answer { text, .. } = &engine.view().blocks[0].content else { panic!() };
/// assert_eq!(text.as_str(), "Hello.");
/// ```
#[derive(Debug, Default)]
pub struct Engine {
    core: Core,
    own: AgentBlocks,
    children: BTreeMap<Arc<str>, AgentBlocks>,
    run: Option<Run>,
    /// Compaction requested by the person between two runs.
    compaction: Option<Compaction>,
    /// Number of blocks before the last run.
    run_from: usize,
    /// Ids of the run's sub-agents' blocks that the session has stored.
    agents_kept: HashSet<BlockId>,
    /// Sub-agents of the run, by name.
    subagents: HashMap<String, SubagentRun>,
    /// Content of an entry of the run until it is stored.
    being_stored: Option<Kept>,
    notes: u64,
    queued: u64,
}

impl Engine {
    /// An empty view.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies an input at `now`, in milliseconds of a monotonic clock.
    pub fn apply(&mut self, now: u64, input: EngineInput<'_>) -> EngineOutput {
        self.core.now = now.max(self.core.now);
        match input {
            EngineInput::Event(seen) => self.reduce_event(seen),
            EngineInput::Intent(intent) => self.apply_intent(intent),
            EngineInput::Questions(pending) => self.set_questions(pending),
            EngineInput::Begin(entries) => self.begin_session(entries),
            EngineInput::Body(id, lines) => {
                self.core.patches.push(Patch::Body { id: id.clone(), lines: lines.clone() });
            }
            EngineInput::Jobs(jobs) => self.set_jobs(jobs),
            EngineInput::Note(level, text) => self.add_note(level, text),
            EngineInput::Tick => self.tick(),
        }
        EngineOutput {
            patches: std::mem::take(&mut self.core.patches),
            effects: std::mem::take(&mut self.core.effects),
        }
    }

    /// Present view.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.core.view
    }

    /// Begins a run of the main agent.
    fn begin_own_run(&mut self, run_id: &RunId) {
        self.own.begin_run(run_id);
        self.run_from = self.core.view.blocks.len();
        self.agents_kept.clear();
        self.subagents.clear();
        self.being_stored = None;
        // A completed list belongs to the run that completed it.
        if self.core.view.checklist.iter().all(|item| item.state == CheckState::Done) {
            self.core.set_checklist(&[]);
        }
    }

    fn lane_and_core(&mut self, origin: &Origin) -> (&mut AgentBlocks, &mut Core) {
        let lane = match origin.depth {
            0 => &mut self.own,
            _ => self.children.entry(origin.agent.clone()).or_insert_with(|| AgentBlocks::of(origin)),
        };
        (lane, &mut self.core)
    }

    fn add_note(&mut self, level: NoteLevel, text: &str) {
        self.add_unstored_block(Content::Note { level, text: Text::new(text) });
    }

    /// Adds a block that is not part of the stored session.
    fn add_unstored_block(&mut self, content: Content) {
        let id = BlockId::new(&format!("n{}", self.notes));
        self.notes += 1;
        self.core.open_block(Block { id, closed: true, agent: None, message: None, content });
    }

    fn apply_intent(&mut self, intent: &Intent) {
        let is_running = self.run.is_some();
        match intent {
            Intent::Submit { text } if is_running => self.enqueue(text, false),
            Intent::Submit { text } => self.core.request_run(text),
            Intent::Steer { text } if is_running => {
                self.enqueue(text, true);
                self.core.effects.push(Effect::Steer { text: text.clone() });
            }
            Intent::Steer { text } => self.core.request_run(text),
            Intent::Unqueue { id } => self.change_queue(|queue| queue.retain(|queued| queued.id != *id)),
            Intent::Answer { id, digest, answer } => {
                let (id, digest, answer) = (*id, *digest, answer.clone());
                self.core.effects.push(Effect::Reply { id, digest, answer });
            }
            // A run that has not started yet shows nothing, and can be stopped.
            Intent::Stop => {
                self.core.effects.push(Effect::Abort);
                self.show_stopping();
            }
            Intent::Switch { to } => self.core.effects.push(Effect::Switch { to: to.clone() }),
            Intent::Compact { instructions } => {
                self.core.effects.push(Effect::Compact { instructions: instructions.clone() });
            }
            Intent::Hurry => self.core.effects.push(Effect::Hurry),
            Intent::Command { name, args } => {
                self.core.effects.push(Effect::Command { name: name.clone(), args: args.clone() });
            }
            Intent::Expand { id } => self.core.expand_body(id),
        }
    }

    fn enqueue(&mut self, text: &str, steers: bool) {
        self.queued += 1;
        let queued = Queued { id: self.queued, steers, text: Text::new(text) };
        self.change_queue(|queue| queue.push(queued));
    }

    fn change_queue(&mut self, change: impl FnOnce(&mut Vec<Queued>)) {
        let mut queued = self.core.view.queue.clone();
        change(&mut queued);
        if queued != self.core.view.queue {
            self.core.emit(Patch::Queue { queued });
        }
    }

    /// Sends the next queued text.
    fn send_next(&mut self) {
        let next = self.core.view.queue.iter().find(|queued| !queued.steers).cloned();
        if let Some(next) = next {
            self.change_queue(|queue| queue.retain(|queued| queued.id != next.id));
            self.core.request_run(next.text.unsanitised());
        }
    }

    fn set_questions(&mut self, pending: &[Arc<PendingQuestion>]) {
        let is_pending = |card: &Card| pending.iter().any(|pending| pending.id == card.id);
        let gone: Vec<_> =
            self.core.view.cards.iter().filter(|card| !is_pending(card)).map(|card| card.id).collect();
        for id in gone {
            self.core.emit(Patch::Answered { id });
        }
        for pending in pending {
            if !self.core.view.cards.iter().any(|card| card.id == pending.id) {
                self.core.emit(Patch::Ask { card: Box::new(Card::of(pending)) });
            }
        }
        self.show_status();
    }
}

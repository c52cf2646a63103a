//! The reducer: events, intents and the time in, patches and effects out. It does nothing else.

mod core;
pub(crate) mod events;
mod lane;
mod parts;
mod restore;
mod run;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use zk_core::kernel::{AnyEvent, Origin};
use zk_core::model::RunId;
use zk_core::service::{Entry, NewEntry, PendingQuestion};

use self::core::Core;
use self::lane::Lane;
use self::run::Run;
use crate::record::{AgentRecord, RunRecord};
use crate::{
    Block, BlockId, Card, Content, Effect, Intent, JobRow, Lines, NoteLevel, Patch, Queued, Text, View,
};

pub use restore::{body_of, rebuild};

/// What a view is told.
#[derive(Clone, Copy)]
pub enum In<'a> {
    /// An event of the agent or of a sub-agent.
    Event(Seen<'a>),
    /// What the person wants.
    Intent(&'a Intent),
    /// Everything that is asked now.
    Questions(&'a [Arc<PendingQuestion>]),
    /// A session switch: the entries of the session to show, from the first to the leaf; empty for a new session.
    /// The texts that waited come back as [`Effect::GiveBack`].
    Begin(&'a [Entry]),
    /// All lines of a body, as [`Effect::LoadBody`] asked for.
    Body(&'a BlockId, &'a Lines),
    /// All commands in the background, the oldest first.
    Jobs(&'a [JobRow]),
    /// A notice of the program.
    Note(NoteLevel, &'a str),
    /// Nothing happened but that time passed: [`Engine::next_tick`] says when it is wanted.
    Tick,
}

/// An event, and whose it is.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// The event.
    pub event: &'a dyn AnyEvent,
    /// The agent.
    pub origin: &'a Origin,
}

impl std::fmt::Debug for Seen<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen").field("event", &self.event.name()).field("origin", &self.origin).finish()
    }
}

impl std::fmt::Debug for In<'_> {
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

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Out {
    /// Changes of the view, already made in [`Engine::view`].
    pub patches: Vec<Patch>,
    /// What the host has to do.
    pub effects: Vec<Effect>,
}

/// The reducer of one conversation. Pure: it knows no clock and does no I/O; the same inputs at the same times give
/// the same patches.
///
/// ```
/// use zk_core::events::StreamText;
/// use zk_core::kernel::Origin;
/// use zk_view::{Content, Engine, In, Seen};
///
/// let mut engine = Engine::new();
/// let event = StreamText { turn_id: "t".into(), delta: "Hello\u{1b}[2J.".into() };
/// engine.apply(0, In::Event(Seen { event: &event, origin: &Origin::default() }));
/// let Content::Answer { text, .. } = &engine.view().blocks[0].content else { panic!() };
/// assert_eq!(text.as_str(), "Hello.");
/// ```
#[derive(Debug, Default)]
pub struct Engine {
    core: Core,
    own: Lane,
    children: BTreeMap<Arc<str>, Lane>,
    run: Option<Run>,
    /// Blocks before the run that began last.
    run_from: usize,
    /// Blocks of its sub-agents that the session has.
    agents_kept: HashSet<BlockId>,
    notes: u64,
    queued: u64,
}

impl Engine {
    /// An empty view.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes something in at `now`, in milliseconds since some fixed moment; it never goes back.
    pub fn apply(&mut self, now: u64, input: In<'_>) -> Out {
        self.core.now = now.max(self.core.now);
        match input {
            In::Event(seen) => self.event(seen),
            In::Intent(intent) => self.intent(intent),
            In::Questions(pending) => self.questions(pending),
            In::Begin(entries) => self.begin(entries),
            In::Body(id, lines) => {
                self.core.patches.push(Patch::Body { id: id.clone(), lines: lines.clone() });
            }
            In::Jobs(jobs) => self.set_jobs(jobs),
            In::Note(level, text) => self.note(level, text),
            In::Tick => self.tick(),
        }
        Out {
            patches: std::mem::take(&mut self.core.patches),
            effects: std::mem::take(&mut self.core.effects),
        }
    }

    /// The view as it is now.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.core.view
    }

    /// What the session has to keep of the run that ended last, so that [`rebuild`] shows it again: the reply to
    /// `session:before-end`.
    #[must_use]
    pub fn run_entry(&self) -> Option<NewEntry> {
        if self.own.has_nothing_to_keep() {
            return None;
        }
        RunRecord { agents: self.agents_to_keep().collect(), ..self.own.record.clone() }.entry()
    }

    /// What the session has to keep of the turns that ended, before the run does: nothing if it says all of it itself.
    /// Once it is stored, [`Engine::turn_is_kept`] says so.
    #[must_use]
    pub fn turn_entry(&self) -> Option<NewEntry> {
        let RunRecord { run_id, turns, .. } = &self.own.record;
        let (run_id, turns) = (run_id.clone(), turns.clone());
        let agents = self.agents_to_keep().collect();
        let record = RunRecord { run_id, turns, agents, ..RunRecord::default() };
        if record.says_more_than_the_session() { record.entry() } else { None }
    }

    /// The last [`Engine::turn_entry`] is stored.
    pub fn turn_is_kept(&mut self) {
        let kept: Vec<BlockId> = self.agents_to_keep().map(|record| record.block.id).collect();
        self.agents_kept.extend(kept);
        self.own.record.turns.clear();
    }

    /// What the session has to keep of sub-agents while they go on, and the blocks that are in it; nothing if it has all of
    /// them. Once it is stored, [`Engine::agents_are_kept`] says so.
    #[must_use]
    pub fn agents_entry(&self) -> Option<(NewEntry, Vec<BlockId>)> {
        // A part of an answer that arrives may be removed again, which would move those behind it.
        let arriving = self.run_blocks().position(|(block, _)| block.agent.is_some() && block.is_arriving());
        let end = arriving.map_or(u64::MAX, |at| u64::try_from(at).unwrap_or(u64::MAX));
        let agents: Vec<AgentRecord> = self.agents_to_keep().take_while(|record| record.at < end).collect();
        let ids: Vec<BlockId> = agents.iter().map(|record| record.block.id.clone()).collect();
        let record = RunRecord { run_id: self.own.record.run_id.clone(), agents, ..RunRecord::default() };
        (!ids.is_empty()).then(|| record.entry()).flatten().map(|entry| (entry, ids))
    }

    /// The session has these blocks of sub-agents.
    pub fn agents_are_kept(&mut self, ids: Vec<BlockId>) {
        self.agents_kept.extend(ids);
    }

    /// The blocks of the run that a session has, each with its place.
    fn run_blocks(&self) -> impl Iterator<Item = (&Arc<Block>, u64)> {
        let blocks = self.core.view.blocks.get(self.run_from..).unwrap_or_default();
        blocks.iter().filter(|block| block.is_stored()).zip(0..)
    }

    /// The blocks of the run's sub-agents that the session does not have yet.
    fn agents_to_keep(&self) -> impl Iterator<Item = AgentRecord> {
        let is_new = |block: &Block| !self.agents_kept.contains(&block.id);
        let agents = self.run_blocks().filter(|(block, _)| block.agent.is_some() && block.closed);
        agents.filter(move |(block, _)| is_new(block)).map(|(block, at)| {
            let lines = self.core.body(&block.id).cloned();
            AgentRecord { at, block: Block::clone(block), lines }
        })
    }

    /// A run of the conversation's own agent begins.
    fn begin_own_run(&mut self, run_id: &RunId) {
        self.own.begin_run(run_id);
        self.run_from = self.core.view.blocks.len();
        self.agents_kept.clear();
    }

    fn lane(&mut self, origin: &Origin) -> (&mut Lane, &mut Core) {
        let lane = match origin.depth {
            0 => &mut self.own,
            _ => self.children.entry(origin.agent.clone()).or_insert_with(|| Lane::of(origin)),
        };
        (lane, &mut self.core)
    }

    fn note(&mut self, level: NoteLevel, text: &str) {
        self.beside(Content::Note { level, text: Text::new(text) });
    }

    /// A block beside the conversation: no part of the stored session.
    fn beside(&mut self, content: Content) {
        let id = BlockId::new(&format!("n{}", self.notes));
        self.notes += 1;
        self.core.open(Block { id, closed: true, agent: None, message: None, content });
    }

    fn intent(&mut self, intent: &Intent) {
        let is_running = self.run.is_some();
        match intent {
            Intent::Submit { text } if is_running => self.enqueue(text, false),
            Intent::Submit { text } => self.core.effects.push(Effect::Run { text: text.clone() }),
            Intent::Steer { text } if is_running => {
                self.enqueue(text, true);
                self.core.effects.push(Effect::Steer { text: text.clone() });
            }
            Intent::Steer { text } => self.core.effects.push(Effect::Run { text: text.clone() }),
            Intent::Unqueue { id } => self.change_queue(|queue| queue.retain(|queued| queued.id != *id)),
            Intent::Answer { id, digest, answer } => {
                let (id, digest, answer) = (*id, *digest, answer.clone());
                self.core.effects.push(Effect::Reply { id, digest, answer });
            }
            // A run that has not begun yet shows nothing, and is stopped all the same.
            Intent::Stop => {
                self.core.effects.push(Effect::Abort);
                self.stopping();
            }
            Intent::Switch { to } => self.core.effects.push(Effect::Switch { to: to.clone() }),
            Intent::Compact { instructions } => {
                self.core.effects.push(Effect::Compact { instructions: instructions.clone() });
            }
            Intent::Hurry => self.core.effects.push(Effect::Hurry),
            Intent::Command { name, args } => {
                self.core.effects.push(Effect::Command { name: name.clone(), args: args.clone() });
            }
            Intent::Expand { id } => self.core.expand(id),
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

    /// The next of the texts that waited for the end of the run.
    fn send_next(&mut self) {
        let next = self.core.view.queue.iter().find(|queued| !queued.steers).cloned();
        if let Some(next) = next {
            self.change_queue(|queue| queue.retain(|queued| queued.id != next.id));
            self.core.effects.push(Effect::Run { text: next.text.unsanitised().to_owned() });
        }
    }

    fn questions(&mut self, pending: &[Arc<PendingQuestion>]) {
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

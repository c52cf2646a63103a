mod alternate;
mod asking;
mod completing;
mod composing;
mod drawing;
mod enters;
mod focus;
mod idle_keys;
mod layout;
mod notifying;
mod picking;
mod pressing;
mod setting_aside;
mod state;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use zk_view::{Activity, Block, Intent, Patch, View, sanitise};

use self::asking::{QUESTION_WAITS, describe_card};
use self::focus::{Aid, Focus};
use self::layout::card_room;
use self::state::{Alternate, Host, Keyboard, Output, Timing};
use crate::edit::{Buffer, History, Recall};
use crate::inline::{Abilities, Caret, InlineScreen, Size};
use crate::keys::Keymap;
use crate::pick::Completer;
use crate::question::CardState;
use crate::row::{Row, Style, Theme};
use crate::text::wrap;
use crate::transcript::Transcript;
use crate::view::{ModelFacts, Renderers};

/// The least time between two frames of what streams: 50 a second.
const FRAME_INTERVAL: Duration = Duration::from_millis(20);

/// The most frames in a second: those that show a key at once are among them.
const MAX_FRAMES_PER_SECOND: usize = 60;

/// Time that a terminal may take to say how large it is after a resize.
const SIZE_ANSWER_WAIT: Duration = Duration::from_millis(250);

/// Time after a resize in which nothing is drawn: dragging a border resizes many times.
const RESIZE_PAUSE: Duration = Duration::from_millis(60);

/// Time after a resize in which nothing is drawn in tmux, which waits 250 ms before it tells of the next one.
const TMUX_RESIZE_PAUSE: Duration = Duration::from_millis(300);

/// Time after Ctrl-C in which another one ends the conversation.
const AGAIN: Duration = Duration::from_secs(2);

/// Shortest run whose end is worth a notice, in milliseconds.
const LONG_RUN_MS: u64 = 10_000;

/// Action that a host has to take for the person.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A line was typed while nothing ran: a prompt, a `/command` or a `!command`.
    Line(String),
    /// A command that needs nothing of the run, which goes on beside it: see [`App::with_commands_beside_runs`].
    Beside(String),
    /// A command that makes a prompt, typed during a run that the prompt steers, or behind which it waits: see
    /// [`App::with_prompt_commands`].
    PromptCommand {
        /// The line.
        line: String,
        /// Whether the prompt steers the run.
        steers: bool,
    },
    /// For the view.
    Intent(Intent),
    /// Take a steering message back from the run, and give its text back with [`App::give_back`] if it was still there.
    Unsteer {
        /// Number in the queue of the view.
        id: u64,
        /// Text of the message.
        text: String,
    },
    /// Stop what runs.
    Stop,
    /// Try again at once.
    Hurry,
    /// A text to keep in the history.
    Remember(String),
    /// Let the person edit this text in an editor of their own.
    Edit(String),
    /// Attach the image in this file, whose path was pasted, or put the path in as text if there is none.
    Attach(String),
    /// Attach the image in the clipboard.
    PasteImage,
    /// Show the output of a command in the background, or end it.
    Job {
        /// Id of the job.
        id: String,
        /// Whether it is to end.
        kill: bool,
    },
    /// Give a session another title.
    RenameSession {
        /// Id of the session.
        id: String,
        /// New title.
        title: String,
    },
    /// Remove a session.
    DeleteSession {
        /// Id of the session.
        id: String,
    },
    /// Put the commands that calls wait for in the background.
    Background,
    /// Go on with the next permission mode.
    NextMode,
    /// Stop the process, as Ctrl-Z does.
    Suspend,
    /// End the conversation.
    Quit,
}

/// Takes secrets out of a line before it is drawn; nothing where there is none.
pub type Mask = fn(&str) -> Option<String>;

/// Whether a line is a command that leaves a run as it is, and can be done beside it.
pub type IsHarmless = fn(&str) -> bool;

/// The screen of a conversation: keys, patches and the time in, frames and actions out. No clock and no I/O.
///
/// Times are since some moment of the host's choice.
pub struct App {
    transcript: Transcript,
    screen: InlineScreen,
    composer: Buffer,
    keyboard: Keyboard,
    history: History,
    focus: Focus,
    /// Whether the keys are listed until the next one.
    shows_keys: bool,
    /// The host runs something of its own.
    is_busy: bool,
    hint: Option<Cow<'static, str>>,
    timing: Timing,
    output: Output,
    host: Host,
    alternate: Alternate,
    model: ModelFacts,
    /// Whether the person looks at this terminal; nothing as long as it does not tell.
    is_focused: Option<bool>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("screen", &self.screen).finish_non_exhaustive()
    }
}

impl App {
    /// A screen of what happens after `view`.
    #[must_use]
    pub fn new(
        view: View,
        size: Size,
        abilities: Abilities,
        history: Vec<String>,
        completer: Completer,
    ) -> Self {
        let mut transcript = Transcript::new(view, size.width);
        transcript.set_room(size.live_rows());
        Self {
            transcript,
            screen: InlineScreen::new(size, abilities),
            composer: Buffer::default(),
            keyboard: Keyboard::default(),
            history: History::new(history),
            focus: Focus::Composer(Aid::None),
            shows_keys: false,
            is_busy: false,
            hint: None,
            timing: Timing::default(),
            output: Output::default(),
            host: Host {
                completer,
                mask: |_| None,
                is_harmless: |_| false,
                makes_prompt: |_| false,
                renderers: Renderers::default(),
            },
            alternate: Alternate::default(),
            model: ModelFacts::default(),
            is_focused: None,
        }
    }

    /// Has every line that is drawn masked, but what is being typed and what is to be approved.
    #[must_use]
    pub fn masked_by(mut self, mask: Mask) -> Self {
        self.host.mask = mask;
        self
    }

    /// Has commands that `is_harmless` knows done at once while a run goes on; the others wait for its end.
    #[must_use]
    pub fn with_commands_beside_runs(mut self, is_harmless: IsHarmless) -> Self {
        self.host.is_harmless = is_harmless;
        self
    }

    /// Has commands that `makes_prompt` knows handed to the host during a run, as prompts are.
    #[must_use]
    pub fn with_prompt_commands(mut self, makes_prompt: IsHarmless) -> Self {
        self.host.makes_prompt = makes_prompt;
        self
    }

    /// Has keys do what a person wants them to.
    #[must_use]
    pub fn with_keys(mut self, keymap: Keymap) -> Self {
        self.keyboard.keymap = keymap;
        self
    }

    /// Has blocks and fences drawn by those who know them.
    #[must_use]
    pub fn with_renderers(mut self, renderers: Renderers) -> Self {
        self.transcript.set_renderers(renderers.clone());
        self.host.renderers = renderers;
        self
    }

    /// Has whoever looks for an earlier text find those of other processes too.
    #[must_use]
    pub fn with_recall(mut self, recall: Recall) -> Self {
        self.history.recall_with(recall);
        self
    }

    /// Takes in what changed in the view.
    pub fn patches(&mut self, patches: &[Patch], now: Duration) {
        let before = self.transcript.view().status.run_ms;
        patches.iter().for_each(|patch| self.transcript.patch(patch));
        self.output.is_dirty = true;
        let lists = |patch: &Patch| matches!(patch, Patch::Jobs { .. } | Patch::Agents { .. });
        if let Some(picker) = self.focus.picker_mut().filter(|_| patches.iter().any(lists)) {
            picker.refresh(&self.host.completer, self.transcript.view());
        }
        let view = self.transcript.view();
        let is_over = before.is_some_and(|ms| ms >= LONG_RUN_MS) && view.status.run_ms.is_none();
        let first = view.cards.first();
        if self.focus.card().map(|card| card.card().id) != first.map(|card| card.id) {
            let card = first.cloned();
            // The question that the notice was about is answered, and what was said of it no longer holds.
            self.timing.late_notice = None;
            self.hint.take_if(|hint| hint == QUESTION_WAITS);
            if let Some(card) = &card {
                self.notify(describe_card(card), now);
            }
            // A picker is closed: letters that were typed to find something are not an answer.
            self.ask(card, now);
        } else if is_over {
            self.notify(self.describe_end(), now);
        }
    }

    /// The model that answers, for the row that says what goes on.
    pub fn set_model(&mut self, model: ModelFacts) {
        if self.model != model {
            self.model = model;
            self.output.is_dirty = true;
        }
    }

    /// Rows of the program, which stay.
    pub fn print(&mut self, style: Style, text: &str) {
        let width = self.screen.size().width;
        let row = |line| {
            let row = Row::of(style, line);
            // Text that is not the program's own words may be code: it stays a line, which a copy joins.
            if style == Style::PLAIN {
                vec![row]
            } else {
                wrap(&row, &Row::default(), &Row::default(), width)
            }
        };
        // As a whole: a sequence may go on in the next line.
        let rows = sanitise(text).lines().flat_map(row).collect();
        self.transcript.print(rows);
        self.output.is_dirty = true;
    }

    /// Shows the last exchange of a session that is being opened: its last blocks are there before all of it is read.
    pub fn announce(&mut self, blocks: &[Arc<Block>]) {
        self.transcript.announce(blocks);
        self.output.is_dirty = true;
    }

    /// Whether the host runs something of its own: lines wait meanwhile.
    pub fn set_busy(&mut self, is_busy: bool) {
        self.is_busy = is_busy;
        self.output.is_dirty = true;
    }

    /// Puts a text before what is being typed.
    pub fn give_back(&mut self, text: &str) {
        self.set_offer_aside();
        let draft = self.composer.take();
        let both = if draft.trim().is_empty() { text.to_owned() } else { format!("{text}\n{draft}") };
        self.composer.set(&both);
        self.draft_changed();
    }

    /// Draws in other colours from now on; rows that scrolled away stay as they are.
    pub fn set_theme(&mut self, theme: Theme) {
        self.screen.set_theme(theme);
        self.output.is_dirty = true;
    }

    /// Says something in the place of the status, until the next key.
    pub fn set_hint(&mut self, hint: impl Into<Cow<'static, str>>) {
        self.hint = Some(hint.into());
        self.output.is_dirty = true;
    }

    /// Says no more what [`set_hint`](Self::set_hint) said.
    pub fn clear_hint(&mut self) {
        self.hint = None;
        self.output.is_dirty = true;
    }

    /// Something else than keys changed the draft, which a question has to know.
    fn draft_changed(&mut self) {
        if let Some(card) = self.focus.card_mut() {
            card.set_typing(!self.composer.is_empty());
        }
        self.output.is_dirty = true;
    }

    /// Puts `edited` in the place of `before`, which an editor was given. What was given back meanwhile stands before it.
    pub fn end_edit(&mut self, before: &str, edited: &str) {
        let draft = self.composer.expanded();
        self.composer.set(edited);
        self.focus.take_list();
        self.draft_changed();
        let given = draft.strip_suffix(before).unwrap_or(&draft).trim_end_matches('\n');
        if !given.is_empty() {
            self.give_back(given);
        }
    }

    /// Puts a mark into what is being typed, which stands for something attached and is taken away as a whole.
    pub fn attach(&mut self, mark: &str) {
        self.composer.attach(mark);
        self.draft_changed();
    }

    /// Puts a text where the caret stands.
    pub fn insert(&mut self, text: &str) {
        self.composer.paste(text);
        self.draft_changed();
    }

    /// Names were found that a [`Completer`] gives now.
    pub fn names_changed(&mut self) {
        let is_shown = match &mut self.focus {
            Focus::Picker(picker) => {
                picker.refresh(&self.host.completer, self.transcript.view());
                true
            }
            Focus::Composer(aid) => !matches!(aid, Aid::Search(_)),
            Focus::Question(_, aid) => matches!(aid, Aid::Completion(_)),
        };
        if is_shown {
            self.list_names_anew();
            self.output.is_dirty = true;
        }
    }

    /// Time at which [`tick`](Self::tick) or [`frame`](Self::frame) has something to do; nothing while
    /// nothing changes.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        if self.output.is_left {
            return None;
        }
        let frame = self
            .output
            .is_dirty
            .then(|| self.timing.drawn.map_or(Duration::ZERO, |drawn| drawn + FRAME_INTERVAL));
        let frame = frame.max(self.waits_until().filter(|_| self.output.is_dirty));
        let card = self.focus.card().and_then(CardState::next_tick);
        let notice = self.timing.late_notice.as_ref().map(|(due, _)| *due);
        frame.into_iter().chain(card).chain(self.enter_due()).chain(notice).min()
    }

    /// Time passed.
    pub fn tick(&mut self, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        self.tell_late(now);
        if self.timing.held_enter.is_some() {
            self.output.is_dirty = true;
            self.press_held_enter(now, &mut actions);
        }
        if let Some(outcome) = self.focus.card_mut().and_then(|card| card.tick(now)) {
            self.output.is_dirty = true;
            self.outcome(outcome, &mut actions);
        }
        actions
    }

    /// The terminal has another size. Gives bytes to write at once: what it is asked.
    #[must_use]
    pub fn resize(&mut self, size: Size, now: Duration) -> String {
        let bytes = self.screen.resize(size);
        self.timing.asked = self.screen.is_asking().then_some(now);
        self.transcript.set_width(size.width);
        self.transcript.set_room(size.live_rows());
        self.resize_alternate();
        if let Some(card) = self.focus.card_mut() {
            card.resize(size.width, card_room(size), now);
        }
        self.output.is_dirty = true;
        bytes
    }

    /// The size of the terminal that it draws for.
    #[must_use]
    pub fn size(&self) -> Size {
        self.screen.size()
    }

    /// Whether the terminal was asked for its size, and did not answer yet.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.screen.is_asking()
    }

    /// Takes the live rows away and leaves what is closed, so that something else can use the terminal.
    #[must_use]
    pub fn leave(&mut self) -> String {
        self.output.is_left = true;
        self.timing.asked = None;
        self.screen.doubt();
        let back = std::mem::take(&mut self.output.pending) + &self.leave_alternate();
        let closed = self.transcript.take_closed(0);
        let closed = self.masked(closed);
        let shown = self.screen.frame(&closed, &[], Some(Caret::default()));
        back + &shown + &self.screen.clear()
    }

    /// Draws nothing any more: somebody else has the terminal, and what stands there is not known.
    pub fn abandon(&mut self) {
        self.output.is_left = true;
    }

    /// The terminal is this screen's again, and its cursor stands at the beginning of an empty row.
    pub fn enter(&mut self, now: Duration) {
        (self.output.is_left, self.alternate.screen) = (false, None);
        self.screen.forget();
        self.output.title.clear();
        let size = self.screen.size();
        if let Some(card) = self.focus.card_mut() {
            card.resize(size.width, card_room(size), now);
            card.redrawn(size.width, now);
        }
        self.output.is_dirty = true;
    }

    /// Returns the text that is being typed, behind those that were put aside.
    #[must_use]
    pub fn draft(&self) -> String {
        let aside = self.keyboard.stash.iter().map(Buffer::expanded);
        let texts: Vec<String> = aside.chain([self.composer.expanded()]).collect();
        texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// Returns the text that was typed and did not reach the model: what waits in the queue, and what is
    /// being typed.
    #[must_use]
    pub fn unsent(&self) -> String {
        let queued = self.transcript.view().queue.iter().map(|queued| queued.text.unsanitised().to_owned());
        let texts: Vec<String> = queued.chain([self.draft()]).filter(|text| !text.is_empty()).collect();
        texts.join("\n")
    }

    fn is_running(&self) -> bool {
        self.is_busy || self.has_run()
    }

    fn has_run(&self) -> bool {
        let status = &self.transcript.view().status;
        status.run_ms.is_some() || status.activity != Activity::Idle
    }
}

mod alternate;
mod asking;
mod completing;
mod composing;
mod drawing;
mod enters;
mod focus;
mod idle_keys;
mod layout;
pub(crate) mod messages;
mod notifying;
mod picking;
mod pressing;
mod setting_aside;
mod state;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use zk_view::{Activity, Block, Intent, Patch, View};

use self::asking::describe_question;
use self::focus::{Aid, Focus};
use self::layout::card_room;
use self::state::{Alternate, Host, Keyboard, Output, Timing};
use crate::edit::{Buffer, History, Recall};
use crate::inline::{Abilities, Caret, InlineScreen, Size};
use crate::keys::Keymap;
use crate::pick::Completer;
use crate::question::CardState;
use crate::row::Theme;
use crate::transcript::Transcript;
use crate::view::{ModelFacts, Renderers};

/// Minimum interval between frames of streamed text: 50 a second.
const FRAME_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of frames a second, including those for keys.
const MAX_FRAMES_PER_SECOND: usize = 60;

/// Time-out for the terminal's reply to a size query after a resize.
const SIZE_ANSWER_WAIT: Duration = Duration::from_millis(250);

/// Pause in drawing after a resize, since dragging a border resizes many times.
const RESIZE_PAUSE: Duration = Duration::from_millis(60);

/// Pause in drawing after a resize within tmux, which delays the report of the next resize by 250 ms.
const TMUX_RESIZE_PAUSE: Duration = Duration::from_millis(300);

/// Time after Ctrl-C in which a second one quits.
const DOUBLE_PRESS_TIME: Duration = Duration::from_secs(2);

/// Minimum duration in milliseconds of a run whose end causes a notification.
const LONG_RUN_MS: u64 = 10_000;

/// Action for the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Line submitted between runs: a prompt, a `/command` or a `!command`.
    Line(String),
    /// Command to run in parallel with the run: see [`App::with_commands_beside_runs`].
    Beside(String),
    /// Command that returns a prompt, submitted during a run to steer it or to wait behind it: see
    /// [`App::with_prompt_commands`].
    PromptCommand {
        /// The line.
        line: String,
        /// Whether the prompt steers the run.
        steers: bool,
    },
    /// Intent for the view.
    Intent(Intent),
    /// Take a steering message back from the run; if that succeeds, return the text by [`App::give_back`].
    Unsteer {
        /// Number in the queue of the view.
        id: u64,
        /// Text of the message.
        text: String,
    },
    /// Stop the run.
    Stop,
    /// Retry at once.
    Hurry,
    /// A text to keep in the history.
    Remember(String),
    /// Open the text in an external editor.
    Edit(String),
    /// Attach the image file whose path was pasted; insert the path as text if there is no image.
    Attach(String),
    /// Attach the image in the clipboard.
    PasteImage,
    /// Show the output of a background command, or kill it.
    Job {
        /// Id of the job.
        id: String,
        /// Whether to kill it.
        kill: bool,
    },
    /// Rename a session.
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
    /// Quit.
    Quit,
}

/// Function that masks the secrets of a line before it is drawn; `None` if there are none.
pub type Mask = fn(&str) -> Option<String>;

/// Predicate for commands that can run in parallel with a run.
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
    /// Whether the table of keys is shown until the next key.
    shows_keys: bool,
    /// Whether the host is running a command.
    is_busy: bool,
    hint: Option<Cow<'static, str>>,
    timing: Timing,
    output: Output,
    host: Host,
    alternate: Alternate,
    model: ModelFacts,
    /// Whether the terminal has the focus; `None` if it does not report that.
    is_focused: Option<bool>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("screen", &self.screen).finish_non_exhaustive()
    }
}

impl App {
    /// Creates a screen for events after `view`.
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

    /// Masks every drawn line except the draft and questions for approval.
    #[must_use]
    pub fn masked_by(mut self, mask: Mask) -> Self {
        self.host.mask = mask;
        self
    }

    /// Runs commands that satisfy `is_harmless` during a run; others wait for its end.
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

    /// Sets the person's key bindings.
    #[must_use]
    pub fn with_keys(mut self, keymap: Keymap) -> Self {
        self.keyboard.keymap = keymap;
        self
    }

    /// Sets renderers for blocks and fences.
    #[must_use]
    pub fn with_renderers(mut self, renderers: Renderers) -> Self {
        self.transcript.set_renderers(renderers.clone());
        self.host.renderers = renderers;
        self
    }

    /// Sets the source of other processes' history, for history searches.
    #[must_use]
    pub fn with_recall(mut self, recall: Recall) -> Self {
        self.history.set_recall(recall);
        self
    }

    /// Applies patches of the view.
    pub fn patches(&mut self, patches: &[Patch], now: Duration) {
        let View { status, switches, .. } = self.transcript.view();
        let (before, switches) = (status.run_ms, *switches);
        patches.iter().for_each(|patch| self.transcript.patch(patch));
        if self.transcript.view().switches != switches {
            // The positions in the log refer to the earlier session, so the pager starts over.
            self.restart_pager();
        }
        self.output.is_dirty = true;
        let lists = |patch: &Patch| matches!(patch, Patch::Jobs { .. } | Patch::Agents { .. });
        if let Some(picker) = self.focus.picker_mut().filter(|_| patches.iter().any(lists)) {
            picker.refresh(&self.host.completer, self.transcript.view());
        }
        let view = self.transcript.view();
        let is_over = before.is_some_and(|ms| ms >= LONG_RUN_MS) && view.status.run_ms.is_none();
        let first = view.cards.first();
        if self.focus.card().map(|card| card.question_card().id) != first.map(|card| card.id) {
            let card = first.cloned();
            // The question that caused the notification was answered.
            self.timing.late_notice = None;
            self.hint.take_if(|hint| hint == messages::QUESTION_WAITS || hint == messages::DRAFT_KEPT);
            if let Some(card) = &card {
                self.notify(describe_question(card, |text| (self.host.mask)(text)), now);
            }
            // The picker is closed, so that its search letters do not answer the question.
            self.show_question(card, now);
        } else if is_over {
            self.notify(self.describe_end(), now);
        }
    }

    /// Sets the model's facts for the status row.
    pub fn set_model(&mut self, model: ModelFacts) {
        if self.model != model {
            self.model = model;
            self.output.is_dirty = true;
        }
    }

    /// Shows the last exchange of a session that is being opened, before the whole session is read.
    pub fn announce(&mut self, blocks: &[Arc<Block>]) {
        self.transcript.announce(blocks);
        self.output.is_dirty = true;
    }

    /// Sets whether the host is running a command; lines wait meanwhile.
    pub fn set_busy(&mut self, is_busy: bool) {
        self.is_busy = is_busy;
        self.output.is_dirty = true;
    }

    /// Inserts a text before the draft.
    pub fn give_back(&mut self, text: &str) {
        self.set_offer_aside();
        let draft = self.composer.take();
        let both = if draft.trim().is_empty() { text.to_owned() } else { format!("{text}\n{draft}") };
        self.composer.set(&both);
        self.report_draft_change();
    }

    /// Switches the theme; rows that scrolled away keep their colours.
    pub fn set_theme(&mut self, theme: Theme) {
        self.screen.set_theme(theme);
        self.output.is_dirty = true;
    }

    /// Shows a hint in place of the status until the next key.
    pub fn set_hint(&mut self, hint: impl Into<Cow<'static, str>>) {
        (self.hint, self.timing.hint_ends) = (Some(hint.into()), None);
        self.output.is_dirty = true;
    }

    /// Removes the hint of [`set_hint`](Self::set_hint).
    pub fn clear_hint(&mut self) {
        self.hint = None;
        self.output.is_dirty = true;
    }

    /// Tells the open question that the draft was changed without keys.
    fn report_draft_change(&mut self) {
        if let Some(card) = self.focus.card_mut() {
            card.set_typing(!self.composer.is_empty());
        }
        self.output.is_dirty = true;
    }

    /// Replaces the text `before`, which an editor was given, by `edited`. Texts returned meanwhile stay
    /// before it.
    pub fn end_edit(&mut self, before: &str, edited: &str) {
        let draft = self.composer.expanded();
        self.composer.set(edited);
        self.focus.take_list();
        self.report_draft_change();
        let given = draft.strip_suffix(before).unwrap_or(&draft).trim_end_matches('\n');
        if !given.is_empty() {
            self.give_back(given);
        }
    }

    /// Inserts the mark of an attachment, which is deleted as a whole.
    pub fn attach(&mut self, mark: &str) {
        self.composer.attach(mark);
        self.report_draft_change();
    }

    /// Inserts a text at the caret.
    pub fn insert(&mut self, text: &str) {
        self.composer.paste(text);
        self.report_draft_change();
    }

    /// Informs the lists that a [`Completer`] has new names.
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
            self.update_completions();
            self.output.is_dirty = true;
        }
    }

    /// Time of the next [`tick`](Self::tick) or [`frame`](Self::frame); `None` while nothing changes.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        if self.output.is_left {
            return None;
        }
        let frame = self
            .output
            .is_dirty
            .then(|| self.timing.drawn.map_or(Duration::ZERO, |drawn| drawn + FRAME_INTERVAL));
        let frame = frame.max(self.earliest_frame().filter(|_| self.output.is_dirty));
        let card = self.focus.card().and_then(CardState::next_tick);
        let notice = self.timing.late_notice.as_ref().map(|(due, _)| *due);
        let hint = self.timing.hint_ends;
        frame.into_iter().chain(card).chain(self.held_enter_due()).chain(notice).chain(hint).min()
    }

    /// Handles the passage of time.
    pub fn tick(&mut self, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        self.send_due_notification(now);
        if self.timing.hint_ends.is_some_and(|end| end <= now) {
            self.end_brief_hint();
        }
        if self.timing.held_enter.is_some() {
            self.output.is_dirty = true;
            self.press_held_enter(now, &mut actions);
        }
        if let Some(outcome) = self.focus.card_mut().and_then(|card| card.tick(now)) {
            self.output.is_dirty = true;
            self.handle_outcome(outcome, &mut actions);
        }
        actions
    }

    /// Applies a new terminal size. Returns queries to write at once.
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

    /// Size of the terminal, in columns and rows, for which the screen is drawn.
    #[must_use]
    pub fn size(&self) -> Size {
        self.screen.size()
    }

    /// Whether a size query is unanswered.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.screen.is_asking()
    }

    /// Erases the live rows, so that another program can use the terminal.
    #[must_use]
    pub fn leave(&mut self) -> String {
        self.output.is_left = true;
        self.timing.asked = None;
        self.screen.discard_answer();
        let back = std::mem::take(&mut self.output.pending) + &self.leave_alternate();
        let closed = self.transcript.take_closed(0);
        let closed = self.masked(closed);
        let shown = self.screen.frame(&closed, &[], Some(Caret::default()));
        back + &shown + &self.screen.clear()
    }

    /// Stops drawing, since another program has the terminal and its content is unknown.
    pub fn abandon(&mut self) {
        self.output.is_left = true;
    }

    /// Resumes drawing; the cursor is at the beginning of an empty row.
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

    /// Draft, after the drafts that were set aside.
    #[must_use]
    pub fn draft(&self) -> String {
        let aside = self.keyboard.stash.iter().map(Buffer::expanded);
        let texts: Vec<String> = aside.chain([self.composer.expanded()]).collect();
        texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// Queued texts and draft: all text that did not reach the model.
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

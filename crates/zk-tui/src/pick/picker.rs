use std::sync::Arc;

use zk_view::{Block, Content, JobRow, JobState, SubAgent, View, sanitise};

use super::fuzzy::best;
use super::list::quoted;
use super::{Asked, Completer, Offered};
use crate::inline::Caret;
use crate::keys::{Direction, Key};
use crate::row::{Row, Style};
use crate::text::{clip, columns};
use crate::view::{agent_facts, key_table};

/// Entries that are ranked: who wants others types another letter.
const MAX_RANKED: usize = 500;

/// Rows of the list at most.
const MAX_PICKER_ROWS: usize = 12;

/// Entries that a [`Picker`] chooses among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PickerKind {
    Commands,
    Models,
    Sessions,
    /// The prompts of this session, to go on from an earlier one.
    Tree,
    Files,
    Agents,
    Jobs,
}

impl PickerKind {
    const ALL: [Self; 7] =
        [Self::Commands, Self::Models, Self::Sessions, Self::Tree, Self::Files, Self::Agents, Self::Jobs];

    fn title(self) -> &'static str {
        match self {
            Self::Commands => "commands",
            Self::Models => "models",
            Self::Sessions => "sessions",
            Self::Tree => "prompts",
            Self::Files => "files",
            Self::Agents => "sub-agents",
            Self::Jobs => "jobs",
        }
    }

    /// Says what Enter does.
    fn hint(self) -> &'static str {
        match self {
            Self::Commands | Self::Files => "Enter takes it",
            Self::Models | Self::Sessions => "Enter goes on with it",
            Self::Tree => "Enter goes back to it, in a copy of this session",
            Self::Agents => "Enter opens it",
            Self::Jobs => "Enter shows its output · Ctrl-K ends it",
        }
    }

    /// Says why there is nothing to choose.
    fn empty(self) -> &'static str {
        match self {
            Self::Commands => "no command yet: the conversation is being opened",
            Self::Models => "no model is known so far",
            Self::Sessions => "no session of this directory is stored yet",
            Self::Tree => "no earlier prompt of this session is stored",
            Self::Files => "no file found so far",
            Self::Agents => "no sub-agent has worked yet",
            Self::Jobs => "no command runs in the background: `/jobs start COMMAND` starts one",
        }
    }

    fn asked(self) -> Option<Asked> {
        let argument = |command: &str| Some(Asked::Argument(command.to_owned()));
        match self {
            Self::Commands => Some(Asked::Command),
            Self::Files => Some(Asked::File),
            Self::Models => argument("model"),
            Self::Sessions => argument("resume"),
            Self::Tree => argument("tree"),
            Self::Agents | Self::Jobs => None,
        }
    }

    /// The kind of list that a line without arguments opens.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        match line {
            "/" => Some(Self::Commands),
            "/model" => Some(Self::Models),
            "/resume" => Some(Self::Sessions),
            "/tree" => Some(Self::Tree),
            "/agents" => Some(Self::Agents),
            "/jobs" => Some(Self::Jobs),
            _ => None,
        }
    }
}

/// Whether a line of a drawn screen opens a list to choose from instead of running a command.
#[must_use]
pub fn opens_picker(line: &str) -> bool {
    PickerKind::of_line(line.trim()).is_some()
}

/// Choice that was made in a picker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Picked {
    /// A line to run.
    Line(String),
    /// A text for the composer.
    Text(String),
    /// A sub-agent to look at.
    Agent(String),
    /// A job to look at, or to end.
    Job { id: String, kill: bool },
}

/// Outcome of a key of a picker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PickerKey {
    /// The key was for the picker.
    Done,
    /// Closes the picker without a choice.
    Leave,
    /// Something was chosen.
    Picked(Picked),
}

/// Chooses one of many by a few letters.
#[derive(Debug)]
pub(crate) struct Picker {
    kind: PickerKind,
    offered: Offered,
    /// Text that is searched for each of the names.
    searched: Arc<[String]>,
    query: String,
    found: Vec<usize>,
    chosen: usize,
    /// Whether its keys are listed until the next one.
    shows_keys: bool,
}

/// The keys of a picker, and what each does.
const KEYS: [(&str, &str); 7] = [
    ("letters", "find what has them, in this order"),
    ("↑ ↓ Ctrl-P Ctrl-N", "another one"),
    ("PgUp PgDn", "a page of them"),
    ("Tab Shift-Tab", "another list"),
    ("Ctrl-U Ctrl-W", "clear the letters"),
    ("Esc Ctrl-C Ctrl-D Ctrl-O", "close it"),
    ("Ctrl-Z", "stop zk itself; `fg` goes on"),
];

impl Picker {
    pub(crate) fn new(kind: PickerKind, completer: &Completer, view: &View) -> Self {
        let (offered, searched) = (Offered::default(), Arc::default());
        let mut picker = Self {
            kind,
            offered,
            searched,
            query: String::new(),
            found: Vec::new(),
            chosen: 0,
            shows_keys: false,
        };
        picker.go_to(kind, completer, view);
        picker
    }

    fn go_to(&mut self, kind: PickerKind, completer: &Completer, view: &View) {
        self.kind = kind;
        self.refresh(completer, view);
        self.chosen = 0;
    }

    /// Takes in what there is by now. What was chosen stays, if it is still there.
    pub(crate) fn refresh(&mut self, completer: &Completer, view: &View) {
        let before = self.name().map(str::to_owned);
        self.offered = match self.kind.asked() {
            Some(asked) => completer(&asked),
            None if self.kind == PickerKind::Agents => agents(view),
            None => jobs(&view.jobs),
        };
        let notes = &self.offered.notes;
        self.searched = if notes.is_empty() {
            self.offered.names.clone()
        } else {
            let name =
                |(at, name): (usize, &String)| format!("{name} {}", notes.get(at).map_or("", String::as_str));
            self.offered.names.iter().enumerate().map(name).collect()
        };
        self.find();
        let known = before.and_then(|before| {
            self.found.iter().position(|at| self.offered.names.get(*at).is_some_and(|name| *name == before))
        });
        self.chosen = known.unwrap_or_default();
    }

    fn find(&mut self) {
        self.found = best(&self.query, &self.searched, MAX_RANKED);
        self.chosen = 0;
    }

    fn name(&self) -> Option<&str> {
        self.offered.names.get(*self.found.get(self.chosen)?).map(String::as_str)
    }

    pub(crate) fn press(&mut self, key: &Key, completer: &Completer, view: &View) -> PickerKey {
        let count = self.found.len().max(1);
        let step = |by: usize| {
            let at = PickerKind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or_default();
            PickerKind::ALL.get((at + by) % PickerKind::ALL.len()).copied().unwrap_or(self.kind)
        };
        let showed_keys = std::mem::take(&mut self.shows_keys);
        match key {
            Key::Char('?') if self.query.is_empty() => self.shows_keys = !showed_keys,
            Key::Escape | Key::Ctrl('c' | 'o' | 'd') => return PickerKey::Leave,
            Key::Tab => self.go_to(step(1), completer, view),
            Key::BackTab => self.go_to(step(PickerKind::ALL.len() - 1), completer, view),
            Key::Move { to: Direction::Up, .. } | Key::Ctrl('p') => {
                self.chosen = (self.chosen + count - 1) % count;
            }
            Key::Move { to: Direction::Down, .. } | Key::Ctrl('n') => self.chosen = (self.chosen + 1) % count,
            Key::Move { to: Direction::PageUp, .. } => {
                self.chosen = self.chosen.saturating_sub(MAX_PICKER_ROWS)
            }
            Key::Move { to: Direction::PageDown, .. } => {
                self.chosen = (self.chosen + MAX_PICKER_ROWS).min(self.found.len().saturating_sub(1));
            }
            Key::Enter => return self.pick(false),
            Key::Ctrl('k') if self.kind == PickerKind::Jobs => return self.pick(true),
            Key::Back => {
                self.query.pop();
                self.find();
            }
            Key::Ctrl('u' | 'w') => {
                self.query.clear();
                self.find();
            }
            Key::Char(c) => {
                self.query.push(*c);
                self.find();
            }
            Key::Paste(text) => {
                self.query.push_str(text.lines().next().unwrap_or_default());
                self.find();
            }
            _ => {}
        }
        PickerKey::Done
    }

    fn pick(&self, kill: bool) -> PickerKey {
        let Some(name) = self.name() else { return PickerKey::Done };
        PickerKey::Picked(match self.kind {
            PickerKind::Commands => Picked::Text(format!("/{name} ")),
            PickerKind::Files => Picked::Text(format!("@{} ", quoted(name))),
            PickerKind::Models => Picked::Line(format!("/model {name}")),
            PickerKind::Sessions => Picked::Line(format!("/resume {name}")),
            PickerKind::Tree => Picked::Line(format!("/tree {name}")),
            PickerKind::Agents => Picked::Agent(name.to_owned()),
            PickerKind::Jobs => Picked::Job { id: name.to_owned(), kill },
        })
    }

    /// The row that is typed in, and the caret in it.
    pub(crate) fn composer(&self) -> (Row, Caret) {
        let row = Row::of(Style::BOLD, "⌕ ").with(Style::PLAIN, &self.query);
        let column = row.columns();
        (row, Caret { row: 0, column })
    }

    /// The rows of the list, `room` at most.
    pub(crate) fn rows(&self, width: usize, room: usize) -> Vec<Row> {
        if self.shows_keys {
            let keys = KEYS.iter().map(|(keys, what)| ((*keys).to_owned(), *what));
            let keys: Vec<_> = [("Enter".to_owned(), self.kind.hint())].into_iter().chain(keys).collect();
            return key_table(&keys, width, room);
        }
        let mut title = Row::default();
        for kind in PickerKind::ALL {
            let style = if kind == self.kind { Style { bold: true, ..Style::CYAN } } else { Style::DIM };
            let mark =
                if kind == self.kind { format!("[{}]", kind.title()) } else { kind.title().to_owned() };
            title = title.with(style, &mark).with(Style::PLAIN, " ");
        }
        let mut rows = vec![title];
        let shown = MAX_PICKER_ROWS.min(room.saturating_sub(2)).max(1);
        let first = self.chosen.saturating_sub(shown - 1);
        for (place, at) in self.found.iter().enumerate().skip(first).take(shown) {
            rows.push(self.row(*at, place == self.chosen, width));
        }
        let hint = match self.found.len() {
            0 if self.searched.is_empty() => self.kind.empty().to_owned(),
            0 => format!("nothing fits `{}`", self.query),
            MAX_RANKED => format!("many fit · {}", self.kind.hint()),
            count => format!("{count} fit · {}", self.kind.hint()),
        };
        rows.push(Row::of(Style::DIM, &format!("  {hint} · Tab: others · ?: keys · Esc closes")));
        rows
    }

    fn row(&self, at: usize, is_chosen: bool, width: usize) -> Row {
        let name = self.offered.names.get(at).map_or("", String::as_str);
        let note = self.offered.notes.get(at).map_or("", String::as_str);
        // Nobody knows a session or a prompt by its id.
        let (label, note) = match self.kind {
            PickerKind::Sessions | PickerKind::Tree if !note.is_empty() => (note, name),
            PickerKind::Agents if !note.is_empty() => (note, ""),
            PickerKind::Commands
            | PickerKind::Models
            | PickerKind::Sessions
            | PickerKind::Tree
            | PickerKind::Files
            | PickerKind::Agents
            | PickerKind::Jobs => (name, note),
        };
        let style = if is_chosen { Style { bold: true, ..Style::CYAN } } else { Style::CYAN };
        let label = clip(&sanitise(label), width.saturating_sub(4).max(1));
        let row = Row::of(style, if is_chosen { "❯ " } else { "  " }).with(style, &label);
        let pad = 2 + 22usize.saturating_sub(columns(&label));
        let room = width.saturating_sub(row.columns() + pad);
        if note.is_empty() || room < 8 || self.kind == PickerKind::Tree {
            return row;
        }
        row.with(Style::DIM, &" ".repeat(pad)).with(Style::DIM, &clip(&sanitise(note), room))
    }
}

fn agents(view: &View) -> Offered {
    let note = |agent: &zk_view::AgentRow| format!("{} · {}", agent.title(), agent_facts(agent));
    let mut names: Vec<String> = view.agents.iter().map(|agent| agent.name.as_str().to_owned()).collect();
    let mut notes: Vec<String> = view.agents.iter().map(note).collect();
    // Sub-agents of earlier runs have blocks only.
    for agent in view.blocks.iter().filter_map(|block| block.agent.as_ref()) {
        if !names.iter().any(|name| name == agent.name.as_str()) {
            names.push(agent.name.as_str().to_owned());
            let task = first_words(view, agent);
            notes.push(format!("{} · of an earlier run", task.unwrap_or(agent.name.as_str())));
        }
    }
    Offered { names: names.into(), notes: notes.into(), remark: None }
}

/// The first line that a sub-agent was told.
fn first_words<'a>(view: &'a View, agent: &SubAgent) -> Option<&'a str> {
    let is_its = |block: &&Arc<Block>| block.agent.as_deref().is_some_and(|of| of == agent);
    view.blocks.iter().filter(is_its).find_map(|block| match &block.content {
        Content::User { text, .. } => text.as_str().lines().next(),
        _ => None,
    })
}

fn jobs(jobs: &[JobRow]) -> Offered {
    let note = |job: &JobRow| {
        let state = match &job.state {
            JobState::Running => "runs".to_owned(),
            JobState::Ending => "is asked to end".to_owned(),
            JobState::Ended { how, failed: false } => format!("ended: {how}"),
            JobState::Ended { how, failed: true } => format!("failed: {how}"),
        };
        format!("{state} · {}", job.command)
    };
    let names = jobs.iter().rev().map(|job| job.id.as_str().to_owned()).collect();
    Offered { names, notes: jobs.iter().rev().map(note).collect(), remark: None }
}

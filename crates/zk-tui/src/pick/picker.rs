use std::sync::Arc;

use zk_view::{View, sanitise};

use super::entries::{agent_entries, job_entries};
use super::fuzzy::matches_with_contents;
use super::list::quoted;
use super::picker_kind::{KEYS, OTHER_BRANCH, PickerKind, TREE_FILTERS};
use super::{Asked, Completer, Offered};
use crate::inline::Caret;
use crate::keys::{Direction, Key};
use crate::row::{Row, Style};
use crate::text::{clip, columns, fitting_facts};
use crate::view::key_table;

/// Maximum number of matches in a picker.
const MAX_RANKED: usize = 500;

/// Maximum number of visible rows of a picker's list.
const MAX_PICKER_ROWS: usize = 12;

/// Maximum number of rows of a preview.
const MAX_PREVIEW_ROWS: usize = 6;

/// Minimum height of a picker that shows a preview, in rows.
const MIN_ROWS_WITH_PREVIEW: usize = 12;

/// Width of the label column.
const LABEL_COLUMNS: usize = 22;

/// Choice in a picker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Picked {
    /// A line to run.
    Line(String),
    /// A text for the composer.
    Text(String),
    /// Sub-agent to show.
    Agent(String),
    /// Job to show or to kill.
    Job { id: String, kill: bool },
    /// Session to rename.
    Rename { id: String, title: String },
    /// A session to remove.
    Delete { id: String },
}

/// Outcome of a key of a picker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PickerKey {
    /// The key was for the picker.
    Done,
    /// Closes the picker without a choice.
    Leave,
    /// Choice; the picker closes.
    Picked(Picked),
    /// Action on the marked entry; the picker stays open.
    Act(Picked),
}

/// Mode of a picker's keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Typing {
    /// Letters search the entries.
    #[default]
    Query,
    /// Letters are the new title of the marked session.
    Title(String),
    /// Pressing the key again removes the marked session.
    Removal,
}

/// Fuzzy picker over a list of entries.
#[derive(Debug)]
pub(crate) struct Picker {
    kind: PickerKind,
    offered: Offered,
    /// Text of each entry that the query is matched against.
    searched: Arc<[String]>,
    query: String,
    found: Vec<usize>,
    chosen: usize,
    /// Whether the person moved the mark.
    is_moved: bool,
    /// Level chosen for the marked entry.
    level: Option<String>,
    /// Preview of the marked entry.
    preview: Arc<[String]>,
    typing: Typing,
    /// State of the tree's filter, as an index of [`TREE_FILTERS`].
    filter: usize,
    /// Whether the tree hides branches other than the present one.
    is_folded: bool,
    /// Whether the table of keys is shown until the next key.
    shows_keys: bool,
}

impl Picker {
    pub(crate) fn new(kind: PickerKind, completer: &Completer, view: &View) -> Self {
        let mut picker = Self {
            kind,
            offered: Offered::default(),
            searched: Arc::default(),
            query: String::new(),
            found: Vec::new(),
            chosen: 0,
            is_moved: false,
            level: None,
            preview: Arc::default(),
            typing: Typing::Query,
            filter: 0,
            is_folded: false,
            shows_keys: false,
        };
        picker.switch_to(kind, completer, view);
        picker
    }

    fn switch_to(&mut self, kind: PickerKind, completer: &Completer, view: &View) {
        (self.kind, self.level, self.typing) = (kind, None, Typing::Query);
        self.refresh(completer, view);
        (self.chosen, self.is_moved) = (0, false);
        self.update_preview(completer);
    }

    /// Updates the entries. The mark stays on its entry if that still exists.
    pub(crate) fn refresh(&mut self, completer: &Completer, view: &View) {
        let before = self.marked_name().map(str::to_owned);
        self.offered = match self.kind.completion_request() {
            Some(asked) => completer(&asked),
            None if self.kind == PickerKind::Agents => agent_entries(view),
            None => job_entries(&view.jobs),
        };
        let Offered { names, notes, labels, .. } = &self.offered;
        self.searched = if notes.is_empty() && labels.is_empty() {
            names.clone()
        } else {
            let text = |texts: &[String], at: usize| texts.get(at).cloned().unwrap_or_default();
            let all =
                |(at, name): (usize, &String)| format!("{name} {} {}", text(labels, at), text(notes, at));
            names.iter().enumerate().map(all).collect()
        };
        self.update_matches();
        // The tree's leaf may have changed, and the mark begins at the leaf.
        let stays = self.is_moved || self.kind != PickerKind::Tree;
        let known = before.filter(|_| stays).and_then(|before| {
            self.found.iter().position(|at| self.offered.names.get(*at).is_some_and(|name| *name == before))
        });
        self.chosen = known.unwrap_or_default();
        self.update_preview(completer);
    }

    fn update_matches(&mut self) {
        self.found = matches_with_contents(&self.query, &self.searched, &self.offered.contents, MAX_RANKED);
        if self.kind == PickerKind::Tree {
            let notes = &self.offered.notes;
            let filter = TREE_FILTERS.get(self.filter).copied().unwrap_or_default();
            self.found.retain(|at| {
                let note = notes.get(*at).map_or("", String::as_str);
                note.contains(filter) && !(self.is_folded && note.contains(OTHER_BRANCH))
            });
        }
        self.chosen = 0;
    }

    /// Updates the preview of the marked entry.
    fn update_preview(&mut self, completer: &Completer) {
        self.kind.add_content_matches(&self.query, &self.offered.names, completer, &mut self.found);
        let asked = self.marked_name().and_then(|name| match self.kind {
            PickerKind::Files => Some(Asked::FilePreview(name.to_owned())),
            PickerKind::Sessions => Some(Asked::SessionPreview(name.to_owned())),
            PickerKind::Tree => Some(Asked::TreePreview(name.to_owned())),
            PickerKind::Commands
            | PickerKind::Models
            | PickerKind::Themes
            | PickerKind::Agents
            | PickerKind::Jobs => None,
        });
        self.preview = asked.map(|asked| completer(&asked).names).unwrap_or_default();
    }

    /// Index of the marked entry.
    fn marked_index(&self) -> Option<usize> {
        self.found.get(self.chosen).copied()
    }

    fn marked_name(&self) -> Option<&str> {
        self.offered.names.get(self.marked_index()?).map(String::as_str)
    }

    /// Query, if it may itself be chosen as a value that is not in the list.
    fn typed_value(&self) -> Option<&str> {
        let query = self.query.trim();
        let is_listed = || self.offered.names.iter().any(|name| name == query);
        (self.kind.takes_typed() && !query.is_empty() && !is_listed()).then_some(query)
    }

    /// Number of rows that can be marked: the matches, and the query if it can be chosen.
    fn row_count(&self) -> usize {
        self.found.len() + usize::from(self.typed_value().is_some())
    }

    pub(crate) fn press(&mut self, key: &Key, completer: &Completer, view: &View) -> PickerKey {
        if let Some(done) = self.press_session(key) {
            return done;
        }
        let count = self.row_count().max(1);
        let step = |by: usize| {
            let at = PickerKind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or_default();
            PickerKind::ALL.get((at + by) % PickerKind::ALL.len()).copied().unwrap_or(self.kind)
        };
        let showed_keys = std::mem::take(&mut self.shows_keys);
        self.is_moved |= matches!(
            key,
            Key::Move { to: Direction::Up | Direction::Down | Direction::PageUp | Direction::PageDown, .. }
                | Key::Ctrl('p' | 'n')
        );
        match key {
            Key::Char('?') if self.query.is_empty() => self.shows_keys = !showed_keys,
            Key::Escape | Key::Ctrl('c' | 'o' | 'd') => return PickerKey::Leave,
            Key::Tab => self.switch_to(step(1), completer, view),
            Key::BackTab => self.switch_to(step(PickerKind::ALL.len() - 1), completer, view),
            Key::Move { to: Direction::Left, .. } => self.change_level(false),
            Key::Move { to: Direction::Right, .. } => self.change_level(true),
            Key::Move { to: Direction::Up, .. } | Key::Ctrl('p') => {
                self.chosen = (self.chosen + count - 1) % count;
            }
            Key::Move { to: Direction::Down, .. } | Key::Ctrl('n') => self.chosen = (self.chosen + 1) % count,
            Key::Move { to: Direction::PageUp, .. } => {
                self.chosen = self.chosen.saturating_sub(MAX_PICKER_ROWS)
            }
            Key::Move { to: Direction::PageDown, .. } => {
                self.chosen = (self.chosen + MAX_PICKER_ROWS).min(count - 1);
            }
            Key::Enter => return self.choose_marked(false),
            Key::Ctrl('k') if self.kind == PickerKind::Jobs => return self.choose_marked(true),
            Key::Ctrl('k') if self.kind == PickerKind::Agents => {
                let Some(name) = self.marked_name() else { return PickerKey::Done };
                return PickerKey::Act(Picked::Line(format!("/agents stop {name}")));
            }
            Key::Ctrl('s') if self.kind == PickerKind::Agents => {
                let Some(name) = self.marked_name() else { return PickerKey::Done };
                return PickerKey::Picked(Picked::Text(format!("/agents steer {name} ")));
            }
            Key::Ctrl('s') if self.kind == PickerKind::Tree => {
                let Some(name) = self.marked_name() else { return PickerKey::Done };
                return PickerKey::Picked(Picked::Line(format!("/tree {name} summary")));
            }
            Key::Ctrl('t') if self.kind == PickerKind::Tree => {
                self.filter = (self.filter + 1) % TREE_FILTERS.len();
                self.update_matches();
            }
            Key::Ctrl('b') if self.kind == PickerKind::Tree => {
                self.is_folded = !self.is_folded;
                self.update_matches();
            }
            Key::Back => {
                self.query.pop();
                self.update_matches();
            }
            Key::Ctrl('u' | 'w') => {
                self.query.clear();
                self.update_matches();
            }
            Key::Char(c) => {
                self.query.push(*c);
                self.update_matches();
            }
            Key::Paste(text) => {
                self.query.push_str(text.lines().next().unwrap_or_default());
                self.update_matches();
            }
            _ => {}
        }
        self.update_preview(completer);
        PickerKey::Done
    }

    /// Handles the keys of the session list: rename and remove.
    fn press_session(&mut self, key: &Key) -> Option<PickerKey> {
        let id = self.marked_name().filter(|_| self.kind == PickerKind::Sessions)?.to_owned();
        let label =
            self.marked_index().and_then(|at| self.offered.labels.get(at)).cloned().unwrap_or_default();
        match (std::mem::take(&mut self.typing), key) {
            (Typing::Query, Key::Ctrl('r')) => self.typing = Typing::Title(label),
            (Typing::Query, Key::Ctrl('k')) => self.typing = Typing::Removal,
            (Typing::Query, _) => return None,
            (Typing::Removal, Key::Ctrl('k')) => return Some(PickerKey::Act(Picked::Delete { id })),
            (Typing::Removal, _) => {}
            (Typing::Title(_), Key::Escape | Key::Ctrl('c' | 'd' | 'o')) => {}
            (Typing::Title(title), Key::Enter) => {
                let title = title.trim().to_owned();
                return Some(PickerKey::Act(Picked::Rename { id, title }));
            }
            (Typing::Title(mut title), key) => {
                match key {
                    Key::Char(c) => title.push(*c),
                    Key::Paste(text) => title.push_str(text.lines().next().unwrap_or_default()),
                    Key::Back => drop(title.pop()),
                    Key::Ctrl('u' | 'w') => title.clear(),
                    _ => {}
                }
                self.typing = Typing::Title(title);
            }
        }
        Some(PickerKey::Done)
    }

    /// Levels of the marked entry.
    fn levels(&self) -> &[String] {
        self.marked_index().and_then(|at| self.offered.levels.get(at)).map_or(&[], |levels| levels)
    }

    /// Level of the marked entry: chosen, or else the present one.
    fn level(&self) -> Option<&str> {
        let wanted = self.level.as_deref().or(self.offered.level.as_deref())?;
        self.levels().iter().map(String::as_str).find(|level| *level == wanted)
    }

    fn change_level(&mut self, up: bool) {
        let levels = self.levels();
        let now = self.level().and_then(|now| levels.iter().position(|level| level == now));
        let next = match (now, up) {
            (None, _) => 0,
            (Some(at), true) => (at + 1).min(levels.len().saturating_sub(1)),
            (Some(at), false) => at.saturating_sub(1),
        };
        if let Some(level) = levels.get(next).cloned() {
            self.level = Some(level);
        }
    }

    fn choose_marked(&self, kill: bool) -> PickerKey {
        let Some(name) = self.marked_name().or_else(|| self.typed_value()) else { return PickerKey::Done };
        PickerKey::Picked(match self.kind {
            PickerKind::Commands => {
                let hint = self.marked_index().and_then(|at| self.offered.hints.get(at));
                match hint.is_some_and(String::is_empty) {
                    true => Picked::Line(format!("/{name}")),
                    false => Picked::Text(format!("/{name} ")),
                }
            }
            PickerKind::Files => {
                let space = if name.ends_with('/') { "" } else { " " };
                Picked::Text(format!("@{}{space}", quoted(name)))
            }
            PickerKind::Models => match self.level.as_ref().and(self.level()) {
                Some(level) => Picked::Line(format!("/model {name}:{level}")),
                None => Picked::Line(format!("/model {name}")),
            },
            PickerKind::Themes => Picked::Line(format!("/theme {name}")),
            PickerKind::Sessions => Picked::Line(format!("/resume {name}")),
            PickerKind::Tree => Picked::Line(format!("/tree {name}")),
            PickerKind::Agents => Picked::Agent(name.to_owned()),
            PickerKind::Jobs => Picked::Job { id: name.to_owned(), kill },
        })
    }

    /// Row of the query, with the caret.
    pub(crate) fn query_row(&self) -> (Row, Caret) {
        let (mark, text) = match &self.typing {
            Typing::Title(title) => ("new title: ", title),
            Typing::Query | Typing::Removal => ("⌕ ", &self.query),
        };
        let row = Row::of(Style::BOLD, mark).with(Style::PLAIN, text);
        let column = row.columns();
        (row, Caret { row: 0, column })
    }

    /// Rows of the list, at most `room`.
    pub(crate) fn rows(&self, width: usize, room: usize) -> Vec<Row> {
        if self.shows_keys {
            let keys = self.kind.keys().iter().chain(&KEYS).map(|(keys, what)| ((*keys).to_owned(), *what));
            let keys: Vec<_> =
                [("Enter".to_owned(), self.kind.enter_key())].into_iter().chain(keys).collect();
            return key_table(&keys, width, room);
        }
        let mut rows = vec![self.title_row(width)];
        let preview = self.preview_rows(width, room);
        let shown = MAX_PICKER_ROWS.min(room.saturating_sub(2 + preview.len())).max(1);
        let first = self.chosen.saturating_sub(shown - 1);
        let places = (0..self.row_count()).skip(first).take(shown);
        let wide = places.clone().map(|place| columns(&self.entry_label(place))).max().unwrap_or_default();
        let wide = wide.clamp(LABEL_COLUMNS, (width / 2).max(LABEL_COLUMNS));
        rows.extend(places.map(|place| self.entry_row(place, wide, width)));
        rows.extend(preview);
        rows.push(self.hint_row(width));
        rows
    }

    /// Draws the kinds in a row. If they do not fit, the first ones are replaced by `…`.
    fn title_row(&self, width: usize) -> Row {
        let kinds = PickerKind::ALL;
        let at = kinds.iter().position(|kind| *kind == self.kind).unwrap_or_default();
        let title = |first: usize| {
            let begin = if first == 0 { "" } else { "… " };
            let row = Row::of(Style::DIM, begin);
            kinds.iter().skip(first).fold(row, |row, kind| {
                let (style, mark) = match *kind == self.kind {
                    true => (Style { bold: true, ..Style::CYAN }, format!("[{}]", kind.title())),
                    false => (Style::DIM, kind.title().to_owned()),
                };
                row.with(style, &mark).with(Style::PLAIN, " ")
            })
        };
        let behind = |first: usize| {
            kinds.iter().skip(first.max(at + 1)).map(|kind| kind.title().len() + 1).sum::<usize>()
        };
        // Kinds behind it may be cut, with a mark of their own.
        let fits = |first: &usize| title(*first).columns().saturating_sub(behind(*first)) < width;
        title((0..=at).find(fits).unwrap_or(at))
    }

    /// Rows of the preview, between the list and the keys.
    fn preview_rows(&self, width: usize, room: usize) -> Vec<Row> {
        if room < MIN_ROWS_WITH_PREVIEW || self.preview.is_empty() {
            return Vec::new();
        }
        let most = MAX_PREVIEW_ROWS.min(room / 3);
        let row = |line: &String| Row::of(Style::DIM, "  │ ").with(Style::PLAIN, line).clipped(width);
        self.preview.iter().take(most).map(row).collect()
    }

    /// Hint row with the number of entries and the keys.
    fn hint_row(&self, width: usize) -> Row {
        if self.typing == Typing::Removal {
            let text =
                "  Ctrl-K again removes it for good, with all that was said in it · any other key keeps it";
            return Row::of(Style::YELLOW, text);
        }
        if matches!(self.typing, Typing::Title(_)) {
            return Row::of(Style::DIM, "  Enter gives it this title · Esc keeps the one it has");
        }
        let enter = self.kind.hint();
        let said = match self.row_count() {
            0 if self.searched.is_empty() => match &self.offered.remark {
                Some(remark) => remark.to_string(),
                None => self.kind.empty().to_owned(),
            },
            0 => format!("nothing fits `{}`", self.query),
            _ if self.found.is_empty() => format!("no list has `{}` · {enter}", self.query),
            MAX_RANKED.. => format!("many · {enter}"),
            count if self.query.is_empty() => format!("{count} · {enter}"),
            count => format!("{count} fit · {enter}"),
        };
        let levels = if self.levels().is_empty() { "" } else { " · ←→ thinking" };
        let more = self.kind.more_keys();
        let ends = [" · Tab: others · ?: keys · Esc closes", " · ?: keys · Esc closes", " · Esc closes", ""];
        let said = format!("  {said}{levels}{more}");
        let rows = ends.map(|end| Row::of(Style::DIM, &format!("{said}{end}")));
        let fits = rows.iter().position(|row| row.columns() <= width).unwrap_or(ends.len() - 1);
        rows.into_iter().nth(fits).unwrap_or_default()
    }

    /// Label of an entry, sanitised.
    fn entry_label(&self, place: usize) -> String {
        let Some(at) = self.found.get(place).copied() else {
            return sanitise(self.typed_value().unwrap_or_default()).into_owned();
        };
        let text = |texts: &Arc<[String]>| sanitise(texts.get(at).map_or("", String::as_str)).into_owned();
        let Offered { names, labels, hints, .. } = &self.offered;
        // Ids of sessions and prompts are not shown.
        let label = Some(text(labels)).filter(|label| !label.is_empty()).unwrap_or_else(|| text(names));
        match (self.kind, text(hints)) {
            (PickerKind::Commands, hint) if hint.is_empty() => format!("/{label}"),
            (PickerKind::Commands, hint) => format!("/{label} {hint}"),
            (_, _) => label,
        }
    }

    /// Row of an entry, with labels of `wide` columns.
    fn entry_row(&self, place: usize, wide: usize, width: usize) -> Row {
        let is_chosen = place == self.chosen;
        let style = if is_chosen { Style { bold: true, ..Style::CYAN } } else { Style::CYAN };
        let mut note = match self.found.get(place) {
            Some(at) => sanitise(self.offered.notes.get(*at).map_or("", String::as_str)).into_owned(),
            None => "as typed".to_owned(),
        };
        if is_chosen && let Some(level) = self.level() {
            note = format!("◂ {} ▸  {note}", sanitise(level));
        }
        // A session's facts keep their space, however long its title is.
        let facts = if self.kind == PickerKind::Sessions { (columns(&note) + 2).min(width / 2) } else { 0 };
        let label = clip(&self.entry_label(place), width.saturating_sub(4 + facts).max(1));
        let row = Row::of(style, if is_chosen { "❯ " } else { "  " }).with(style, &label);
        let wide = if facts > 0 { width.saturating_sub(4 + facts) } else { wide };
        let pad = 2 + wide.saturating_sub(columns(&label));
        let room = width.saturating_sub(row.columns() + pad);
        if note.is_empty() || room < 8 || self.kind == PickerKind::Tree {
            return row;
        }
        let has_facts = matches!(self.kind, PickerKind::Models | PickerKind::Sessions);
        let note = if has_facts { fitting_facts(&note, room) } else { clip(&note, room) };
        row.with(Style::DIM, &" ".repeat(pad)).with(Style::DIM, &note)
    }
}

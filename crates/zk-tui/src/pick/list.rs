use std::sync::Arc;

use super::fuzzy::best_matches;
use crate::row::{Row, Style};
use crate::text::fitting_facts;

/// Maximum number of visible rows in a list.
const MAX_LIST_ROWS: usize = 8;

/// Maximum number of rows of the preview in a list of completions.
const MAX_PREVIEW_ROWS: usize = 4;

/// Minimum height of a list with a preview, in rows.
const MIN_ROWS_WITH_PREVIEW: usize = 6;

/// Maximum number of matches in a list of completions.
const MAX_RANKED: usize = 200;

/// Kind of word for which completions are requested.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    /// A command of the conversation, without its `/`.
    Command,
    /// Argument of this command, with the arguments typed before.
    Argument(String),
    /// A path, without its `@`.
    File,
    /// Program at the start of a shell command, after `!`.
    Program,
    /// Path within a shell command.
    ShellWord,
    /// The first lines of the file at this path.
    FilePreview(String),
    /// Lines on the session with this id.
    SessionPreview(String),
    /// Ids of the sessions whose text has these words.
    SessionSearch(String),
    /// Lines on the entry of the present session with this id.
    TreePreview(String),
}

/// Completions for a request, with optional descriptions.
#[derive(Clone, Debug, Default)]
pub struct Offered {
    /// Names, in the order shown for an empty query.
    pub names: Arc<[String]>,
    /// Remarks on the names; as many as names, or none.
    pub notes: Arc<[String]>,
    /// Labels shown instead of the names, such as titles of sessions; as many as names, or none.
    pub labels: Arc<[String]>,
    /// Contents that a query is searched in word by word and that are not shown, in lower case; as many as names, or
    /// none.
    pub contents: Arc<[String]>,
    /// Argument hints of commands, empty without arguments; as many as names, or none.
    pub hints: Arc<[String]>,
    /// Levels to choose with each name, such as reasoning levels of a model; as many as names, or none.
    pub levels: Arc<[Arc<[String]>]>,
    /// Present level.
    pub level: Option<Arc<str>>,
    /// Remark below the names, such as that there are more.
    pub remark: Option<Arc<str>>,
}

/// Source of completions. Does not block: returns the names known so far.
pub type Completer = Box<dyn Fn(&Asked) -> Offered + Send>;

/// Request for the text before the caret: kind, start of the word to replace, and the query.
pub(crate) fn completion_request(before: &str) -> Option<(Asked, usize, &str)> {
    let from = before
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + before.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8));
    let word = before.get(from..).unwrap_or_default();
    if let Some(path) = word.strip_prefix('@') {
        return Some((Asked::File, from + 1, path));
    }
    if let Some(name) = word.strip_prefix('/').filter(|name| from == 0 && !name.contains('/')) {
        return Some((Asked::Command, 1, name));
    }
    if before.starts_with('!') {
        let from = from.max(before.len() - before.trim_start_matches('!').len());
        let word = before.get(from..).unwrap_or_default();
        // After a pipe or another separator, a new command starts.
        let is_first =
            before.get(..from).is_some_and(|before| before.trim_end().ends_with(['!', '|', '&', ';', '(']));
        let asked = if is_first && !word.contains('/') { Asked::Program } else { Asked::ShellWord };
        return Some((asked, from, word));
    }
    let (command, _) = before.strip_prefix('/')?.split_once(' ')?;
    let line = before.get(1..from).unwrap_or_default().trim_end();
    let is_on_one_line = !command.contains('/') && !before.contains('\n');
    is_on_one_line.then(|| (Asked::Argument(line.to_owned()), from, word))
}

/// Path for insertion, quoted if it contains a space.
pub(crate) fn quoted(path: &str) -> String {
    match (path.contains(char::is_whitespace), path.contains('"')) {
        (false, _) => path.to_owned(),
        (true, false) => format!("\"{path}\""),
        (true, true) => format!("'{path}'"),
    }
}

/// List of completions that match the typed word.
#[derive(Debug)]
pub(crate) struct List {
    asked: Asked,
    offered: Offered,
    /// Start of the word in the text.
    from: usize,
    query: String,
    found: Vec<usize>,
    chosen: usize,
    /// Whether the person moved the selection, so that Enter chooses.
    is_moved: bool,
    /// First lines of the chosen file.
    preview: Arc<[String]>,
}

impl List {
    /// Creates the list for the text before the caret; `None` without a match and without a remark. `old` is
    /// the earlier list.
    pub(crate) fn of(before: &str, old: Option<Self>, completer: &Completer) -> Option<Self> {
        let (asked, from, query) = completion_request(before)?;
        let old = old.filter(|old| old.asked == asked && old.from == from);
        let moved_to = old.as_ref().filter(|old| old.is_moved && old.query == query).and_then(Self::name);
        let moved_to = moved_to.map(str::to_owned);
        // Files may have been created since, so they are requested again. Commands and arguments stay the same
        // while one is typed.
        let offered = match old {
            Some(old) if asked != Asked::File => old.offered,
            Some(_) | None => completer(&asked),
        };
        let found = best_matches(query, &offered.names, MAX_RANKED);
        let is_complete =
            matches!(found.as_slice(), [only] if offered.names.get(*only).is_some_and(|name| name == query));
        // With a remark, the list is shown even without a match, since the name may be one that is not offered.
        if found.is_empty() && offered.remark.is_none() || is_complete {
            return None;
        }
        let query = query.to_owned();
        let place_of = |name: &String| found.iter().position(|at| offered.names.get(*at) == Some(name));
        let place = moved_to.as_ref().and_then(place_of);
        let (chosen, is_moved) = (place.unwrap_or_default(), place.is_some());
        let mut list = Self { asked, offered, from, query, found, chosen, is_moved, preview: Arc::default() };
        list.update_preview(completer);
        Some(list)
    }

    /// Selected name.
    fn name(&self) -> Option<&str> {
        self.offered.names.get(*self.found.get(self.chosen)?).map(String::as_str)
    }

    /// Requests the preview of the selected file.
    fn update_preview(&mut self, completer: &Completer) {
        let asked = self.name().filter(|_| self.asked == Asked::File);
        let asked = asked.map(|name| Asked::FilePreview(name.to_owned()));
        self.preview = asked.map(|asked| completer(&asked).names).unwrap_or_default();
    }

    /// Whether it lists files.
    pub(crate) fn is_of_files(&self) -> bool {
        self.asked == Asked::File
    }

    /// Whether no name matches.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether Enter chooses from the list: after a movement, or while the name of a command or file is typed. A
    /// directory that is typed whole may be meant itself.
    pub(crate) fn takes_enter(&self) -> bool {
        let is_named = || self.offered.names.contains(&self.query);
        let is_begun = match self.asked {
            Asked::Command => true,
            Asked::File => !self.query.is_empty() && !self.query.ends_with('/'),
            Asked::Argument(_)
            | Asked::Program
            | Asked::ShellWord
            | Asked::FilePreview(_)
            | Asked::SessionPreview(_)
            | Asked::SessionSearch(_)
            | Asked::TreePreview(_) => false,
        };
        self.is_moved || (is_begun && !is_named())
    }

    /// Line that runs the selected command at once. `None` if the command takes arguments, or if the typed
    /// letters do not begin its name: Enter then only completes the name, so that the person sees the command
    /// first.
    pub(crate) fn runnable_line(&self) -> Option<String> {
        let at = *self.found.get(self.chosen)?;
        let begins = |name: &String| {
            name.get(..self.query.len()).is_some_and(|start| start.eq_ignore_ascii_case(&self.query))
        };
        if !self.is_moved && !self.offered.names.get(at).is_some_and(begins) {
            return None;
        }
        let takes_more = self.offered.hints.get(at).is_none_or(|hint| !hint.is_empty());
        let name = self.offered.names.get(at).filter(|_| self.asked == Asked::Command && !takes_more)?;
        Some(format!("/{name}"))
    }

    /// Whether exactly one name matches.
    pub(crate) fn has_one_match(&self) -> bool {
        self.found.len() == 1
    }

    /// Moves the selection.
    pub(crate) fn move_selection(&mut self, back: bool, completer: &Completer) {
        let count = self.found.len();
        self.is_moved = true;
        self.chosen =
            if back { (self.chosen + count - 1) % count.max(1) } else { (self.chosen + 1) % count.max(1) };
        self.update_preview(completer);
    }

    /// Start of the word to replace, and the selected name with its suffix.
    pub(crate) fn replacement(&self) -> Option<(usize, String)> {
        let name = self.offered.names.get(*self.found.get(self.chosen)?)?;
        let is_path = matches!(self.asked, Asked::File | Asked::ShellWord);
        let name = if is_path { quoted(name) } else { name.clone() };
        let goes_on = name.ends_with('/') && is_path;
        Some((self.from, if goes_on { name } else { format!("{name} ") }))
    }

    /// Rows of the list, at most `room`: names with remarks, then the keys.
    pub(crate) fn rows(&self, width: usize, room: usize) -> Vec<Row> {
        let footer = self.footer();
        let said = usize::from(footer.is_some()) + usize::from(self.offered.remark.is_some());
        let preview = self.preview_rows(width, room.saturating_sub(said));
        let most = MAX_LIST_ROWS.min(room.saturating_sub(said + preview.len())).max(1);
        let first = self.chosen.saturating_sub(most - 1);
        let shown: Vec<(usize, usize)> =
            self.found.iter().copied().enumerate().skip(first).take(most).collect();
        // Width as drawn, since sanitised characters have none.
        let columns = |text: &str| Row::of(Style::PLAIN, text).columns();
        let wide = shown.iter().map(|(_, at)| columns(&self.label(*at))).max().unwrap_or_default();
        let room = wide.min(width / 2);
        let mut rows: Vec<Row> = shown
            .into_iter()
            .map(|(place, at)| {
                let is_chosen = place == self.chosen;
                let style = if is_chosen { Style { bold: true, ..Style::CYAN } } else { Style::CYAN };
                let mark = if is_chosen { "❯ " } else { "  " };
                let label = self.label(at);
                let row = Row::of(style, mark).with(style, &label);
                let Some(note) = self.offered.notes.get(at).filter(|note| !note.is_empty()) else {
                    return row;
                };
                let pad = " ".repeat(2 + room.saturating_sub(columns(&label)));
                let room = width.saturating_sub(row.columns() + pad.len());
                let note = match self.asked {
                    Asked::Argument(_) => fitting_facts(note, room),
                    _ => note.clone(),
                };
                let mut row = row.with(Style::DIM, &pad);
                row.append(&Row::of(Style::DIM, &note).clipped(room));
                row
            })
            .collect();
        rows.extend(preview);
        rows.extend(footer.map(|footer| Row::of(Style::DIM, &format!("  {footer}")).clipped(width)));
        if let Some(remark) = &self.offered.remark {
            rows.push(Row::of(Style::DIM, &format!("  {remark}")).clipped(width));
        }
        rows
    }

    /// Rows of the selected file's preview.
    fn preview_rows(&self, width: usize, room: usize) -> Vec<Row> {
        if room < MIN_ROWS_WITH_PREVIEW {
            return Vec::new();
        }
        let row = |line: &String| Row::of(Style::DIM, "  │ ").with(Style::DIM, line).clipped(width);
        self.preview.iter().take(MAX_PREVIEW_ROWS.min(room / 2)).map(row).collect()
    }

    /// Name as typed, with the argument hint of a command.
    fn label(&self, at: usize) -> String {
        let name = self.offered.names.get(at).map_or("", String::as_str);
        match (&self.asked, self.offered.hints.get(at).filter(|hint| !hint.is_empty())) {
            (Asked::Command, Some(hint)) => format!("/{name} {hint}"),
            (Asked::Command, None) => format!("/{name}"),
            (_, _) => name.to_owned(),
        }
    }

    /// Footer with the number of names and the keys, if useful.
    fn footer(&self) -> Option<String> {
        let (count, is_all) = (self.found.len(), self.query.is_empty());
        let many = if count >= MAX_RANKED { "many".to_owned() } else { count.to_string() };
        match (&self.asked, count) {
            (_, 0) => None,
            (Asked::Command, 1) => Some("1 command · Enter runs · Tab completes".to_owned()),
            (Asked::Command, _) => Some(format!("{many} commands · Enter runs · Tab completes")),
            (_, count) if count <= MAX_LIST_ROWS => None,
            (Asked::File | Asked::ShellWord, _) if is_all => {
                Some(format!("{many} files · ↑↓ · Tab takes it"))
            }
            (_, _) if is_all => Some(format!("{many} · ↑↓ · Tab takes it")),
            (_, _) => Some(format!("{many} fit `{}` · ↑↓ · Tab takes it", self.query)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_blank_is_chosen_in_quotes() {
        let names: Arc<[String]> = ["docs/my notes.md".to_owned()].into();
        let completer: Completer = Box::new(move |_| Offered { names: names.clone(), ..Offered::default() });
        let list = List::of("see @notes", None, &completer).unwrap();
        assert_eq!(list.replacement(), Some((5, "\"docs/my notes.md\" ".to_owned())));
        assert_eq!(quoted("a \"b\".md"), "'a \"b\".md'");
    }

    #[test]
    fn a_remark_stands_below_the_names_also_where_none_fits() {
        let names: Arc<[String]> = ["src/main.rs".to_owned()].into();
        let offered = Offered { names, remark: Some("there are others".into()), ..Offered::default() };
        let completer: Completer = Box::new(move |asked| match asked {
            Asked::FilePreview(_) => Offered::default(),
            _ => offered.clone(),
        });
        let shown = |typed: &str| {
            let list = List::of(typed, None, &completer).unwrap();
            let rows = list.rows(40, 10);
            let is_told = rows.last().is_some_and(|row| row.text().contains("there are others"));
            (list.is_empty(), rows.len(), is_told)
        };
        assert_eq!(shown("see @main"), (false, 2, true));
        assert_eq!(shown("see @zzz"), (true, 1, true));
    }

    #[test]
    fn commands_stand_with_their_slash_and_what_they_take_and_the_footer_says_what_enter_does() {
        let of = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Arc<[String]>>();
        let offered = Offered {
            names: of(&["help", "review"]),
            notes: of(&["commands and keys", "look at changes"]),
            hints: of(&["", "[BASE]"]),
            ..Offered::default()
        };
        let completer: Completer = Box::new(move |_| offered.clone());
        let list = |typed: &str| List::of(typed, None, &completer).unwrap();
        let rows: Vec<String> = list("/").rows(60, 10).iter().map(Row::text).collect();
        assert_eq!(
            rows,
            [
                "❯ /help           commands and keys",
                "  /review [BASE]  look at changes",
                "  2 commands · Enter runs · Tab completes",
            ]
        );
        assert_eq!(
            (list("/he").takes_enter(), list("/he").runnable_line()),
            (true, Some("/help".to_owned()))
        );
        assert_eq!(
            (list("/rev").takes_enter(), list("/rev").runnable_line()),
            (true, None),
            "it may take more"
        );
    }

    #[test]
    fn enter_takes_a_file_whose_name_is_begun() {
        let names: Arc<[String]> = ["src/", "src/a.rs", "src/b.rs"].map(str::to_owned).into();
        let completer: Completer = Box::new(move |_| Offered { names: names.clone(), ..Offered::default() });
        for (typed, takes) in [
            ("look at @a", true),
            ("look at @", false),
            ("look at @src/a.rs", false),
            ("look at @src/", false),
        ] {
            let list = List::of(typed, None, &completer);
            assert_eq!(list.is_some_and(|list| list.takes_enter()), takes, "{typed}");
        }
    }

    #[test]
    fn the_chosen_file_is_previewed_where_there_is_room_and_stays_chosen_when_the_preview_comes() {
        let names: Arc<[String]> = ["src/a.rs", "src/b.rs"].map(str::to_owned).into();
        let completer: Completer = Box::new(move |asked| match asked {
            Asked::FilePreview(path) => {
                let lines = ["first", "second", "third", "fourth", "fifth"];
                let names = lines.map(|line| format!("{line} of {path}")).into();
                Offered { names, ..Offered::default() }
            }
            _ => Offered { names: names.clone(), ..Offered::default() },
        });
        let shown = |list: &List, room| list.rows(40, room).iter().map(Row::text).collect::<Vec<_>>();
        let mut list = List::of("see @src", None, &completer).unwrap();
        let rows = shown(&list, 8);
        assert_eq!((rows.len(), rows[2].as_str()), (6, "  │ first of src/a.rs"));
        assert_eq!(shown(&list, 5), ["❯ src/a.rs", "  src/b.rs"]);
        list.move_selection(false, &completer);
        let list = List::of("see @src", Some(list), &completer).unwrap();
        assert_eq!(shown(&list, 8)[1..3], ["❯ src/b.rs", "  │ first of src/b.rs"]);
        let list = List::of("see @src/", Some(list), &completer).unwrap();
        assert_eq!(shown(&list, 8)[0], "❯ src/a.rs", "another word begins at the best name");
    }

    #[test]
    fn the_text_before_the_caret_determines_the_request() {
        let argument = |command: &str| Asked::Argument(command.to_owned());
        for (before, expected) in [
            ("/mo", Some((Asked::Command, 1, "mo"))),
            ("/", Some((Asked::Command, 1, ""))),
            ("/etc/ho", None),
            ("/model cl", Some((argument("model"), 7, "cl"))),
            ("/model ", Some((argument("model"), 7, ""))),
            ("/model a b", Some((argument("model a"), 9, "b"))),
            ("/model a ", Some((argument("model a"), 9, ""))),
            ("/model a\nb", None),
            ("see @src/ma", Some((Asked::File, 5, "src/ma"))),
            ("see /mo", None),
            ("!ls sr", Some((Asked::ShellWord, 4, "sr"))),
            ("!!ls", Some((Asked::Program, 2, "ls"))),
            ("! ls", Some((Asked::Program, 2, "ls"))),
            ("!./ru", Some((Asked::ShellWord, 1, "./ru"))),
            ("!ls | gr", Some((Asked::Program, 6, "gr"))),
            ("!make && ./ru", Some((Asked::ShellWord, 9, "./ru"))),
            ("words", None),
            ("", None),
        ] {
            assert_eq!(completion_request(before), expected, "{before}");
        }
    }
}

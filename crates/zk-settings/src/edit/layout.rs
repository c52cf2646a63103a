use std::ops::Range;

use toml_edit::{Document, Item, Key, TableLike, TomlError};

use super::change::Change;

/// Character that some editors put before a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Place of each key, value and header in a text.
pub(super) struct Layout<'a> {
    text: &'a str,
    document: Document<&'a str>,
}

/// The table that a path leads to, or the last one on the way that is there.
pub(super) struct FoundTable<'a> {
    item: &'a Item,
    /// Number of parts of the path that are there.
    depth: usize,
    /// Number of parts that the header names, in whose section the table is.
    section_depth: usize,
    /// The innermost inline table with braces on the way, and the number of parts that lead to it.
    braces: Option<(&'a Item, usize)>,
    is_whole: bool,
}

/// Entry of a table.
pub(super) struct Child<'a> {
    key: &'a Key,
    item: &'a Item,
}

impl Child<'_> {
    /// Bytes of the name.
    pub(super) fn key_span(&self) -> Option<Range<usize>> {
        self.key.span()
    }

    /// Bytes of the value; `None` for a table that is more than one value.
    pub(super) fn value_span(&self) -> Option<Range<usize>> {
        self.item.as_value().filter(|_| !is_dotted(self.item)).and_then(|value| value.span())
    }
}

impl<'a> FoundTable<'a> {
    /// Returns the entry of the table that the whole path leads to.
    pub(super) fn child(&self, key: &str) -> Option<Child<'a>> {
        let (key, item) = self.item.as_table_like().filter(|_| self.is_whole)?.get_key_value(key)?;
        Some(Child { key, item })
    }
}

impl<'a> Layout<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, TomlError> {
        Ok(Self { text, document: Document::parse(text)? })
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Finds a table.
    ///
    /// # Errors
    /// The part of the path that is a value or a list.
    pub(super) fn table_at(&self, path: &[&str]) -> Result<FoundTable<'_>, String> {
        let mut found = FoundTable {
            item: self.document.as_item(),
            depth: 0,
            section_depth: 0,
            braces: None,
            is_whole: true,
        };
        for part in path {
            let Some(next) = found.item.as_table_like().and_then(|table| table.get(part)) else {
                found.is_whole = false;
                break;
            };
            if !next.is_table_like() {
                return Err((*part).to_owned());
            }
            found.item = next;
            found.depth += 1;
            match next {
                Item::Table(_) if !is_dotted(next) => found.section_depth = found.depth,
                Item::Value(_) if !is_dotted(next) => found.braces = Some((next, found.depth)),
                Item::Table(_) | Item::Value(_) | Item::None | Item::ArrayOfTables(_) => {}
            }
        }
        Ok(found)
    }

    /// Returns the change that adds a key; `None` if the layout is not supported.
    pub(super) fn insertion(&self, path: &[&str], key: &str, value: &str) -> Option<Change> {
        let found = self.table_at(path).ok()?;
        let assignment = |from: usize| {
            let parts = path.iter().skip(from).chain([&key]);
            let name: Vec<String> = parts.map(|part| Key::new(*part).to_string()).collect();
            format!("{} = {value}", name.join("."))
        };
        if let Some((braces, depth)) = found.braces {
            return self.insertion_in_braces(braces, &assignment(depth));
        }
        let table = found.item.as_table()?;
        if table.is_dotted() {
            return self.insertion_after(last_end(table)?, &assignment(found.section_depth));
        }
        if !found.is_whole || table.is_implicit() {
            let header: Vec<String> = path.iter().map(|part| Key::new(*part).to_string()).collect();
            let section = [format!("[{}]", header.join(".")), assignment(path.len())];
            return Some(self.insertion_at_end(&section));
        }
        match last_end(table) {
            Some(end) => self.insertion_after(end, &assignment(path.len())),
            None if found.depth > 0 => self.insertion_after(table.span()?.end, &assignment(path.len())),
            None => Some(self.insertion_at_top(&assignment(0))),
        }
    }

    /// Adds a line below the one in which a value or a header ends, indented as that one.
    fn insertion_after(&self, end: usize, assignment: &str) -> Option<Change> {
        let (line, next) = (self.line_start(end), self.line_end(end));
        let above = self.text.get(line..next)?;
        let indent = above.len() - above.trim_start_matches([' ', '\t']).len();
        let indent =
            above.get(..indent).filter(|_| !above.trim_start().starts_with(['"', '\'', ']', '}', '#']));
        let (newline, indent) = (self.newline(), indent.unwrap_or_default());
        Some(Change::inserting(
            next,
            match above.ends_with('\n') {
                true => format!("{indent}{assignment}{newline}"),
                false => format!("{newline}{indent}{assignment}{newline}"),
            },
        ))
    }

    /// Adds a line at the top level of a text without any: below the comment that begins the file.
    fn insertion_at_top(&self, assignment: &str) -> Change {
        let newline = self.newline();
        let start = self.start();
        let body = self.text.get(start..).unwrap_or_default();
        let comment: usize =
            body.split_inclusive('\n').take_while(|line| line.starts_with('#')).map(str::len).sum();
        let (head, rest) = body.split_at_checked(comment).unwrap_or((body, ""));
        let blank = rest.split_inclusive('\n').next().filter(|line| line.trim().is_empty());
        let end_of_head = if head.is_empty() || head.ends_with('\n') { "" } else { newline };
        let is_of_file = !head.is_empty() && (blank.is_some() || rest.is_empty());
        let (at, before) = match (is_of_file, blank) {
            (true, Some(blank)) => (start + comment + blank.len(), String::new()),
            (true, None) => (start + comment, format!("{end_of_head}{newline}")),
            (false, _) => (start, String::new()),
        };
        let below = self.text.get(at..).unwrap_or_default();
        let is_apart = below.is_empty() || below.starts_with(['\n', '\r']);
        let after = if is_apart { "" } else { newline };
        Change::inserting(at, format!("{before}{assignment}{newline}{after}"))
    }

    fn insertion_at_end(&self, lines: &[String]) -> Change {
        let newline = self.newline();
        let gap = match self.text {
            text if text.trim_start_matches(BYTE_ORDER_MARK).is_empty() => String::new(),
            text if text.ends_with("\n\n") || text.ends_with("\n\r\n") => String::new(),
            text if text.ends_with('\n') => newline.to_owned(),
            _ => [newline, newline].concat(),
        };
        let lines: String = lines.iter().flat_map(|line| [line.as_str(), newline]).collect();
        Change::inserting(self.text.len(), gap + &lines)
    }

    fn insertion_in_braces(&self, braces: &Item, assignment: &str) -> Option<Change> {
        match last_end(braces.as_table_like()?) {
            Some(end) => Some(Change::inserting(end, format!(", {assignment}"))),
            None => {
                let inside = inside_braces(braces)?;
                let is_blank = self.text.get(inside.clone())?.trim().is_empty();
                Some(match is_blank {
                    true => Change::replacing(inside, format!(" {assignment} ")),
                    // Comments alone.
                    false => Change::inserting(inside.start, format!(" {assignment}")),
                })
            }
        }
    }

    /// Returns the changes that remove an entry of a table, in the order of the text.
    pub(super) fn removal(&self, found: &FoundTable<'_>, key: &str) -> Vec<Change> {
        let Some(child) = found.child(key) else { return Vec::new() };
        if let Some((braces, _)) = found.braces {
            return self.removal_in_braces(braces, &child).into_iter().collect();
        }
        let mut spans = Vec::new();
        self.collect_lines(child.key, child.item, &mut spans);
        Change::removing_all(spans)
    }

    /// Collects the lines of an entry, with the comments directly above them.
    fn collect_lines(&self, key: &Key, item: &Item, spans: &mut Vec<Range<usize>>) {
        match item {
            Item::Value(value) => {
                if let (Some(key), Some(value)) = (key.span(), value.span()) {
                    spans.push(self.lines_of(key.start, value.end));
                }
            }
            Item::Table(table) if table.is_dotted() => self.collect_entries(table, spans),
            Item::Table(table) => self.collect_section(table, spans),
            Item::ArrayOfTables(tables) => {
                tables.iter().for_each(|table| self.collect_section(table, spans));
            }
            Item::None => {}
        }
    }

    fn collect_entries(&self, table: &toml_edit::Table, spans: &mut Vec<Range<usize>>) {
        for (name, item) in table {
            if let Some(key) = table.key(name) {
                self.collect_lines(key, item, spans);
            }
        }
    }

    /// Collects the section of a header, and the sections below it.
    fn collect_section(&self, table: &toml_edit::Table, spans: &mut Vec<Range<usize>>) {
        if let Some(header) = table.span() {
            let end = last_end(table).unwrap_or(header.end).max(header.end);
            spans.push(self.lines_of(header.start, end));
        }
        self.collect_entries(table, spans);
    }

    fn removal_in_braces(&self, braces: &Item, child: &Child<'_>) -> Option<Change> {
        let inside = inside_braces(braces)?;
        let (key, value) = (child.key.span()?, child.value_span()?);
        // A dotted key begins before its last part.
        let before = self.text.get(inside.start..key.start)?;
        let start = inside.start + before.rfind(['{', ',', '\n']).map_or(0, |at| at + 1);
        let blank = self.text.get(start..key.start)?;
        let start = start + (blank.len() - blank.trim_start().len());
        let after = self.text.get(value.end..inside.end)?;
        let rest = after.trim_start();
        if let Some(rest) = rest.strip_prefix(',') {
            let end = inside.end - rest.trim_start_matches([' ', '\t']).len();
            return Some(Change::removing(start..end));
        }
        let before = self.text.get(inside.start..start)?;
        if before.trim().is_empty() && rest.is_empty() {
            return Some(Change::removing(inside));
        }
        let start = match before.trim_end().strip_suffix(',') {
            Some(left) if !before.get(left.len()..)?.contains('\n') => inside.start + left.len(),
            Some(_) | None => start,
        };
        Some(Change::removing(start..value.end))
    }

    /// Lines from the one with the byte `start` to the one with the byte `end`, and the comment lines directly above
    /// them, unless these begin the file.
    fn lines_of(&self, start: usize, end: usize) -> Range<usize> {
        let first = self.line_start(start);
        let floor = self.end_before(first);
        let mut top = first;
        while top > floor {
            let above = self.line_start(top - 1);
            let is_comment = self.text.get(above..top).is_some_and(|line| line.trim_start().starts_with('#'));
            if !is_comment || above < floor {
                break;
            }
            top = above;
        }
        let top = if top == self.start() { first } else { top };
        top..self.line_end(end)
    }

    /// End of the line of the last value or header that ends before the byte `limit`.
    fn end_before(&self, limit: usize) -> usize {
        let mut ends = Vec::new();
        collect_ends(self.document.as_table(), &mut ends);
        ends.into_iter().filter(|end| *end <= limit && *end > 0).max().map_or(0, |end| self.line_end(end))
    }

    fn line_start(&self, at: usize) -> usize {
        let newline = self.text.get(..at).and_then(|before| before.rfind('\n'));
        newline.map_or(self.start(), |newline| newline + 1)
    }

    /// First byte behind the byte order mark, if there is one.
    fn start(&self) -> usize {
        self.text.len() - self.text.trim_start_matches(BYTE_ORDER_MARK).len()
    }

    /// Byte after the end of the line in which the byte `at` is.
    fn line_end(&self, at: usize) -> usize {
        let rest = self.text.get(at..).and_then(|after| after.find('\n'));
        rest.map_or(self.text.len(), |newline| at + newline + 1)
    }

    fn newline(&self) -> &'static str {
        match self.text.find('\n').and_then(|at| self.text.get(..at)) {
            Some(line) if line.ends_with('\r') => "\r\n",
            Some(_) | None => "\n",
        }
    }
}

/// Bytes between the braces of an inline table.
fn inside_braces(braces: &Item) -> Option<Range<usize>> {
    let span = braces.span()?;
    Some(span.start + 1..span.end.checked_sub(1)?)
}

/// Whether a table exists by dotted keys alone.
fn is_dotted(item: &Item) -> bool {
    match item {
        Item::Table(table) => table.is_dotted(),
        Item::Value(value) => value.as_inline_table().is_some_and(toml_edit::InlineTable::is_dotted),
        Item::None | Item::ArrayOfTables(_) => false,
    }
}

/// End of the last value that stands in a table itself, or below a dotted key of it.
fn last_end(table: &dyn TableLike) -> Option<usize> {
    let end = |item: &Item| match item {
        item if is_dotted(item) => item.as_table_like().and_then(last_end),
        Item::Value(value) => value.span().map(|span| span.end),
        Item::Table(_) | Item::ArrayOfTables(_) | Item::None => None,
    };
    table.iter().filter_map(|(_, item)| end(item)).max()
}

/// Collects the ends of all values and headers.
fn collect_ends(table: &toml_edit::Table, ends: &mut Vec<usize>) {
    ends.extend(table.span().map(|span| span.end));
    for (_, item) in table {
        match item {
            Item::Value(value) => ends.extend(value.span().map(|span| span.end)),
            Item::Table(table) => collect_ends(table, ends),
            Item::ArrayOfTables(tables) => tables.iter().for_each(|table| collect_ends(table, ends)),
            Item::None => {}
        }
    }
}

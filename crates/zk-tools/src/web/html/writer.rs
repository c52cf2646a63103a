use reqwest::Url;

/// Maximum number of levels of lists and quotes that are rendered.
const MAX_NESTING_DEPTH: usize = 12;

/// Maximum number of columns of a table that is rendered as one; wider tables are for layout.
const MAX_COLUMNS: usize = 20;

/// Fence longer than every run of backticks in `text`, found in one pass, since untrusted pages may have long
/// runs.
fn fence_around(text: &str) -> String {
    let (mut run, mut longest) = (0, 0);
    for byte in text.bytes() {
        run = if byte == b'`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    "`".repeat(3.max(longest + 1))
}

/// Writer of Markdown, block by block.
pub(super) struct Writer<'a> {
    base: &'a Url,
    out: String,
    /// Text of the current block.
    line: String,
    /// Prefix of the block's first line.
    before: String,
    /// Enclosing lists, with the number of the current item in ordered ones.
    lists: Vec<Option<u32>>,
    quotes: usize,
    /// Bullet or number of an item without text yet.
    bullet: Option<String>,
    /// Whether the last block was in a list, so that the next item follows without a blank line.
    in_list: bool,
    /// Open marks with their position in the line.
    marks: Vec<(&'static str, usize)>,
    /// Open link with its position in the line.
    link: Option<(String, usize)>,
    /// Preformatted text with the name of its language.
    pre: Option<(String, String)>,
    in_code: bool,
    tables: Vec<Vec<Vec<String>>>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(base: &'a Url) -> Self {
        Self {
            base,
            out: String::new(),
            line: String::new(),
            before: String::new(),
            lists: Vec::new(),
            quotes: 0,
            bullet: None,
            in_list: false,
            marks: Vec::new(),
            link: None,
            pre: None,
            in_code: false,
            tables: Vec::new(),
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.end_pre();
        while !self.tables.is_empty() {
            self.end_table();
        }
        self.end_block();
        self.out
    }

    pub(super) fn write_text(&mut self, text: &str) {
        if let Some((pre, _)) = &mut self.pre {
            pre.push_str(text);
            return;
        }
        for c in text.chars() {
            if c.is_whitespace() {
                if !self.line.is_empty() && !self.line.ends_with([' ', '\n']) {
                    self.line.push(' ');
                }
            } else if !c.is_control() {
                self.line.push(c);
            }
        }
    }

    /// Ends the current block.
    pub(super) fn end_block(&mut self) {
        if let Some((pre, _)) = &mut self.pre {
            if !pre.is_empty() && !pre.ends_with('\n') {
                pre.push('\n');
            }
            return;
        }
        while let Some((mark, _)) = self.marks.last() {
            let mark = *mark;
            self.end_mark(mark);
        }
        self.link = None;
        self.end_code();
        let text = std::mem::take(&mut self.line);
        let before = std::mem::take(&mut self.before);
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if let Some(row) = self.tables.last_mut().and_then(|rows| rows.last_mut()) {
            if let Some(cell) = row.last_mut() {
                if !cell.is_empty() {
                    cell.push(' ');
                }
                cell.push_str(&text.replace('\n', " "));
            }
            return;
        }
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        self.write_block(&before, &lines);
    }

    /// Writes a block with its quote markers, bullet and indent.
    fn write_block(&mut self, before: &str, lines: &[&str]) {
        let is_item = self.bullet.is_some();
        let quote = "> ".repeat(self.quotes.min(MAX_NESTING_DEPTH));
        if !self.out.is_empty() {
            self.out.push('\n');
            if !(is_item && self.in_list) {
                self.out.push_str(quote.trim_end());
                self.out.push('\n');
            }
        }
        let depth = self.lists.len().min(MAX_NESTING_DEPTH);
        let outer = "  ".repeat(depth.saturating_sub(1));
        for (line, number) in lines.iter().zip(0..) {
            let start = match (number, self.bullet.take()) {
                (0, Some(bullet)) => format!("{outer}{bullet} "),
                (_, _) => "  ".repeat(depth),
            };
            let before = if number == 0 { before } else { "" };
            if number > 0 {
                self.out.push('\n');
            }
            let row = format!("{quote}{start}{before}{line}");
            self.out.push_str(row.trim_end());
        }
        self.in_list = depth > 0;
    }

    pub(super) fn begin_heading(&mut self, level: usize) {
        self.end_block();
        self.before = format!("{} ", "#".repeat(level));
    }

    pub(super) fn write_rule(&mut self) {
        self.end_block();
        if self.pre.is_none() && self.tables.is_empty() {
            self.write_block("", &["---"]);
        }
    }

    pub(super) fn line_break(&mut self) {
        match &mut self.pre {
            Some((pre, _)) => pre.push('\n'),
            None => {
                let kept = self.line.trim_end_matches(' ').len();
                self.line.truncate(kept);
                self.line.push('\n');
            }
        }
    }

    pub(super) fn begin_list(&mut self, is_ordered: bool) {
        self.end_block();
        // A nested list in an item without text.
        self.lists.push(is_ordered.then_some(0));
    }

    pub(super) fn end_list(&mut self) {
        self.end_block();
        self.lists.pop();
        self.bullet = None;
    }

    pub(super) fn begin_item(&mut self) {
        self.end_block();
        self.bullet = Some(match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{number}.")
            }
            Some(None) | None => "-".to_owned(),
        });
    }

    pub(super) fn begin_quote(&mut self) {
        self.end_block();
        self.quotes += 1;
    }

    pub(super) fn end_quote(&mut self) {
        self.end_block();
        self.quotes = self.quotes.saturating_sub(1);
    }

    pub(super) fn begin_pre(&mut self, language: &str) {
        self.end_block();
        if self.pre.is_none() {
            self.pre = Some((String::new(), language.to_owned()));
        }
    }

    pub(super) fn end_pre(&mut self) {
        let Some((text, language)) = self.pre.take() else { return };
        let text = text.trim_matches('\n');
        if text.trim().is_empty() {
            return;
        }
        if !self.tables.is_empty() {
            self.write_text(text);
            return;
        }
        let fence = fence_around(text);
        let opening = format!("{fence}{language}");
        let lines: Vec<&str> =
            std::iter::once(opening.as_str()).chain(text.lines()).chain([fence.as_str()]).collect();
        self.write_block("", &lines);
    }

    pub(super) fn begin_code(&mut self, language: &str) {
        match &mut self.pre {
            Some((_, known)) if known.is_empty() => language.clone_into(known),
            Some(_) => {}
            None if !self.in_code => {
                self.in_code = true;
                self.line.push('`');
            }
            None => {}
        }
    }

    pub(super) fn end_code(&mut self) {
        if self.pre.is_none() && self.in_code {
            self.in_code = false;
            if self.line.ends_with('`') {
                self.line.pop();
            } else {
                self.line.push('`');
            }
        }
    }

    pub(super) fn begin_mark(&mut self, mark: &'static str) {
        if self.pre.is_none() && !self.in_code && self.marks.iter().all(|(open, _)| *open != mark) {
            self.line.push_str(mark);
            self.marks.push((mark, self.line.len()));
        }
    }

    /// Ends a mark and those nested in it.
    pub(super) fn end_mark(&mut self, mark: &str) {
        if self.pre.is_some() || self.marks.iter().all(|(open, _)| *open != mark) {
            return;
        }
        while let Some((open, from)) = self.marks.pop() {
            let marked = self.line.get(from..).unwrap_or_default();
            if marked.trim().is_empty() {
                self.line.truncate(from.saturating_sub(open.len()));
            } else {
                let kept = self.line.trim_end().len();
                let had_space = kept < self.line.len();
                self.line.truncate(kept);
                self.line.push_str(open);
                if had_space {
                    self.line.push(' ');
                }
            }
            if open == mark {
                return;
            }
        }
    }

    pub(super) fn begin_link(&mut self, href: &str) {
        self.end_link();
        let href = href.trim();
        let is_page = !href.is_empty() && !href.starts_with('#');
        let target =
            self.base.join(href).ok().filter(|target| matches!(target.scheme(), "http" | "https" | "mailto"));
        if let Some(target) = target.filter(|_| is_page && self.pre.is_none() && !self.in_code) {
            self.link = Some((target.to_string(), self.line.len()));
        }
    }

    pub(super) fn end_link(&mut self) {
        let Some((target, from)) = self.link.take() else { return };
        let text = self.line.get(from..).unwrap_or_default().trim();
        // A mark that began before the link ends inside of it.
        if text.is_empty() || self.marks.iter().any(|(_, at)| *at > from) {
            return;
        }
        let had_space = self.line.ends_with(' ');
        let linked = if text == target { format!("<{target}>") } else { format!("[{text}]({target})") };
        let leading = self.line.get(from..).is_some_and(|text| text.starts_with(' '));
        self.line.truncate(from);
        if leading {
            self.line.push(' ');
        }
        self.line.push_str(&linked);
        if had_space {
            self.line.push(' ');
        }
    }

    pub(super) fn write_image(&mut self, alt: &str, src: &str) {
        let alt = alt.split_whitespace().collect::<Vec<_>>().join(" ");
        if alt.is_empty() || self.pre.is_some() {
            return;
        }
        let target = self.base.join(src).ok().filter(|target| matches!(target.scheme(), "http" | "https"));
        let image = match target.filter(|_| !src.is_empty() && self.link.is_none()) {
            Some(target) => format!("![{alt}]({target})"),
            None => format!("[image: {alt}]"),
        };
        self.line.push_str(&image);
    }

    pub(super) fn begin_table(&mut self) {
        self.end_block();
        if self.pre.is_none() && self.tables.len() < MAX_NESTING_DEPTH {
            self.tables.push(Vec::new());
        }
    }

    pub(super) fn begin_row(&mut self) {
        self.end_block();
        if let Some(rows) = self.tables.last_mut() {
            rows.push(Vec::new());
        }
    }

    pub(super) fn begin_cell(&mut self) {
        self.end_block();
        if let Some(rows) = self.tables.last_mut() {
            if rows.is_empty() {
                rows.push(Vec::new());
            }
            if let Some(row) = rows.last_mut() {
                row.push(String::new());
            }
        }
    }

    pub(super) fn end_table(&mut self) {
        self.end_block();
        let Some(mut rows) = self.tables.pop() else { return };
        rows.retain(|row| row.iter().any(|cell| !cell.is_empty()));
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        if rows.len() < 2 || !(2..=MAX_COLUMNS).contains(&columns) || !self.tables.is_empty() {
            // A layout table, or a nested one: its texts in order.
            for cell in rows.into_iter().flatten().filter(|cell| !cell.is_empty()) {
                self.line = cell;
                self.end_block();
            }
            return;
        }
        let drawn = |row: &Vec<String>| {
            let cells =
                (0..columns).map(|at| row.get(at).map(|cell| cell.replace('|', "\\|")).unwrap_or_default());
            format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
        };
        let mut lines: Vec<String> = rows.iter().map(drawn).collect();
        lines.insert(1, format!("|{}", " --- |".repeat(columns)));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        self.write_block("", &lines);
    }
}

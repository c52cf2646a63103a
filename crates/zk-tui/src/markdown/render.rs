use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::highlight::Highlighter;
use super::table::Table;
use crate::row::{Row, Span, Style, Tone};
use crate::text::wrap;

/// List item that a block is, or is the rest of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Item {
    /// Number of the item in an ordered list.
    pub(super) ordinal: Option<u64>,
    /// Whether the block is the rest of an item whose marker is drawn already.
    pub(super) is_rest: bool,
}

/// Rows of one block, with a margin except for code.
pub(super) fn render(source: &str, width: usize, margin: &'static str, item: Item) -> Vec<Row> {
    let mut renderer = Renderer { width, margin, item, ..Renderer::default() };
    Parser::new_ext(source, options()).for_each(|event| renderer.handle_event(event));
    renderer.end_line();
    renderer.rows
}

/// Table at the beginning of a text; `None` if there is none.
pub(super) fn table_of(source: &str) -> Option<Table> {
    let mut renderer = Renderer::default();
    for event in Parser::new_ext(source, options()) {
        if event == Event::End(TagEnd::Table) {
            return renderer.table.take();
        }
        renderer.handle_event(event);
        renderer.table.as_ref()?;
    }
    None
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

#[derive(Default)]
struct Renderer {
    width: usize,
    /// Blanks before each row of prose.
    margin: &'static str,
    item: Item,
    rows: Vec<Row>,
    line: Row,
    /// Edges before each row, outermost first.
    edges: Vec<Edge>,
    lists: Vec<Option<u64>>,
    styles: Vec<Style>,
    links: Vec<Link>,
    table: Option<Table>,
    /// Highlighter of the open code block.
    code: Option<Highlighter>,
    /// Whether a blank row precedes the next paragraph.
    is_apart: bool,
}

/// Prefix of the rows of a list item or a quote.
struct Edge {
    first: Option<Row>,
    rest: Row,
}

struct Link {
    target: String,
    text: String,
}

impl Renderer {
    fn handle_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start_tag(tag),
            Event::End(end) => self.end_tag(end),
            Event::Text(text) if self.code.is_some() => {
                for line in text.lines() {
                    self.code_row(line);
                }
            }
            Event::Text(text) => self.push_text(&text, self.style()),
            Event::Code(text) => self.push_text(&text, Style { tone: Tone::Cyan, ..self.style() }),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.push_text(&text, self.style()),
            Event::Html(text) | Event::InlineHtml(text) => {
                for (at, line) in text.lines().enumerate() {
                    if at > 0 {
                        self.end_line();
                    }
                    self.push_text(line, self.style());
                }
            }
            Event::FootnoteReference(name) => self.push_text(&format!("[{name}]"), self.style()),
            Event::SoftBreak => self.push_text(" ", self.style()),
            Event::HardBreak if self.table.is_some() => self.push_text(" ", self.style()),
            Event::HardBreak => self.end_line(),
            Event::Rule => {
                self.end_line();
                let line = "─".repeat(self.width.saturating_sub(self.margin.len()).min(40));
                self.line = Row::of(Style::DIM, &line);
                self.end_line();
            }
            Event::TaskListMarker(done) => {
                self.push_task_marker(if done { "☑ " } else { "☐ " });
            }
        }
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.begin_paragraph(),
            Tag::Heading { level, .. } => {
                self.begin_paragraph();
                let underline = (level as usize) < 3;
                self.styles.push(Style { underline, ..Style::BOLD });
            }
            Tag::BlockQuote(_) => {
                self.begin_paragraph();
                let edge = Row::of(Style::DIM, "│ ");
                self.edges.push(Edge { first: None, rest: edge });
            }
            Tag::CodeBlock(kind) => {
                self.begin_paragraph();
                self.code = Some(match kind {
                    CodeBlockKind::Fenced(info) => {
                        self.is_apart = false;
                        Highlighter::of(&info)
                    }
                    CodeBlockKind::Indented => Highlighter::default(),
                });
            }
            Tag::List(number) => {
                self.end_line();
                let number = match (self.lists.is_empty(), number) {
                    (true, Some(number)) => Some(self.item.ordinal.unwrap_or(number)),
                    (_, number) => number,
                };
                self.lists.push(number);
                self.is_apart = false;
            }
            Tag::Item => self.begin_item(),
            Tag::Table(alignments) => {
                self.end_line();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::Emphasis => self.change_style(|style| Style { italic: true, ..style }),
            Tag::Strong => self.change_style(|style| Style { bold: true, ..style }),
            Tag::Strikethrough => self.change_style(|style| Style { strike: true, ..style }),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push(Link { target: dest_url.into_string(), text: String::new() });
                self.change_style(|style| Style { underline: true, ..style });
            }
            Tag::HtmlBlock => self.begin_paragraph(),
            Tag::TableCell
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end_tag(&mut self, end: TagEnd) {
        match end {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.end_line();
                self.is_apart = true;
            }
            TagEnd::Heading(_) => {
                self.end_line();
                self.styles.pop();
                self.is_apart = true;
            }
            TagEnd::BlockQuote(_) => {
                self.end_line();
                self.edges.pop();
                self.is_apart = true;
            }
            TagEnd::CodeBlock => {
                self.code = None;
                self.is_apart = true;
            }
            TagEnd::List(_) => {
                self.end_line();
                self.lists.pop();
            }
            TagEnd::Item => {
                self.end_line();
                // An empty item still has its marker.
                if self.edges.last().is_some_and(|edge| edge.first.is_some()) {
                    self.push_row(&Row::default());
                }
                self.edges.pop();
                self.is_apart = false;
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.line);
                if let Some(table) = &mut self.table {
                    table.push(cell);
                }
            }
            TagEnd::Table => {
                let room = self.width.saturating_sub(self.edge_columns());
                for row in self.table.take().map(|table| table.rows(room)).unwrap_or_default() {
                    self.push_row(&row);
                }
                self.is_apart = true;
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::TableHead
            | TagEnd::TableRow
            | TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    /// Writes the target of a link after its text if they differ, so that nobody opens an unseen address.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some(link) = self.links.pop() else { return };
        let target = link.target.strip_prefix("mailto:").unwrap_or(&link.target);
        if link.text != link.target && link.text != target && !target.is_empty() {
            let mut span = Span::new(Style::DIM, &format!(" ({target})"));
            span = span.linked(&link.target);
            self.line.push(span);
        }
    }

    fn begin_paragraph(&mut self) {
        self.end_line();
        let is_first = self.edges.last().is_some_and(|edge| edge.first.is_some());
        if std::mem::take(&mut self.is_apart) && !is_first && !self.rows.is_empty() {
            self.push_row(&Row::default());
        }
    }

    fn begin_item(&mut self) {
        self.end_line();
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            Some(None) | None => "• ".to_owned(),
        };
        let mark = Row::of(Style::PLAIN, &mark);
        let rest = Row::of(Style::PLAIN, &" ".repeat(mark.columns()));
        let first = if std::mem::take(&mut self.item.is_rest) { rest.clone() } else { mark };
        self.edges.push(Edge { first: Some(first), rest });
    }

    /// Replaces the bullet of an item by the marker of a task; a number stays before it.
    fn push_task_marker(&mut self, mark: &str) {
        let is_bullet = matches!(self.lists.last(), Some(None));
        match self.edges.last_mut().and_then(|edge| edge.first.as_mut()) {
            Some(first) if is_bullet => *first = Row::of(Style::PLAIN, mark),
            Some(_) | None => self.push_text(mark, self.style()),
        }
    }

    fn change_style(&mut self, change: impl Fn(Style) -> Style) {
        self.styles.push(change(self.style()));
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push_text(&mut self, text: &str, style: Style) {
        let mut span = Span::new(style, text);
        if let Some(link) = self.links.last_mut() {
            link.text.push_str(text);
            span = span.linked(&link.target);
        }
        self.line.push(span);
    }

    /// Ends the current line.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.spans().is_empty() {
            return;
        }
        let (first, rest) = self.take_edges();
        self.rows.extend(wrap(&line, &first, &rest, self.width));
    }

    fn code_row(&mut self, line: &str) {
        let row = self.code.get_or_insert_default().line(line);
        if self.edges.is_empty() {
            self.rows.push(row);
        } else {
            self.push_row(&row);
        }
    }

    /// Appends a row without wrapping it.
    fn push_row(&mut self, row: &Row) {
        let (mut first, _) = self.take_edges();
        first.append(row);
        self.rows.push(first);
    }

    /// Prefixes of the next row and of the rows after it.
    fn take_edges(&mut self) -> (Row, Row) {
        let margin = if self.margin.is_empty() { Row::default() } else { Row::of(Style::PLAIN, self.margin) };
        let (mut first, mut rest) = (margin.clone(), margin);
        for edge in &mut self.edges {
            first.append(&edge.first.take().unwrap_or_else(|| edge.rest.clone()));
            rest.append(&edge.rest);
        }
        (first, rest)
    }

    fn edge_columns(&self) -> usize {
        self.margin.len() + self.edges.iter().map(|edge| edge.rest.columns()).sum::<usize>()
    }
}

use std::fmt::Write as _;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use zk_view::{CodeLexer, CodeToken};

use super::escape::push_text;

/// Schemes of links that a page may have.
const SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];

/// Appends Markdown as HTML. HTML in it is shown as text, and images become links.
pub(super) fn push_markdown(out: &mut String, text: &str) {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer { out, code: None, links: Vec::new(), cells: None };
    for event in Parser::new_ext(text, options) {
        writer.handle_event(event);
    }
}

/// Appends code with colours.
pub(super) fn push_code(out: &mut String, info: &str, code: &str) {
    let mut lexer = CodeLexer::of(info);
    for line in code.lines() {
        for (token, part) in lexer.line(line) {
            let class = match token {
                CodeToken::Plain | CodeToken::Unknown => {
                    push_text(out, part);
                    continue;
                }
                CodeToken::Comment => "c",
                CodeToken::String => "s",
                CodeToken::Number => "n",
                CodeToken::Keyword => "k",
                CodeToken::Added => "a",
                CodeToken::Removed => "r",
                CodeToken::Hunk => "h",
            };
            let _ = write!(out, "<span class=\"{class}\">");
            push_text(out, part);
            out.push_str("</span>");
        }
        out.push('\n');
    }
}

struct Writer<'o> {
    out: &'o mut String,
    /// Language and text of the open code block.
    code: Option<(String, String)>,
    /// Whether each open link was written as a link, outermost first.
    links: Vec<bool>,
    /// Open table: column alignments, index of the current cell, and whether the row is the head.
    cells: Option<(Vec<Alignment>, usize, bool)>,
}

impl Writer<'_> {
    fn handle_event(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => push_text(self.out, &text),
            },
            Event::Code(text) => self.push_element("code", &text),
            Event::Html(text) | Event::InlineHtml(text) => push_text(self.out, &text),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.push_element("code", &text),
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::TaskListMarker(is_done) => self.out.push_str(if is_done { "☑ " } else { "☐ " }),
            Event::FootnoteReference(name) => push_text(self.out, &name),
            Event::Start(tag) => self.start_tag(tag),
            Event::End(tag) => self.end_tag(tag),
        }
    }

    fn push_element(&mut self, tag: &str, text: &str) {
        let _ = write!(self.out, "<{tag}>");
        push_text(self.out, text);
        let _ = write!(self.out, "</{tag}>");
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.out.push_str("<p>"),
            Tag::Heading { level, .. } => {
                let _ = write!(self.out, "<h{}>", heading_level(level));
            }
            Tag::BlockQuote(_) => self.out.push_str("<blockquote>"),
            Tag::CodeBlock(kind) => {
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((info, String::new()));
            }
            Tag::List(Some(first)) => {
                let _ = write!(self.out, "<ol start=\"{first}\">");
            }
            Tag::List(None) => self.out.push_str("<ul>"),
            Tag::Item => self.out.push_str("<li>"),
            Tag::Table(alignments) => {
                self.cells = Some((alignments, 0, false));
                self.out.push_str("<div class=\"table\"><table>");
            }
            Tag::TableHead => self.start_row(true),
            Tag::TableRow => self.start_row(false),
            Tag::TableCell => {
                let Some((alignments, at, is_head)) = &mut self.cells else { return };
                let class = match alignments.get(*at) {
                    Some(Alignment::Right) => " class=\"right\"",
                    Some(Alignment::Center) => " class=\"center\"",
                    Some(Alignment::Left | Alignment::None) | None => "",
                };
                *at += 1;
                let tag = if *is_head { "th" } else { "td" };
                let _ = write!(self.out, "<{tag}{class}>");
            }
            Tag::Emphasis => self.out.push_str("<em>"),
            Tag::Strong => self.out.push_str("<strong>"),
            Tag::Strikethrough => self.out.push_str("<del>"),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                let lower = dest_url.to_ascii_lowercase();
                let is_link = SCHEMES.iter().any(|scheme| lower.starts_with(scheme));
                if is_link {
                    self.out.push_str("<a rel=\"noopener noreferrer nofollow\" href=\"");
                    push_text(self.out, &dest_url);
                    self.out.push_str("\">");
                }
                self.links.push(is_link);
            }
            Tag::HtmlBlock => self.out.push_str("<p>"),
            Tag::Superscript
            | Tag::Subscript
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn start_row(&mut self, is_head: bool) {
        if let Some((_, at, head)) = &mut self.cells {
            (*at, *head) = (0, is_head);
        }
        self.out.push_str("<tr>");
    }

    fn end_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.out.push_str("</p>"),
            TagEnd::Heading(level) => {
                let _ = write!(self.out, "</h{}>", heading_level(level));
            }
            TagEnd::BlockQuote(_) => self.out.push_str("</blockquote>"),
            TagEnd::CodeBlock => {
                let Some((info, code)) = self.code.take() else { return };
                self.out.push_str("<pre class=\"code\"><code>");
                push_code(self.out, &info, &code);
                self.out.push_str("</code></pre>");
            }
            TagEnd::List(true) => self.out.push_str("</ol>"),
            TagEnd::List(false) => self.out.push_str("</ul>"),
            TagEnd::Item => self.out.push_str("</li>"),
            TagEnd::Table => {
                self.cells = None;
                self.out.push_str("</table></div>");
            }
            TagEnd::TableHead | TagEnd::TableRow => self.out.push_str("</tr>"),
            TagEnd::TableCell => {
                let is_head = self.cells.as_ref().is_some_and(|(_, _, is_head)| *is_head);
                self.out.push_str(if is_head { "</th>" } else { "</td>" });
            }
            TagEnd::Emphasis => self.out.push_str("</em>"),
            TagEnd::Strong => self.out.push_str("</strong>"),
            TagEnd::Strikethrough => self.out.push_str("</del>"),
            TagEnd::Link | TagEnd::Image => {
                if self.links.pop().unwrap_or_default() {
                    self.out.push_str("</a>");
                }
            }
            TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::MetadataBlock(_) => {}
        }
    }
}

/// Level of a heading in a page, whose title is the heading of level 1.
fn heading_level(level: HeadingLevel) -> usize {
    (level as usize + 2).min(6)
}

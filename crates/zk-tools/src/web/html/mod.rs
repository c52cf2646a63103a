//! Conversion of HTML to Markdown: text, structure and links, in a single pass. Invalid HTML is treated as
//! text.

mod entities;
mod tokens;
mod writer;

use reqwest::Url;

use tokens::{Tag, Token, Tokens};
use writer::Writer;

/// Converted page.
pub(super) struct Markdown {
    pub(super) title: Option<String>,
    pub(super) text: String,
}

/// Elements whose content is skipped.
const UNREAD: [&str; 12] = [
    "audio", "button", "canvas", "datalist", "dialog", "iframe", "noscript", "object", "select", "svg",
    "template", "video",
];

/// Block elements.
const BLOCKS: [&str; 27] = [
    "address",
    "article",
    "aside",
    "body",
    "caption",
    "center",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hgroup",
    "legend",
    "main",
    "nav",
    "p",
    "search",
    "section",
    "summary",
    "tbody",
    "thead",
];

/// Converts a page to Markdown. Links are resolved against `base`.
pub(super) fn to_markdown(html: &str, base: &Url) -> Markdown {
    let mut writer = Writer::new(base);
    let mut title: Option<String> = None;
    // Name of the skipped element, and its nesting depth.
    let mut unread: Option<(String, usize)> = None;
    for token in Tokens::new(html) {
        if let Some((name, depth)) = &mut unread {
            match token {
                Token::Start(tag) if tag.name == *name && !tag.is_closed => *depth += 1,
                Token::End(end) if end == *name => {
                    *depth -= 1;
                    if *depth == 0 {
                        unread = None;
                    }
                }
                Token::Start(_) | Token::End(_) | Token::Text(_) | Token::Raw { .. } => {}
            }
            continue;
        }
        match token {
            Token::Text(text) => writer.write_text(&entities::decode(text)),
            Token::Raw { name, text } if name == "title" => {
                let text = entities::decode(text).split_whitespace().collect::<Vec<_>>().join(" ");
                title = title.or(Some(text).filter(|text| !text.is_empty()));
            }
            Token::Raw { name, text } if name == "textarea" => writer.write_text(&entities::decode(text)),
            Token::Raw { .. } => {}
            Token::Start(tag) if UNREAD.contains(&tag.name.as_str()) => {
                if !tag.is_closed {
                    unread = Some((tag.name, 1));
                }
            }
            Token::Start(tag) => start_element(&mut writer, &tag),
            Token::End(name) => end_element(&mut writer, &name),
        }
    }
    Markdown { title, text: writer.finish() }
}

fn start_element(writer: &mut Writer<'_>, tag: &Tag) {
    match tag.name.as_str() {
        "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => writer.begin_heading(heading_level(&tag.name)),
        "br" => writer.line_break(),
        "hr" => writer.write_rule(),
        "ul" | "menu" => writer.begin_list(false),
        "ol" => writer.begin_list(true),
        "li" => writer.begin_item(),
        "blockquote" => writer.begin_quote(),
        "pre" => writer.begin_pre(tag.language()),
        "code" | "kbd" | "samp" | "tt" => writer.begin_code(tag.language()),
        "strong" | "b" => writer.begin_mark("**"),
        "em" | "i" => writer.begin_mark("*"),
        "del" | "s" => writer.begin_mark("~~"),
        "a" => writer.begin_link(tag.value("href")),
        "img" => writer.write_image(tag.value("alt"), tag.value("src")),
        "table" => writer.begin_table(),
        "tr" => writer.begin_row(),
        "td" | "th" => writer.begin_cell(),
        name if BLOCKS.contains(&name) => writer.end_block(),
        _ => {}
    }
}

fn end_element(writer: &mut Writer<'_>, name: &str) {
    match name {
        "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => writer.end_block(),
        "ul" | "ol" | "menu" => writer.end_list(),
        "li" => writer.end_block(),
        "blockquote" => writer.end_quote(),
        "pre" => writer.end_pre(),
        "code" | "kbd" | "samp" | "tt" => writer.end_code(),
        "strong" | "b" => writer.end_mark("**"),
        "em" | "i" => writer.end_mark("*"),
        "del" | "s" => writer.end_mark("~~"),
        "a" => writer.end_link(),
        "table" => writer.end_table(),
        name if BLOCKS.contains(&name) => writer.end_block(),
        _ => {}
    }
}

fn heading_level(name: &str) -> usize {
    name.as_bytes().get(1).map_or(1, |digit| usize::from(digit.saturating_sub(b'0'))).clamp(1, 6)
}

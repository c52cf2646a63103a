use std::fmt::Write as _;

use zk_view::{Content, WholeBlock};

use super::block::push_content;
use super::escape::{dollars, escaped, group_digits, push_text};
use super::image::Images;
use crate::time::show_time;
use crate::{DocumentFacts, Limits};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Digest of the style, one of two that the page's Content-Security-Policy allows. A test computes them.
const STYLE_SHA256: &str = include_str!("page.css.sha256");
const SCRIPT_SHA256: &str = include_str!("page.js.sha256");

/// Maximum length of a prompt in the list of prompts, in characters.
const MAX_HEADING_CHARS: usize = 90;

/// Page that is being written.
#[derive(Debug)]
pub(crate) struct Page {
    limits: Limits,
    images: Images,
    /// First words of the prompts.
    prompts: Vec<String>,
    /// Sub-agent whose blocks are being written.
    agent: Option<String>,
    /// Model of the last answer.
    model: Option<String>,
    blocks: u64,
}

impl Page {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, images: Images::default(), prompts: Vec::new(), agent: None, model: None, blocks: 0 }
    }

    pub(crate) fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Writes the head of the page, above the conversation.
    pub(crate) fn push_head(&mut self, out: &mut String, facts: &DocumentFacts) {
        let title = if facts.title.trim().is_empty() { "Conversation" } else { facts.title.trim() };
        let title = escaped(&title.split_whitespace().collect::<Vec<_>>().join(" "));
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'sha256-{}'; \
             script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\"><meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"generator\" content=\"zk {}\">\n<title>{title}</title>\n<style>{STYLE}</style></head>\n<body>\n",
            STYLE_SHA256.trim(),
            SCRIPT_SHA256.trim(),
            env!("CARGO_PKG_VERSION"),
        );
        out.push_str(
            "<a class=\"skip\" href=\"#talk\">To the conversation</a>\n\
             <header class=\"bar\"><a class=\"name\" href=\"#top\">zk</a>\
             <div class=\"find\" role=\"search\"><input id=\"find\" type=\"search\" placeholder=\"Search\" aria-label=\"Search in the \
             conversation\" autocomplete=\"off\" spellcheck=\"false\"><output id=\"hits\"></output></div>\
             <button id=\"fold\" type=\"button\" title=\"Fold or unfold everything (f)\">Unfold all</button>\
             <button id=\"theme\" type=\"button\" title=\"Light or dark (t)\" aria-label=\"Light or dark\">◐</button></header>\n\
             <div class=\"frame\"><main id=\"top\">\n",
        );
        let _ = write!(out, "<section class=\"about\"><h1>{title}</h1><dl>");
        let mut fact = |name: &str, value: &str| {
            if !value.is_empty() {
                let _ = write!(out, "<div><dt>{name}</dt><dd>");
                push_text(out, value);
                out.push_str("</dd></div>");
            }
        };
        let totals = &facts.totals;
        let models: Vec<&str> = totals.models.keys().map(String::as_str).collect();
        let model = if models.is_empty() {
            facts.model.as_deref().unwrap_or_default().to_owned()
        } else {
            models.join(", ")
        };
        fact("Model", &model);
        fact("Directory", &facts.cwd.to_string_lossy());
        if facts.created_ms > 0 {
            fact("Begun", &format!("{} UTC", show_time(facts.created_ms)));
        }
        if totals.last_ms > facts.created_ms.saturating_add(60_000) {
            fact("Last", &format!("{} UTC", show_time(totals.last_ms)));
        }
        if totals.messages > 0 {
            fact("Messages", &group_digits(totals.messages));
        }
        let spent = &totals.spending;
        if spent.usage.read() + spent.usage.output > 0 {
            fact(
                "Tokens",
                &format!(
                    "{} in · {} out",
                    group_digits(spent.usage.read()),
                    group_digits(spent.usage.output)
                ),
            );
        }
        if let Some(cost) = spent.cost {
            let least = if spent.unpriced > 0 { "at least " } else { "" };
            fact("Cost", &format!("{least}{}", dollars(cost)));
        }
        fact("Session", facts.session.as_deref().unwrap_or_default());
        fact("Continues", facts.parent.as_deref().unwrap_or_default());
        out.push_str("</dl></section>\n<div id=\"talk\">\n");
    }

    /// Writes a block.
    pub(crate) fn push_block(&mut self, out: &mut String, whole: &WholeBlock) {
        let agent = whole.block.agent.as_ref().map(|agent| agent.name.as_str().to_owned());
        if agent != self.agent {
            self.close_agent_section(out);
            if let Some(name) = &agent {
                out.push_str("<details class=\"agent\"><summary><span class=\"mark\">⤷</span> Sub-agent <b>");
                push_text(out, name);
                out.push_str("</b></summary><div class=\"inner\">\n");
            }
            self.agent = agent;
        }
        if matches!(&whole.block.content, Content::Answer { text, end } if text.is_empty() && end.remark().is_none())
        {
            return;
        }
        self.blocks += 1;
        let class = match &whole.block.content {
            Content::User { .. } => "user",
            Content::Answer { .. } => "answer",
            Content::End(_) => "run",
            Content::Injected { .. }
            | Content::Thinking { .. }
            | Content::Call(_)
            | Content::Provider { .. }
            | Content::Summary { .. }
            | Content::Plugin(_)
            | Content::Note { .. } => "step",
        };
        let _ = write!(out, "<article class=\"{class}\" id=\"b{}\">", self.blocks);
        match &whole.block.content {
            Content::User { text, .. } => {
                if self.agent.is_none() {
                    let heading: String = text.as_str().split_whitespace().collect::<Vec<_>>().join(" ");
                    let mut heading: String = heading.chars().take(MAX_HEADING_CHARS).collect();
                    if heading.is_empty() {
                        heading.push('…');
                    }
                    self.prompts.push(format!("<a href=\"#b{}\">{}</a>", self.blocks, escaped(&heading)));
                }
                out.push_str("<div class=\"by\"><span>You</span>");
                self.push_time(out, whole);
                out.push_str("</div>");
            }
            Content::Answer { .. } | Content::Thinking { .. } | Content::Call(_) => {
                let model = whole.model.as_ref().map(ToString::to_string);
                if model.is_some() && model != self.model {
                    out.push_str("<div class=\"by\"><span>");
                    push_text(out, model.as_deref().unwrap_or_default());
                    out.push_str("</span>");
                    self.push_time(out, whole);
                    out.push_str("</div>");
                    self.model = model;
                }
            }
            _ => {}
        }
        push_content(out, whole, &mut self.images, &self.limits);
        out.push_str("</article>\n");
    }

    fn push_time(&self, out: &mut String, whole: &WholeBlock) {
        if let Some(millis) = whole.time_ms.filter(|millis| *millis > 0) {
            let _ = write!(out, "<a class=\"time\" href=\"#b{}\">{}</a>", self.blocks, show_time(millis));
        }
    }

    fn close_agent_section(&mut self, out: &mut String) {
        if self.agent.take().is_some() {
            out.push_str("</div></details>\n");
        }
    }

    /// Writes the foot of the page, below the conversation.
    pub(crate) fn push_foot(&mut self, out: &mut String, notice: Option<&str>) {
        self.close_agent_section(out);
        if let Some(notice) = notice {
            let _ = write!(out, "<p class=\"left-out\">{notice}.</p>");
        }
        if self.blocks == 0 {
            out.push_str("<p class=\"left-out\">This conversation has no messages.</p>");
        }
        out.push_str(
            "</div>\n<p class=\"keys\"><kbd>/</kbd> search <kbd>j</kbd> <kbd>k</kbd> next and previous prompt <kbd>f</kbd> fold \
             <kbd>t</kbd> light or dark</p></main>\n",
        );
        if self.prompts.len() > 1 {
            out.push_str("<nav class=\"toc\" aria-label=\"Prompts\"><ol>");
            for prompt in &self.prompts {
                let _ = write!(out, "<li>{prompt}</li>");
            }
            out.push_str("</ol></nav>\n");
        }
        let _ = write!(out, "</div>\n<script>{SCRIPT}</script></body></html>\n");
    }
}

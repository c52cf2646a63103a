use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::model::{Approved, Block, Concurrency, Effects, Message, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, ContextId, SessionLog, Tool, ToolCx};

use crate::store::line_store::LineStore;
use crate::text::message_line;
use crate::window::owner::{WindowOwner, now_ms};

/// Name of the tool.
pub(crate) const RECALL: &str = "conversation_recall";

/// Maximum number of messages in one answer.
const MESSAGES_PER_PAGE: usize = 30;

/// Longest excerpt of a message in one answer, in bytes.
const MAX_MESSAGE_BYTES: usize = 16_000;

/// Longest line, in bytes; a longer one is split.
const MAX_LINE_BYTES: usize = 2000;

/// Tool that shows the model messages that were left out of its context. Offered from the first compaction
/// on.
pub(crate) struct Recall {
    owner: Arc<WindowOwner>,
    spec: Arc<ToolSpec>,
}

impl Recall {
    pub(crate) fn new(owner: Arc<WindowOwner>) -> Self {
        let spec = ToolSpec::lazy(
            RECALL,
            "Looks up earlier messages of this conversation that left the context. `browse` lists them in a line \
             each, from a number on; `search` finds those that contain all words; `expand` shows one in full, a long one from line `offset` on. With \
             `others`, browse and search find lines of earlier conversations about this project, the newest first.",
            json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["browse", "search", "expand"]},
                    "number": {"type": "integer", "minimum": 1, "description": "browse: the first; expand: which"},
                    "query": {"type": "string", "description": "search: the words"},
                    "offset": {"type": "integer", "minimum": 1, "description": "expand: the first line, from 1"},
                    "limit": {"type": "integer", "minimum": 1, "description": "expand: lines"},
                    "others": {"type": "boolean", "description": "earlier conversations, not this one"}
                },
                "required": ["action"]
            }),
        );
        Self { owner, spec }
    }

    fn history(&self, cx: &ToolCx) -> NumberedHistory {
        let context = cx.cx.service::<ContextId>();
        let state = self.owner.lock();
        let known = state.existing_conversation(context.as_deref()).map(|conversation| &conversation.history);
        let (messages, earlier) =
            known.map(|history| (history.messages.clone(), history.earlier)).unwrap_or_default();
        // Without a session the earlier messages are not available.
        let log = cx.cx.service::<dyn SessionLog>().filter(|_| earlier > 0);
        let earlier = log.as_ref().map_or(0, |_| usize::try_from(earlier).unwrap_or(usize::MAX));
        NumberedHistory { log, earlier, messages }
    }
}

/// All messages of a conversation, numbered from 1.
struct NumberedHistory {
    log: Option<Arc<dyn SessionLog>>,
    /// Number of messages that have to be read from the session.
    earlier: usize,
    messages: Vec<Arc<Message>>,
}

impl NumberedHistory {
    fn len(&self) -> usize {
        self.earlier + self.messages.len()
    }

    /// Messages in memory, with their numbers.
    fn known(&self) -> impl DoubleEndedIterator<Item = (usize, &Arc<Message>)> + Clone {
        (self.earlier + 1..).zip(&self.messages).collect::<Vec<_>>().into_iter()
    }

    /// Visits the messages in the session, oldest first, until `visit` breaks off; returns the value that
    /// `visit` built.
    async fn read<T: Default + Send + 'static>(
        &self,
        mut visit: impl FnMut(usize, &Arc<Message>, &mut T) -> ControlFlow<()> + Send + 'static,
    ) -> Result<T, ToolError> {
        let found = Arc::<Mutex<T>>::default();
        let Some(log) = &self.log else { return Ok(T::default()) };
        let (kept, earlier, mut number) = (found.clone(), self.earlier, 0);
        let visit = Box::new(move |message: &Arc<Message>| {
            number += 1;
            if number > earlier {
                return ControlFlow::Break(());
            }
            visit(number, message, &mut kept.lock().unwrap_or_else(PoisonError::into_inner))
        });
        let failed =
            |error| ToolError::failed(format!("cannot read earlier messages of the session: {error}"));
        log.visit_earlier(visit).await.map_err(failed)?;
        Ok(std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Up to `most` messages, from number `from` on.
    async fn page(&self, from: usize, most: usize) -> Result<Vec<(usize, Arc<Message>)>, ToolError> {
        let mut page = Vec::new();
        if from <= self.earlier {
            page = self
                .read(move |number, message, page: &mut Vec<_>| {
                    if number >= from {
                        page.push((number, message.clone()));
                    }
                    if page.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
                .await?;
        }
        let known = self.known().filter(|(number, _)| *number >= from);
        let more = known.map(|(number, message)| (number, message.clone()));
        page.extend(more.take(most - page.len().min(most)));
        Ok(page)
    }
}

#[async_trait]
impl Tool for Recall {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args = call.args();
        if args.get("others").and_then(Value::as_bool).unwrap_or_default() {
            return earlier_conversations(args, cx).await.map(ToolOutput::text);
        }
        let history = self.history(cx);
        let count = |name: &str| usize::try_from(args.get(name)?.as_u64()?).ok();
        let number = count("number");
        let text = match args.get("action").and_then(Value::as_str) {
            Some("search") => {
                search(&history, args.get("query").and_then(Value::as_str).unwrap_or_default()).await?
            }
            Some("expand") => show_message(&history, number, count("offset"), count("limit")).await?,
            Some(_) | None => list_messages(&history, number.unwrap_or(1)).await?,
        };
        Ok(ToolOutput::text(text))
    }
}

/// Lines of earlier conversations.
async fn earlier_conversations(args: &Value, cx: &ToolCx) -> Result<String, ToolError> {
    let Some(store) = cx.cx.service::<dyn LineStore>() else {
        return Ok("no lines of other conversations are kept here".to_owned());
    };
    let words: Vec<String> = match args.get("action").and_then(Value::as_str) {
        Some("search") => words_of(args.get("query").and_then(Value::as_str).unwrap_or_default())?,
        Some("expand") => {
            return Err(ToolError::invalid(
                "of other conversations only lines are kept: `browse` or `search` them",
            ));
        }
        Some(_) | None => Vec::new(),
    };
    let from = args.get("number").and_then(Value::as_u64).unwrap_or(1).max(1);
    let now = now_ms(&cx.cx);
    let read = tokio::task::spawn_blocking(move || {
        let (mut text, mut seen, mut more) = (String::new(), 0, false);
        store.read(&mut |line| {
            let lower = line.text.to_lowercase();
            if !words.iter().all(|word| lower.contains(word)) {
                return true;
            }
            seen += 1;
            more = seen >= from + MESSAGES_PER_PAGE as u64;
            if seen >= from && !more {
                let _ = writeln!(text, "{} {} {}", format_age(line.time_ms, now), line.session, line.text);
            }
            !more
        })?;
        if more {
            let _ = write!(text, "(older ones: from number {} on)", from + MESSAGES_PER_PAGE as u64);
        }
        Ok::<_, std::io::Error>(text)
    });
    let failed = |error: &dyn std::fmt::Display| {
        ToolError::failed(format!("cannot read lines of other conversations: {error}"))
    };
    let text = read.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    Ok(if text.is_empty() { "no line of another conversation was found".to_owned() } else { text })
}

/// Formats the age of a time in days, such as `3 days ago`.
fn format_age(time_ms: u64, now_ms: u64) -> String {
    let days = now_ms.saturating_sub(time_ms) / 86_400_000;
    match days {
        0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{days} days ago"),
    }
}

/// Words of a search query.
fn words_of(query: &str) -> Result<Vec<String>, ToolError> {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    if words.is_empty() {
        return Err(ToolError::invalid("`search` needs a `query` of at least a word"));
    }
    Ok(words)
}

async fn list_messages(history: &NumberedHistory, from: usize) -> Result<String, ToolError> {
    let from = from.max(1);
    let mut text = format_lines(&history.page(from, MESSAGES_PER_PAGE).await?);
    let left = (history.len() + 1).saturating_sub(from).saturating_sub(MESSAGES_PER_PAGE);
    if left > 0 {
        let _ = write!(text, "({left} more: browse from {})", from + MESSAGES_PER_PAGE);
    }
    let none = || format!("there are {} messages, none from {from} on", history.len());
    Ok(if text.is_empty() { none() } else { text })
}

/// Lines about matching messages, oldest first, and the number of all matches.
#[derive(Default)]
struct Found {
    lines: VecDeque<String>,
    count: usize,
}

impl Found {
    /// Adds a message that contains all words, and drops the oldest if there are too many.
    fn add(&mut self, number: usize, message: &Message, words: &[String]) {
        let text = full_text(message);
        let lower = text.to_lowercase();
        if !words.iter().all(|word| lower.contains(word)) || is_recall(message) {
            return;
        }
        self.count += 1;
        self.lines.push_back(format!("#{number} {}\n", excerpt(&text, &lower, words)));
        if self.lines.len() > MESSAGES_PER_PAGE {
            self.lines.pop_front();
        }
    }
}

async fn search(history: &NumberedHistory, query: &str) -> Result<String, ToolError> {
    let words = words_of(query)?;
    let earlier = words.clone();
    let mut found = history
        .read(move |number, message, found: &mut Found| {
            found.add(number, message, &earlier);
            ControlFlow::Continue(())
        })
        .await?;
    history.known().for_each(|(number, message)| found.add(number, message, &words));
    // Newest first, since later findings matter more.
    let text: String = found.lines.into_iter().rev().collect();
    Ok(match found.count {
        0 => format!("no message contains all of: {query}"),
        count if count > MESSAGES_PER_PAGE => {
            format!("{text}({} older ones are not shown; use more words)", count - MESSAGES_PER_PAGE)
        }
        _ => text,
    })
}

async fn show_message(
    history: &NumberedHistory,
    number: Option<usize>,
    offset: Option<usize>,
    limit: Option<usize>,
) -> Result<String, ToolError> {
    let number = number.filter(|number| (1..=history.len()).contains(number)).ok_or_else(|| {
        let text = format!("`expand` needs the `number` of a message, from 1 to {}", history.len());
        ToolError::invalid(text)
    })?;
    let page = history.page(number, 1).await?;
    let Some((_, message)) = page.first().filter(|(at, _)| *at == number) else {
        return Err(ToolError::failed(format!("message {number} cannot be read from the session")));
    };
    let text = full_text(message);
    if text.len() <= MAX_MESSAGE_BYTES && offset.is_none() && limit.is_none() {
        return Ok(text);
    }
    let (from, limit) = (offset.unwrap_or(1).max(1), limit.unwrap_or(usize::MAX).max(1));
    let (mut page, mut shown, mut count) = (String::new(), 0, 0);
    for line in text.lines().flat_map(pieces) {
        count += 1;
        if count < from {
            continue;
        }
        if shown == limit || (shown > 0 && page.len() + line.len() >= MAX_MESSAGE_BYTES) {
            let _ = write!(page, "(more lines follow; continue with offset={count})");
            return Ok(page);
        }
        shown += 1;
        page.push_str(line);
        page.push('\n');
    }
    // Writing to a string cannot fail.
    let _ = match shown {
        0 => write!(page, "(no line from line {from} on; there are {count})"),
        _ => write!(page, "(the end; {count} lines in all)"),
    };
    Ok(page)
}

/// Splits a line into pieces within the length limit.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        let (piece, left) = line.split_at(line.floor_char_boundary(MAX_LINE_BYTES));
        rest = Some(left).filter(|left| !left.is_empty());
        Some(piece)
    })
}

fn format_lines(messages: &[(usize, Arc<Message>)]) -> String {
    let mut text = String::new();
    for (number, message) in messages {
        let _ = writeln!(text, "#{number} {}", message_line::of(message));
    }
    text
}

/// Full text of a message.
fn full_text(message: &Message) -> String {
    let mut text = String::new();
    for block in &message.content {
        let part = match block {
            Block::Text(text) => text.text.clone(),
            Block::ToolCall(call) => format!("call {} {}", call.name, call.args),
            Block::ToolResult(result) => result.content.to_text(),
            Block::Compaction(compaction) => compaction.summary.clone(),
            Block::Provider(block) => block.text.clone(),
            Block::Image(_) => "(an image)".to_owned(),
            Block::Document(_) => "(a document)".to_owned(),
            // Reasoning is only meant for the model that produced it.
            Block::Thinking(_) => continue,
        };
        text.push_str(&part);
        text.push('\n');
    }
    text
}

/// Whether a message is a call of this tool, which would match every search because of its arguments.
fn is_recall(message: &Message) -> bool {
    message.calls().any(|call| call.name == RECALL)
}

fn excerpt(text: &str, lower: &str, words: &[String]) -> String {
    // Offsets in the lower-case text are close enough for an excerpt.
    let at = words.first().and_then(|word| lower.find(word)).unwrap_or_default().min(text.len());
    let (start, end) = (
        text.floor_char_boundary(at.saturating_sub(100)),
        text.ceil_char_boundary((at + 200).min(text.len())),
    );
    text.get(start..end).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_message_is_read_to_its_end_page_by_page() {
        let mut said = (1..=3000).map(|line| format!("line {line} ünd more\n")).collect::<String>();
        said.push_str(&"ä".repeat(20_000));
        let messages = vec![Message::user_text(said.as_str()).shared(), Message::user_text("short").shared()];
        let history = NumberedHistory { log: None, earlier: 0, messages };
        let (mut all, mut offset, mut pages) = (String::new(), None, 0);
        loop {
            let page = show_message(&history, Some(1), offset, None).await.unwrap();
            assert!(page.len() < MAX_MESSAGE_BYTES + 100, "{}", page.len());
            let (lines, last) = page.rsplit_once('\n').unwrap();
            all.push_str(lines);
            all.push('\n');
            pages += 1;
            let Some(next) = last.strip_prefix("(more lines follow; continue with offset=") else {
                assert_eq!(last, "(the end; 3020 lines in all)");
                break;
            };
            offset = next.strip_suffix(')').unwrap().parse().ok();
        }
        assert_eq!(pages, 7);
        assert_eq!(all.replace('\n', ""), said.replace('\n', ""), "nothing is lost and nothing comes twice");
        let page = show_message(&history, Some(1), Some(7), Some(2)).await.unwrap();
        assert_eq!(page, "line 7 ünd more\nline 8 ünd more\n(more lines follow; continue with offset=9)");
        let page = show_message(&history, Some(1), Some(9999), None).await.unwrap();
        assert_eq!(page, "(no line from line 9999 on; there are 3020)");
        assert_eq!(show_message(&history, Some(2), None, None).await.unwrap(), "short\n");
        assert!(
            show_message(&history, Some(3), None, None)
                .await
                .unwrap_err()
                .to_string()
                .contains("from 1 to 2")
        );
    }
}

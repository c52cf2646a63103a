mod find;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_core::events::{Input, InputReply};
use zk_core::kernel::{Cx, Scope, Stage};
use zk_core::model::{Block, Display, Effects, MENTIONED_BY, Message, ToolContent, ToolOutput};
use zk_core::service::{
    CallDecision, CallJudge, FileKind, Files, PathError, Redactor, Resolved, ToolCx, TurnCwd, UNCHANGED_READ,
};

use self::find::{Mention, mentions};
use super::list_files::ListFiles;
use super::read_file::ReadFile;
use super::read_state::ReadState;
use crate::policy::visible_tags;
use crate::tool_support::{blocking, files};

/// Maximum number of files that are attached to one prompt.
const MAX_ATTACHED_FILES: usize = 20;

/// Attaches files that a person mentions with `@` in a prompt: each as a message after it, in the form of the
/// model's own reads, with numbered and limited lines. A name without a file stays text.
pub(crate) struct Mentions {
    read: ReadFile,
    list: ListFiles,
    state: Arc<ReadState>,
}

/// Result of looking up one mention.
enum Found {
    /// A file or a directory.
    Place(Mention, Resolved, FileKind),
    /// Mention that cannot be attached: its label, and the reason.
    Refused(String, String),
}

impl Mentions {
    pub(crate) fn new(read: ReadFile, list: ListFiles, state: Arc<ReadState>) -> Self {
        Self { read, list, state }
    }

    /// Registers a handler that attaches the mentions in each input, after handlers that change its text.
    pub(crate) fn register(self, scope: &Scope) {
        scope.on_async_with_at(Stage::Framework, self, async |mentions: &Self, input: &Input, cx: &Cx| {
            let messages = mentions.attach(&input.text, cx).await;
            (!messages.is_empty()).then_some(InputReply::Add { messages })
        });
    }

    async fn attach(&self, text: &str, cx: &Cx) -> Vec<Message> {
        let wanted = mentions(text);
        let (Ok(files), false) = (files(cx), wanted.is_empty()) else { return Vec::new() };
        let Some(cwd) = TurnCwd::of(cx).or_else(|| files.roots().into_iter().next()) else {
            return Vec::new();
        };
        let judge = cx.service::<dyn CallJudge>();
        let place = ToolCx::new(cx.clone(), cwd.clone());
        let looking =
            move |stop: &CancellationToken| Ok(find_files(&wanted, &*files, judge.as_deref(), &cwd, stop));
        let Ok(found) = blocking(cx, looking).await else { return Vec::new() };
        let mut messages = Vec::with_capacity(found.len());
        for found in found {
            messages.push(match found {
                Found::Refused(label, why) => refusal(&label, &why),
                Found::Place(mention, at, kind) => self.show(&mention, &at, kind, &place).await,
            });
        }
        messages
    }

    /// Message with the content of a file or directory.
    async fn show(&self, mention: &Mention, at: &Resolved, kind: FileKind, place: &ToolCx) -> Message {
        let place = ToolCx::new(place.cx.clone(), &place.cwd);
        let label = mention.label(&at.shown);
        let path = at.path.display().to_string();
        let shown = if kind == FileKind::Directory {
            self.list.list(&path, &place).await
        } else {
            let part = mention.lines.map(|(first, last)| (first, last - first + 1));
            self.read.read_lines(path, part, &place).await
        };
        let ToolOutput { content, display, .. } = match shown {
            Ok(output) => output,
            Err(error) => return refusal(&label, &error.message),
        };
        let content = clean(content, &place.cx);
        self.state.take_result(&place.call_id, &content);
        let size = display.as_ref().map_or_else(String::new, attachment_size);
        let heading = format!("`{label}`, which the person attached:\n");
        let blocks = match content {
            ToolContent::Text(text) => vec![Block::text(format!("{heading}{text}"))],
            ToolContent::Blocks(blocks) => std::iter::once(Block::text(heading)).chain(blocks).collect(),
        };
        let by = format!("{MENTIONED_BY}{label} · {size}");
        Message { injected_by: Some(by), ..Message::user(blocks) }
    }
}

/// Files and directories that the mentions refer to, each once.
fn find_files(
    wanted: &[Vec<Mention>],
    files: &dyn Files,
    judge: Option<&dyn CallJudge>,
    cwd: &Path,
    stop: &CancellationToken,
) -> Vec<Found> {
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    for readings in wanted.iter().take_while(|_| !stop.is_cancelled()) {
        let Some(one) = readings.iter().find_map(|mention| find_file(mention, files, judge, cwd)) else {
            continue;
        };
        let key = match &one {
            Found::Place(mention, at, _) => mention.label(&at.shown),
            Found::Refused(label, _) => label.clone(),
        };
        if !known.insert(key.clone()) {
            continue;
        }
        if found.len() == MAX_ATTACHED_FILES {
            let why = format!("{MAX_ATTACHED_FILES} files are the most of one prompt");
            found.push(Found::Refused(key, why));
            break;
        }
        found.push(one);
    }
    found
}

/// File or directory that a mention refers to, or the refusal to attach it; `None` if it does not exist.
fn find_file(
    mention: &Mention,
    files: &dyn Files,
    judge: Option<&dyn CallJudge>,
    cwd: &Path,
) -> Option<Found> {
    let label = mention.label(&mention.path);
    let refused = |why: String| Some(Found::Refused(label.clone(), why));
    let found = files.resolve(cwd, &mention.path).and_then(|at| files.stat(&at).map(|stat| (at, stat.kind)));
    let (at, kind) = match found {
        Ok(found) => found,
        Err(PathError::Outside { .. }) => return refused(OUTSIDE.to_owned()),
        Err(error @ PathError::Protected { .. }) => return refused(error.to_string()),
        Err(
            PathError::Missing { .. }
            | PathError::Kind { .. }
            | PathError::Invalid { .. }
            | PathError::Pattern { .. }
            | PathError::Io { .. },
        ) => return None,
    };
    let tool = if kind == FileKind::Directory { "list_files" } else { "read_file" };
    let decision = judge.map(|judge| judge.judge(tool, &Effects::reads([&at.path]), cwd).decision);
    match decision {
        Some(CallDecision::Deny) => refused("a rule denies reading it".to_owned()),
        Some(CallDecision::Ask { by_rule: true }) => {
            refused("a rule asks before it is read: say in words that it is to be read".to_owned())
        }
        Some(CallDecision::Ask { by_rule: false }) => {
            refused("it may hold credentials: say in words that it is to be read".to_owned())
        }
        Some(CallDecision::Allow) | None => Some(Found::Place(mention.clone(), at, kind)),
    }
}

/// Reason for which a file outside of the workspace is not attached.
const OUTSIDE: &str = "it is outside of the directories of this conversation; /add-dir adds one";

/// Message in place of a file that cannot be attached, so that the person sees it and the model does not
/// guess.
fn refusal(label: &str, why: &str) -> Message {
    let by = format!("{MENTIONED_BY}{label} · not attached: {why}");
    Message::injected(format!("`{label}` was named and is not attached: {why}"), by)
}

/// Text like a tool's result: without secrets, and with every tag visible.
fn clean(content: ToolContent, cx: &Cx) -> ToolContent {
    let redactor = cx.service::<Redactor>();
    let clean = |text: &str| {
        let clean = redactor.as_ref().map_or(text.into(), |redactor| redactor.redact(text));
        visible_tags(&clean).into_owned()
    };
    match content {
        ToolContent::Text(text) => ToolContent::Text(clean(&text)),
        ToolContent::Blocks(blocks) => {
            let blocks = blocks.into_iter().map(|block| match block.as_text() {
                Some(text) => Block::text(clean(text)),
                None => block,
            });
            ToolContent::Blocks(blocks.collect())
        }
    }
}

/// Size of an attachment, from its tool's display: `42 lines`.
fn attachment_size(display: &Display) -> String {
    let line = match display {
        Display::Line { text } => text.as_str(),
        Display::Lines { lines } => lines.last().map_or("", String::as_str),
        Display::Command { .. }
        | Display::Diff { .. }
        | Display::Table { .. }
        | Display::Markdown { .. }
        | Display::Checklist { .. } => "",
    };
    let line = line.strip_prefix("read ").unwrap_or(line);
    let line = line.rsplit_once(" of ").or_else(|| line.rsplit_once(" in ")).map_or(line, |(size, _)| size);
    if line.starts_with('`') && line.contains(UNCHANGED_READ) {
        "unchanged".to_owned()
    } else {
        line.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extent_of_an_attachment_is_in_the_line_that_its_tool_shows() {
        let line = |text: &str| Display::Line { text: text.to_owned() };
        let listing = Display::Lines { lines: vec!["a.rs  3 B".to_owned(), "1 name in src".to_owned()] };
        for (display, expected) in [
            (line("read 42 lines of cart.py"), "42 lines"),
            (listing, "1 name"),
            (
                line("`a.rs` is unchanged since you read these lines; the earlier result still holds"),
                "unchanged",
            ),
        ] {
            assert_eq!(attachment_size(&display), expected);
        }
    }
}

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use zk_chat::HostedConversation;
use zk_core::model::Display;
use zk_core::service::{
    ApprovalCard, AskedKind, CardPart, PartKind, Question, QuestionId, Selection, TrustRequest,
    UiAnswer as Answer,
};
use zk_view::{Card, Intent};

use super::form::{form, to_answer};
use super::told::{absolute, diff_parts, fenced, text_part};
use super::wire::{Client, Peer};

/// Questions of a session that are sent to the editor.
#[derive(Debug)]
pub(super) struct Asked {
    session: Arc<str>,
    cwd: PathBuf,
    hosted: Weak<HostedConversation>,
    peer: Arc<Peer>,
    client: Client,
    open: HashMap<QuestionId, Asking>,
}

/// A question sent to the editor. Dropping it withdraws the question.
#[derive(Debug)]
struct Asking(JoinHandle<()>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An option of a question: its answer, and its label and kind for the editor.
struct Choice {
    answer: Answer,
    name: String,
    kind: &'static str,
}

impl Choice {
    fn new(answer: Answer, name: impl Into<String>, kind: &'static str) -> Self {
        Self { answer, name: name.into(), kind }
    }

    fn no(name: &str) -> Self {
        Self::new(Answer::No { message: None }, name, "reject_once")
    }
}

impl Asked {
    pub(super) fn new(
        session: Arc<str>,
        cwd: PathBuf,
        hosted: &Arc<HostedConversation>,
        peer: Arc<Peer>,
        client: Client,
    ) -> Self {
        Self { session, cwd, hosted: Arc::downgrade(hosted), peer, client, open: HashMap::new() }
    }

    /// Sends a question to the editor. The card's digest ties the answer to the shown content. `call` is the
    /// id of the call in question.
    pub(super) fn ask(&mut self, card: &Card, call: Option<String>) {
        if self.open.contains_key(&card.id) {
            return;
        }
        if self.client.shows_forms
            && let Some((message, schema)) = form(&card.question)
        {
            self.open.insert(card.id, self.ask_by_form(card, &message, &schema));
            return;
        }
        let (mut shown, choices) = self.render_card(card);
        if let Some(shown) = shown.as_object_mut() {
            let call = call.unwrap_or_else(|| format!("question-{}", json!(card.id)));
            shown.insert("toolCallId".into(), call.into());
        }
        let option = |(index, choice): (usize, &Choice)| json!({ "optionId": index.to_string(), "name": choice.name, "kind": choice.kind });
        let options: Vec<Value> = choices.iter().enumerate().map(option).collect();
        let params = json!({ "sessionId": *self.session, "toolCall": shown, "options": options });
        let (peer, hosted, id, digest) = (self.peer.clone(), self.hosted.clone(), card.id, card.digest);
        let asking = tokio::spawn(async move {
            let answered = peer.request("session/request_permission", params).await;
            let chosen = answered.ok().and_then(|answer| chosen(&answer));
            let answer = chosen.and_then(|index| choices.get(index)).map(|choice| choice.answer.clone());
            // Only an offered option counts as a yes.
            let answer = answer.unwrap_or(Answer::No { message: None });
            if let Some(hosted) = hosted.upgrade() {
                hosted.intent(&Intent::Answer { id, digest, answer });
            }
        });
        self.open.insert(card.id, Asking(asking));
    }

    /// Sends a question as a form.
    fn ask_by_form(&self, card: &Card, message: &str, schema: &Value) -> Asking {
        let params = json!({
            "sessionId": *self.session, "mode": "form", "message": message, "requestedSchema": schema,
        });
        let (peer, hosted, card) = (self.peer.clone(), self.hosted.clone(), card.clone());
        Asking(tokio::spawn(async move {
            let answered = peer.request("elicitation/create", params).await.unwrap_or_default();
            let (id, digest, answer) = (card.id, card.digest, to_answer(&card.question, &answered));
            if let Some(hosted) = hosted.upgrade() {
                hosted.intent(&Intent::Answer { id, digest, answer });
            }
        }))
    }

    pub(super) fn withdraw(&mut self, id: QuestionId) {
        self.open.remove(&id);
    }

    /// Withdraws all questions except `waiting`.
    pub(super) fn keep(&mut self, waiting: &[QuestionId]) {
        self.open.retain(|id, _| waiting.contains(id));
    }

    fn render_card(&self, card: &Card) -> (Value, Vec<Choice>) {
        match (&card.question, &card.approval) {
            (Question::Approve(approval), Some(words)) => {
                let diffs = match &approval.preview {
                    Some(Display::Diff { path, diff }) => {
                        diff_parts(&absolute(path, &self.cwd), diff.lines())
                    }
                    _ => Vec::new(),
                };
                (render_approval(words, &approval.args, diffs), approval_choices(words))
            }
            (Question::Approve(approval), None) => {
                (render_text(&approval.tool, &approval.reasons), vec![Choice::no("No")])
            }
            (Question::Confirm { text }, _) => (render_text(text, &[]), yes_or_no()),
            (Question::Trust(request), _) => {
                let TrustRequest { text, items, details } = &**request;
                let lines: Vec<String> = items.iter().chain(details).cloned().collect();
                (render_text(text, &lines), yes_or_no())
            }
            (Question::Select(selection), _) => render_selection(selection),
            (Question::Input { text }, _) => {
                let why = "An editor cannot answer with words here: say it in the next prompt.".to_owned();
                (render_text(text, &[why]), vec![Choice::no("Go on without an answer")])
            }
        }
    }
}

/// Index of the option that the person chose in the editor.
fn chosen(answer: &Value) -> Option<usize> {
    let outcome = answer.get("outcome")?;
    let is_selected = outcome.get("outcome").and_then(Value::as_str) == Some("selected");
    let option = outcome.get("optionId").and_then(Value::as_str).filter(|_| is_selected)?;
    option.parse().ok()
}

fn render_text(title: &str, lines: &[String]) -> Value {
    let content: Vec<Value> = lines.iter().map(|line| text_part(line)).collect();
    json!({ "title": title, "kind": "other", "status": "pending", "content": content })
}

fn yes_or_no() -> Vec<Choice> {
    vec![Choice::new(Answer::Once, "Yes", "allow_once"), Choice::no("No")]
}

/// Everything that will run, and the reasons for the question, as on the card of the terminal.
fn render_approval(words: &ApprovalCard, args: &Value, diffs: Vec<Value>) -> Value {
    let has_diffs = !diffs.is_empty();
    let mut content = vec![text_part(&words.title)];
    content.extend(diffs);
    let parts = words.parts.iter().filter(|part| !(has_diffs && part.kind == PartKind::Diff));
    content.extend(parts.map(|part| text_part(&part_text(part))));
    content.extend(words.reasons.iter().map(|reason| text_part(&format!("Why: {reason}"))));
    content.extend(words.remarks.iter().map(|remark| text_part(remark)));
    let kind = match words.kind {
        AskedKind::Outside | AskedKind::Network | AskedKind::Command => "execute",
        AskedKind::Edit | AskedKind::Create => "edit",
        AskedKind::Read => "read",
        AskedKind::Fetch => "fetch",
        AskedKind::Tool => "other",
    };
    let first = words.parts.first().filter(|part| part.kind == PartKind::Command);
    let command = first.and_then(|part| part.lines.first());
    let title = command.map_or_else(|| words.title.clone(), |command| format!("{} $ {command}", words.title));
    json!({ "title": title, "kind": kind, "status": "pending", "content": content, "rawInput": args })
}

fn part_text(part: &CardPart) -> String {
    let lines = part.lines.join("\n");
    let text = match part.kind {
        PartKind::Command => fenced(&lines, "sh"),
        PartKind::Diff => fenced(&lines, "diff"),
        PartKind::Json => fenced(&lines, "json"),
        PartKind::Text | PartKind::Preview => fenced(&lines, ""),
        PartKind::ModelSays => format!("The model says: {lines}"),
        PartKind::Fact => lines,
    };
    if part.heading.is_empty() { text } else { format!("{}:\n{text}", part.heading) }
}

/// Options for this call and for the session. Permanent approvals are left out; `zk policy` makes them.
fn approval_choices(words: &ApprovalCard) -> Vec<Choice> {
    let offered = words.choices.iter().filter_map(|choice| {
        let kind = match &choice.answer {
            Answer::Once | Answer::Contained => "allow_once",
            Answer::Session | Answer::WiderSession | Answer::MoreSession { .. } => "allow_always",
            Answer::No { .. } if choice.is_row => "reject_once",
            Answer::No { .. }
            | Answer::Always
            | Answer::WiderAlways
            | Answer::MoreAlways { .. }
            | Answer::Choice { .. }
            | Answer::Text { .. }
            | Answer::Absent => return None,
        };
        let name = match &choice.allows {
            Some(allows) => format!("{} ({allows})", choice.text),
            None => choice.text.clone(),
        };
        Some(Choice::new(choice.answer.clone(), name, kind))
    });
    let mut choices: Vec<Choice> = offered.collect();
    let refuses = |choice: &Choice| matches!(choice.answer, Answer::No { .. });
    // Refusals with a reason are offered on a terminal only.
    let mut has_no = false;
    choices.retain(|choice| !refuses(choice) || !std::mem::replace(&mut has_no, true));
    if !has_no {
        choices.push(Choice::no("No"));
    }
    choices
}

fn render_selection(selection: &Selection) -> (Value, Vec<Choice>) {
    let described = |(index, option): (usize, &String)| {
        let words = selection.descriptions.get(index).filter(|words| !words.is_empty())?;
        Some(format!("{option}: {words}"))
    };
    let mut lines: Vec<String> = selection.options.iter().enumerate().filter_map(described).collect();
    if let Some(Display::Markdown { text, .. }) = &selection.preview {
        lines.insert(0, text.clone());
    }
    let mut choices: Vec<Choice> = selection
        .options
        .iter()
        .enumerate()
        .map(|(index, option)| Choice::new(Answer::Choice { index }, option, "allow_once"))
        .collect();
    choices.push(Choice::no("None of them"));
    (render_text(&selection.text, &lines), choices)
}

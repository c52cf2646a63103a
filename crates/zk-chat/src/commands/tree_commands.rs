//! Commands for the branches of a session's tree.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::kernel::{BoxError, Cx};
use zk_core::model::EntryId;
use zk_core::service::{
    BranchSummary, Conversation as _, Durability, Entry, EntryKind, OutlineKind, OutlineRow, Redactor,
    SessionOutline, StoreError, SwitchTarget, TreeMove, visible_line,
};
use zk_tui::plain::lines::shorten;

use super::session_commands::SessionCommand;
use crate::opening::sessions::ConversationSessions;

/// Outline of the present session's tree; empty if the session is not stored.
pub(crate) async fn outline(sessions: &dyn ConversationSessions) -> Result<SessionOutline, StoreError> {
    match sessions.open_session() {
        Some(open) => SessionOutline::of_session(&*open).await,
        None => Ok(SessionOutline::default()),
    }
}

/// Line for a row of a tree, without the row's id.
pub(crate) fn tree_line(row: &OutlineRow) -> String {
    let mark = match (row.is_leaf, row.is_present) {
        (true, _) => "●",
        (false, true) => "│",
        (false, false) => "·",
    };
    let kind = match row.kind {
        OutlineKind::Prompt => "› ",
        OutlineKind::Answer => "",
        OutlineKind::Summary => "(summary) ",
        OutlineKind::SubAgent => "(sub-agent) ",
    };
    let label = row.label.as_ref().map_or(String::new(), |label| format!("[{}] ", visible_line(label)));
    format!("{}{mark} {label}{kind}{}", "  ".repeat(row.depth), visible_line(&row.text))
}

/// Lines of a session's tree, each with the id of its entry.
pub fn tree_lines(outline: &SessionOutline) -> Vec<String> {
    outline.rows().iter().map(|row| shorten(&format!("{}  {}", row.id, tree_line(row)))).collect()
}

/// Refuses the row of a sub-agent, which has no conversation of its own to continue.
fn check_not_sub_agent(outline: &SessionOutline, entry: &EntryId) -> Result<(), BoxError> {
    match outline.is_sub_agent(entry) {
        true => Err(format!(
            "`{entry}` is a sub-agent, whose conversation cannot go on by itself: choose the prompt above it"
        )
        .into()),
        false => Ok(()),
    }
}

impl SessionCommand {
    /// Lists the tree of this session; each line starts with the id to go to.
    pub(super) async fn list_tree(&self) -> Result<Vec<String>, BoxError> {
        let mut lines = tree_lines(&outline(&*self.sessions).await?);
        lines.push(match lines.len() {
            0 => "there is no earlier prompt that is saved".to_owned(),
            _ => "/tree ID goes on from there, before it if it is a prompt; /tree ID summary takes a summary along"
                .to_owned(),
        });
        Ok(lines)
    }

    /// Moves the leaf to an entry. A prompt becomes the draft, and the branch begins before it.
    pub(super) async fn move_leaf(&self, args: &str) -> Result<Vec<String>, BoxError> {
        let (id, rest) = args.split_once(char::is_whitespace).unwrap_or((args, ""));
        let summary = match rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), "")) {
            ("", _) => None,
            ("summary", words) => {
                let instructions = Some(words.trim().to_owned()).filter(|words| !words.is_empty());
                Some(BranchSummary { instructions })
            }
            (other, _) => {
                let why = format!("`{other}` is no part of /tree: `/tree ID`, or `/tree ID summary [WORDS]`");
                return Err(why.into());
            }
        };
        let entry = EntryId::from(id);
        let outline = outline(&*self.sessions).await?;
        if !outline.contains(&entry) {
            return Err(format!("this session has no entry `{id}`; /tree lists them").into());
        }
        check_not_sub_agent(&outline, &entry)?;
        let before = outline.before_prompt(&entry);
        let draft = match &before {
            Some(_) => self.prompt_text(&entry).await?,
            None => None,
        };
        let to = before.unwrap_or(Some(entry));
        let mut lines = self.switch_to(SwitchTarget::Tree(TreeMove { to, summary })).await?;
        if let Some(text) = draft {
            (self.set_draft)(text);
            lines.push("the prompt is typed again below: change it, and send it".to_owned());
        }
        Ok(lines)
    }

    /// Complete text of a prompt.
    async fn prompt_text(&self, wanted: &EntryId) -> Result<Option<String>, StoreError> {
        let Some(open) = self.sessions.open_session() else { return Ok(None) };
        let (found, text) = (wanted.clone(), Arc::<Mutex<Option<String>>>::default());
        let left = text.clone();
        let visit = Box::new(move |entry: Entry, _: usize| {
            if entry.id != found {
                return ControlFlow::Continue(());
            }
            let message = entry.kind.message().map(|message| message.text());
            *left.lock().unwrap_or_else(PoisonError::into_inner) = message;
            ControlFlow::Break(())
        });
        open.scan_tree(visit).await?;
        Ok(text.lock().unwrap_or_else(PoisonError::into_inner).take())
    }

    /// Goes on in a copy of this session, up to an entry or the present leaf.
    pub(super) async fn fork(&self, id: &str) -> Result<Vec<String>, BoxError> {
        let outline = outline(&*self.sessions).await?;
        let entry = match id {
            "" => outline.leaf().cloned().ok_or("there is nothing to copy yet: type a prompt first")?,
            id => EntryId::from(id),
        };
        if !outline.contains(&entry) {
            return Err(format!("this session has no entry `{entry}`; /tree lists them").into());
        }
        check_not_sub_agent(&outline, &entry)?;
        self.switch_to(SwitchTarget::Fork(entry)).await
    }

    /// Returns to the leaf before the last move.
    pub(super) async fn move_leaf_back(&self) -> Result<Vec<String>, BoxError> {
        let outline = outline(&*self.sessions).await?;
        let left = outline.leaf_before_move().cloned();
        let left = left.ok_or("there is no branch to return to: /tree moves to another point")?;
        self.switch_to(SwitchTarget::Branch(left)).await
    }

    /// Labels the last prompt of the present branch.
    pub(super) async fn label(&self, text: &str, cx: &Cx) -> Result<Vec<String>, BoxError> {
        let open = self.sessions.open_session().ok_or("this conversation is not stored")?;
        let outline = outline(&*self.sessions).await?;
        let target = outline.last_prompt().cloned().ok_or("there is no prompt to label yet")?;
        let text = match cx.service::<Redactor>() {
            Some(redactor) => redactor.redact(text).into_owned(),
            None => text.to_owned(),
        };
        let label = Some(text).filter(|text| !text.is_empty());
        let line = match &label {
            Some(label) => format!("the last prompt is labelled `{}`", visible_line(label)),
            None => "the label of the last prompt is removed".to_owned(),
        };
        open.append(vec![EntryKind::Label { target, label }], Durability::Process).await?;
        Ok(vec![line])
    }

    /// Gives the present session a title.
    pub(super) async fn rename(&self, title: &str) -> Result<Vec<String>, BoxError> {
        let id = self.conversation.state().session.ok_or("this conversation is not stored")?;
        if title.is_empty() {
            return Err("/name takes the new title of this session".into());
        }
        self.sessions.rename(&id, title).await?;
        Ok(vec![format!("this session is called `{}`", visible_line(title))])
    }
}

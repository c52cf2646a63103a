//! Completions for the tree of the present session: rows, contents to search, and previews.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use zk_core::kernel::Cx;
use zk_core::model::EntryId;
use zk_core::service::{
    CustomEntry, Entry, EntryKind, OutlineKind, OutlineRow, SessionOutline, StoreError, visible_line,
};
use zk_tui::Offered;

use crate::commands::tree_commands::tree_line;
use crate::opening::factory::ConversationFactory;
use crate::opening::sessions::ConversationSessions;

/// Maximum size of a message's text that is searched, in bytes.
const MAX_SEARCHED_BYTES: usize = 8 << 10;
/// Maximum size of all texts that are searched, in bytes.
const MAX_ALL_SEARCHED_BYTES: usize = 8 << 20;
/// Maximum number of paths that a preview names.
const MAX_PREVIEW_PATHS: usize = 8;
/// Maximum number of lines of a message in a preview.
const MAX_PREVIEW_LINES: usize = 5;

/// Texts of messages in lower case, by their entries.
type Texts = HashMap<EntryId, String>;

/// Outline of the present session's tree, with the texts of its messages; empty if the session is not stored.
pub(crate) async fn outline_with_texts(
    sessions: &dyn ConversationSessions,
) -> Result<(SessionOutline, Texts), StoreError> {
    let Some(open) = sessions.open_session() else { return Ok(Default::default()) };
    let both = Arc::<Mutex<(SessionOutline, Texts)>>::default();
    let (filled, mut left) = (both.clone(), MAX_ALL_SEARCHED_BYTES);
    let visit = Box::new(move |entry: Entry, _: usize| {
        let mut both = filled.lock().unwrap_or_else(PoisonError::into_inner);
        both.0.add(&entry);
        if let Some(message) = entry.kind.message() {
            let text = message.text();
            let end = text.floor_char_boundary(MAX_SEARCHED_BYTES.min(left));
            let text = text.get(..end).unwrap_or_default().to_lowercase();
            left = left.saturating_sub(text.len());
            both.1.insert(entry.id, text);
        }
        ControlFlow::Continue(())
    });
    open.scan_tree(visit).await?;
    Ok(std::mem::take(&mut *both.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Completions for the present session's tree: its rows, newest first.
pub(crate) fn tree_rows_offered(rows: &[OutlineRow], mut texts: Texts) -> Offered {
    let newest = || rows.iter().rev();
    Offered {
        names: newest().map(|row| row.id.as_str().to_owned()).collect(),
        labels: newest().map(tree_line).collect(),
        notes: newest().map(filter_keywords).collect(),
        contents: newest().map(|row| texts.remove(&row.id).unwrap_or_default()).collect(),
        ..Offered::default()
    }
}

/// Keywords of a row, by which the picker filters the tree.
fn filter_keywords(row: &OutlineRow) -> String {
    let kind = match row.kind {
        OutlineKind::Prompt => "prompt",
        OutlineKind::Answer => "answer",
        OutlineKind::Summary => "summary",
        OutlineKind::SubAgent => "sub-agent",
    };
    let label = if row.label.is_some() { " labelled" } else { "" };
    let branch = if row.is_present { "" } else { " elsewhere" };
    format!("{kind}{label}{branch}")
}

/// Preview of a row of the tree: files that a move there would offer to bring back, then the row's text.
pub(crate) async fn tree_preview(
    sessions: &dyn ConversationSessions,
    factory: &dyn ConversationFactory,
    cx: &Cx,
    id: &EntryId,
) -> Offered {
    let (text, branch) = point_of(sessions, id).await.unwrap_or_default();
    let changed = factory.paths_changed_since(branch, cx).await;
    let mut lines = Vec::new();
    if !changed.is_empty() {
        let named: Vec<&str> = changed.iter().take(MAX_PREVIEW_PATHS).map(String::as_str).collect();
        let rest = changed.len().saturating_sub(named.len());
        let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
        lines.push(visible_line(&format!("files changed since: {}{more}", named.join(", "))));
    }
    lines.extend(
        text.lines().filter(|line| !line.trim().is_empty()).take(MAX_PREVIEW_LINES).map(visible_line),
    );
    Offered { names: lines.into(), ..Offered::default() }
}

/// Text of an entry, and the plugins' entries of the branch on which a conversation would go on from there.
async fn point_of(
    sessions: &dyn ConversationSessions,
    id: &EntryId,
) -> Result<(String, Vec<CustomEntry>), StoreError> {
    let Some(open) = sessions.open_session() else { return Ok(Default::default()) };
    let read = Arc::<Mutex<(SessionOutline, String, Vec<(EntryId, CustomEntry)>)>>::default();
    let (filled, wanted) = (read.clone(), id.clone());
    let visit = Box::new(move |entry: Entry, _: usize| {
        let mut read = filled.lock().unwrap_or_else(PoisonError::into_inner);
        read.0.add(&entry);
        if let Some(message) = entry.kind.message().filter(|_| entry.id == wanted) {
            read.1 = message.text();
        }
        if let EntryKind::Custom(own) = entry.kind {
            read.2.push((entry.id, own));
        }
        ControlFlow::Continue(())
    });
    open.scan_tree(visit).await?;
    let (outline, text, own) = std::mem::take(&mut *read.lock().unwrap_or_else(PoisonError::into_inner));
    // A prompt is typed again, so that the branch ends before it.
    let to = outline.before_prompt(id).unwrap_or_else(|| Some(id.clone()));
    let branch: HashSet<EntryId> = to.map(|to| outline.branch_of(&to)).unwrap_or_default();
    let own = own.into_iter().filter(|(id, _)| branch.contains(id)).map(|(_, own)| own);
    Ok((text, own.collect()))
}

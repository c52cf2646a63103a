use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use zk_core::model::{Block, EntryId, Message, ModelRef, SessionId, ToolCall};
use zk_core::service::{
    Audience, CustomEntry, Durability, Entry, EntryKind, NewSession, OpenSession, RunStatus, SessionFilter,
    SessionInfo,
};

use super::{Case, Outcome, ensure, failed};

/// Filter that matches every session.
pub(super) fn all_sessions() -> SessionFilter {
    SessionFilter { unanswered: true, ..SessionFilter::default() }
}

/// Converts a message to an entry.
pub(super) fn entry(message: Message) -> EntryKind {
    EntryKind::Message { message: message.shared(), usage: None }
}

/// Entry with a prompt of the person.
pub(super) fn prompt_entry(text: &str) -> EntryKind {
    entry(Message::user_text(text))
}

/// Entries of the `n`th turn: prompt, answer with a call, and result of the call.
pub(super) fn turn(n: usize) -> Vec<EntryKind> {
    let id = format!("call_{n}");
    let call = ToolCall::new(&*id, "shell", json!({ "n": n }));
    vec![
        prompt_entry(&format!("prompt {n}")),
        entry(Message::assistant(vec![Block::text(format!("answer {n}")), Block::ToolCall(call)])),
        entry(Message::user(vec![Block::result(&*id, "done", false)])),
    ]
}

/// Entries of different kinds, with texts that a storage format may damage.
pub(super) fn any_kinds() -> Vec<EntryKind> {
    let texts = [
        "",
        " \t\r\n\u{b}\u{c}\u{85}\u{2028}\u{2029}",
        "\u{0}\u{1}\u{7f}\u{1b}[31m\u{fffd}\u{feff}",
        "grüße, 日本語, हिन्दी, עברית, 👩‍👩‍👧‍👦, \u{10ffff}, e\u{301}",
        "\"\\/{}[]'$1; DROP TABLE entries; --\n{\"entry\":\"message\"}\n",
    ];
    let mut kinds: Vec<EntryKind> = texts.into_iter().map(prompt_entry).collect();
    kinds.extend([
        EntryKind::Model { model: ModelRef::new("p", "m/with: signs") },
        EntryKind::RunStart { run_id: "r_1".into() },
        EntryKind::RunEnd { run_id: "r_1".into(), status: RunStatus::Aborted },
        EntryKind::Custom(CustomEntry {
            source: "check".to_owned(),
            kind: "goal".to_owned(),
            version: 7,
            data: json!({"deep": [[{"a": null, "b": -1.5, "c": "ß\u{0}"}]]}).into(),
            audience: Audience::Model,
        }),
    ]);
    kinds
}

impl Case<'_> {
    pub(super) fn first_dir(&self) -> &Path {
        let [here, _] = &self.options.directories;
        here
    }

    pub(super) fn second_dir(&self) -> &Path {
        let [_, there] = &self.options.directories;
        there
    }

    /// Creates a session in the first directory.
    pub(super) async fn create(&self) -> Result<Arc<dyn OpenSession>, String> {
        self.create_as(None).await
    }

    pub(super) async fn create_as(&self, id: Option<&str>) -> Result<Arc<dyn OpenSession>, String> {
        let new =
            NewSession { id: id.map(SessionId::from), cwd: self.first_dir().to_path_buf(), parent: None };
        self.store.create(new).await.map_err(failed("create a session"))
    }

    /// Stores a session of `turns` turns, closes it and returns its id.
    pub(super) async fn store_session(&self, turns: usize) -> Result<SessionId, String> {
        let session = self.create().await?;
        for n in 0..turns {
            add(&*session, turn(n)).await?;
        }
        session.close().await.map_err(failed("close a session"))?;
        Ok(session.id().clone())
    }

    pub(super) async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, String> {
        self.store.list(filter).await.map_err(failed("list sessions"))
    }

    /// Returns the listed session with this id.
    pub(super) async fn find_listed(&self, id: &SessionId) -> Result<SessionInfo, String> {
        let found = self.list(&all_sessions()).await?.into_iter().find(|info| info.id == *id);
        found.ok_or_else(|| format!("{id} is not listed"))
    }

    pub(super) async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, String> {
        self.store.open(id).await.map_err(failed("open a session"))
    }

    /// Entries that a snapshot of the session contains.
    pub(super) async fn read(&self, id: &SessionId) -> Result<Vec<Entry>, String> {
        let snapshot = self.store.read(id).await.map_err(failed("read a session"))?;
        ensure(snapshot.info.id == *id, "a snapshot has the id of another session")?;
        ensure(snapshot.notices.is_empty(), format_args!("notices on reading: {:?}", snapshot.notices))?;
        Ok(snapshot.entries)
    }
}

pub(super) async fn add(session: &dyn OpenSession, kinds: Vec<EntryKind>) -> Result<Vec<EntryId>, String> {
    session.append(kinds, Durability::Process).await.map_err(failed("append"))
}

pub(super) async fn entries(session: &dyn OpenSession) -> Result<Vec<Entry>, String> {
    session.entries().await.map_err(failed("read the entries of an open session"))
}

/// Checks that each entry follows the one before it, and that ids are distinct.
pub(super) fn ensure_chained(entries: &[Entry]) -> Outcome {
    let mut parent = None;
    let mut ids = std::collections::HashSet::new();
    for (at, entry) in entries.iter().enumerate() {
        ensure(
            entry.parent.as_ref() == parent,
            format_args!("entry {at} does not follow the one before it"),
        )?;
        ensure(ids.insert(&entry.id), format_args!("entry {at} has the id of another entry"))?;
        parent = Some(&entry.id);
    }
    Ok(())
}

pub(super) fn kinds(entries: &[Entry]) -> Vec<&EntryKind> {
    entries.iter().map(|entry| &entry.kind).collect()
}

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use zk_core::model::{EntryId, Role as MessageRole, SessionId};
use zk_core::service::{Entry, EntryKind, SessionFilter, SessionInfo, SessionStore, StoreError};

use crate::rpc::client::Client;
use crate::rpc::message::RpcError;
use crate::rpc::wire::attach::{Nothing, Role};
use crate::rpc::wire::sessions::{
    ForkParams, ListParams, PromptRow, RenameParams, SessionParams, SessionResult, SessionRow, Sessions, Tree,
};

/// Default and maximum number of listed sessions.
const DEFAULT_LISTED: u32 = 100;
const MAX_LISTED: u32 = 10_000;

/// Maximum number of sessions whose prompts are searched.
const MAX_SEARCHED: usize = 500;

/// Most characters of a prompt in a list.
const MAX_PROMPT_CHARS: usize = 2000;

pub(super) fn store(client: &Client) -> Result<Arc<dyn SessionStore>, RpcError> {
    client.server.options.launcher.store().map_err(RpcError::failed)
}

fn store_error(error: &StoreError) -> RpcError {
    match error {
        StoreError::NotFound { .. } => RpcError::field("session", error),
        error => RpcError::failed(error),
    }
}

/// Finds the stored session with an id, or with the beginning of one.
pub(super) async fn find(client: &Client, id: &str) -> Result<SessionInfo, RpcError> {
    let filter = SessionFilter { cwd: None, limit: None, unanswered: true };
    let all = store(client)?.list(&filter).await.map_err(|error| store_error(&error))?;
    let mut found = all.into_iter().filter(|info| !id.is_empty() && info.id.as_str().starts_with(id));
    let info = match (found.next(), found.next()) {
        (Some(info), None) => info,
        (Some(first), Some(_)) if first.id.as_str() == id => first,
        (Some(_), Some(_)) => return Err(RpcError::field("session", "more than one id begins so")),
        (None, _) => {
            return Err(RpcError::field("session", "there is no such session: `session/list` lists them"));
        }
    };
    if info.cwd != client.server.options.cwd {
        client.require(Role::Approver, "a session of another directory than the server's")?;
    }
    Ok(info)
}

/// Returns the directory whose sessions a client may see: any directory for an approver, the server's for
/// others.
fn visible_cwd(client: &Client, wanted: Option<String>) -> Option<PathBuf> {
    let is_approver = client.require(Role::Approver, "sessions of other directories").is_ok();
    if is_approver { wanted.map(PathBuf::from) } else { Some(client.server.options.cwd.clone()) }
}

pub(super) async fn list(client: &Arc<Client>, params: ListParams) -> Result<Sessions, RpcError> {
    let limit = params.limit.unwrap_or(DEFAULT_LISTED).min(MAX_LISTED);
    let filter = SessionFilter {
        cwd: visible_cwd(client, params.cwd),
        limit: usize::try_from(limit).ok(),
        unanswered: false,
    };
    let all = store(client)?.list(&filter).await.map_err(|error| store_error(&error))?;
    Ok(Sessions { sessions: all.iter().map(|info| session_row(client, info)).collect() })
}

fn session_row(client: &Client, info: &SessionInfo) -> SessionRow {
    let updated = info.updated.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let id = info.id.to_string();
    SessionRow {
        title: info.title.clone(),
        cwd: info.cwd.display().to_string(),
        updated_ms: u64::try_from(updated).unwrap_or(u64::MAX),
        messages: info.messages,
        parent: info.parent.as_ref().map(ToString::to_string),
        unreadable: info.unreadable.as_ref().map(|why| format!("it is {why}")),
        conversation: client.server.conversation_of(&id).map(|shared| shared.id.clone()),
        session: id,
        found: None,
    }
}

pub(super) async fn search(client: &Arc<Client>, params: ListParams) -> Result<Sessions, RpcError> {
    let wanted = params.text.trim().to_lowercase();
    if wanted.is_empty() {
        return Err(RpcError::field("text", "a search needs a text"));
    }
    let limit = usize::try_from(params.limit.unwrap_or(DEFAULT_LISTED)).unwrap_or(usize::MAX);
    let store = store(client)?;
    let filter =
        SessionFilter { cwd: visible_cwd(client, params.cwd), limit: Some(MAX_SEARCHED), unanswered: false };
    let mut sessions = Vec::new();
    for info in store.list(&filter).await.map_err(|error| store_error(&error))? {
        if sessions.len() >= limit {
            break;
        }
        let is_title = info.title.to_lowercase().contains(&wanted);
        let found = match info.unreadable {
            // An unreadable session is found by its title only.
            Some(_) => None,
            None => first_prompt(&*store, &info.id, wanted.clone()).await,
        };
        if is_title || found.is_some() {
            sessions.push(SessionRow { found, ..session_row(client, &info) });
        }
    }
    Ok(Sessions { sessions })
}

/// The first prompt of a session that contains a text.
async fn first_prompt(store: &dyn SessionStore, id: &SessionId, wanted: String) -> Option<String> {
    let found = Arc::new(Mutex::new(None));
    let find = found.clone();
    let visit = Box::new(move |entry: Entry, _: usize| match prompt_text(&entry) {
        Some(text) if text.to_lowercase().contains(&wanted) => {
            *find.lock().unwrap_or_else(PoisonError::into_inner) = Some(shorten(&text));
            ControlFlow::Break(())
        }
        Some(_) | None => ControlFlow::Continue(()),
    });
    // A session that cannot be read has no prompts.
    let _ = store.scan(id, visit).await;
    found.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Returns the text of an entry that is a person's prompt.
fn prompt_text(entry: &Entry) -> Option<String> {
    let EntryKind::Message { message, .. } = &entry.kind else { return None };
    let is_prompt = message.role == MessageRole::User && message.injected_by.is_none();
    Some(message.text()).filter(|text| is_prompt && !text.is_empty())
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_PROMPT_CHARS).collect()
}

pub(super) async fn tree(client: &Arc<Client>, params: SessionParams) -> Result<Tree, RpcError> {
    let id = find(client, &params.session).await?.id;
    let snapshot = store(client)?.read(&id).await.map_err(|error| store_error(&error))?;
    let row = |entry: &Entry| {
        let text = shorten(&prompt_text(entry)?);
        let before = entry.parent.as_ref().map(ToString::to_string);
        Some(PromptRow { entry: entry.id.to_string(), before, time_ms: entry.time_ms, text })
    };
    Ok(Tree { prompts: snapshot.entries.iter().filter_map(row).collect() })
}

pub(super) async fn fork(client: &Arc<Client>, params: ForkParams) -> Result<SessionResult, RpcError> {
    let id = find(client, &params.session).await?.id;
    let entry = params.entry.map(|entry| EntryId::from(entry.as_str()));
    let copied = client.server.options.launcher.copy(&id, entry.as_ref()).await.map_err(RpcError::failed)?;
    Ok(SessionResult { session: copied.to_string() })
}

pub(super) async fn rename(client: &Arc<Client>, params: RenameParams) -> Result<Nothing, RpcError> {
    let id = find(client, &params.session).await?.id;
    store(client)?.rename(&id, params.title.trim()).await.map_err(|error| store_error(&error))?;
    Ok(Nothing {})
}

pub(super) async fn delete(client: &Arc<Client>, params: SessionParams) -> Result<Nothing, RpcError> {
    let id = find(client, &params.session).await?.id;
    if let Some(shared) = client.server.conversation_of(id.as_str()) {
        let why = format!("the conversation {} has it open: close that first", shared.id);
        return Err(RpcError::field("session", why));
    }
    store(client)?.delete(&id).await.map_err(|error| store_error(&error))?;
    Ok(Nothing {})
}

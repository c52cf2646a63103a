use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use zk_chat::{ExecutionPlace, HostedConversation, HostedOptions, LaunchRequest, LaunchSession};
use zk_core::model::SessionId;
use zk_core::service::{SessionFilter, SessionInfo};
use zk_view::NoteLevel;

use super::files::Buffers;
use super::mcp;
use super::requests::{After, Agent};
use super::session::Session;
use super::wire::{RpcError, rfc3339};

/// Maximum number of sessions in an answer to `session/list`.
const PAGE_SESSIONS: usize = 50;

/// Working directory and servers in the requests that open a session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    cwd: PathBuf,
    #[serde(default)]
    additional_directories: Vec<PathBuf>,
    #[serde(default)]
    mcp_servers: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct Listing {
    cwd: Option<PathBuf>,
    cursor: Option<String>,
}

/// The part of a request that names its session.
pub(super) fn session_id(params: &Value) -> Result<&str, RpcError> {
    let id = params.get("sessionId").and_then(Value::as_str);
    id.ok_or_else(|| RpcError::params("`sessionId` is missing"))
}

impl Place {
    fn read(params: &Value) -> Result<Self, RpcError> {
        let place = Self::deserialize(params).map_err(|error| RpcError::params(error.to_string()))?;
        for dir in std::iter::once(&place.cwd).chain(&place.additional_directories) {
            check_directory(dir)?;
        }
        Ok(place)
    }
}

fn check_directory(dir: &Path) -> Result<(), RpcError> {
    if dir.is_absolute() {
        Ok(())
    } else {
        Err(RpcError::params(format!("`{}` is no absolute path", dir.display())))
    }
}

impl Agent {
    pub(super) async fn new_session(&self, params: &Value) -> Result<(Value, After), RpcError> {
        let session = self.open(Place::read(params)?, LaunchSession::New).await?;
        self.open_answer(session, true).await
    }

    pub(super) async fn load(&self, params: &Value, replays: bool) -> Result<(Value, After), RpcError> {
        let (id, place) = (session_id(params)?, Place::read(params)?);
        let known = self.session(id).ok();
        let session = match known {
            Some(session) if session.is_prompting() => return Err(RpcError::busy()),
            Some(session) => session,
            None => {
                let title = self.stored(id).await?.title;
                let session = self.open(place, LaunchSession::Stored(id.to_owned())).await?;
                session.set_title(title);
                session
            }
        };
        if replays {
            session.replay().await;
        } else {
            session.skip().await;
        }
        self.open_answer(session, false).await
    }

    pub(super) async fn fork(&self, params: &Value) -> Result<(Value, After), RpcError> {
        let (id, place) = (session_id(params)?, Place::read(params)?);
        if self.session(id).is_ok_and(|session| session.is_prompting()) {
            return Err(RpcError::busy());
        }
        let title = self.stored(id).await?.title;
        let copy = self.launcher().copy(&SessionId::from(id), None).await?;
        let session = self.open(place, LaunchSession::Stored(copy.to_string())).await?;
        session.set_title(title);
        session.skip().await;
        self.open_answer(session, true).await
    }

    async fn open_answer(&self, session: Arc<Session>, names: bool) -> Result<(Value, After), RpcError> {
        if let Some(unapproved) = session.hosted.factory().unapproved() {
            session.hosted.view().note(NoteLevel::Warning, &unapproved.describe());
        }
        let mut answer = session.choices().await;
        if let Some(answer) = answer.as_object_mut().filter(|_| names) {
            answer.insert("sessionId".into(), (*session.id).into());
        }
        Ok((answer, After::Opened(session)))
    }

    async fn open(&self, place: Place, begins_with: LaunchSession) -> Result<Arc<Session>, RpcError> {
        if !place.cwd.is_dir() {
            return Err(RpcError::params(format!("there is no directory {}", place.cwd.display())));
        }
        let client = self.client();
        let request = LaunchRequest {
            cwd: Some(place.cwd),
            add_dirs: place.additional_directories,
            session: begins_with,
            settings: mcp::settings(&place.mcp_servers)?,
            ..LaunchRequest::default()
        };
        let factory = self.launcher().launch(&request)?;
        let cwd = factory.setup().cwd.clone();
        let is_here = factory.setup().execution_place == ExecutionPlace::ThisMachine;
        let hosted = HostedConversation::open(factory, HostedOptions::default()).await?;
        let id = hosted.sessions().open_session().map(|open| open.id().shared());
        let id = id.unwrap_or_else(|| SessionId::fresh().shared());
        // An editor has buffers only for files of this machine.
        let has_buffers = is_here && (client.reads_files || client.writes_files);
        let buffers = has_buffers.then(|| Buffers::new(self.peer().clone(), client, id.clone()));
        let session = Session::new(id, cwd, hosted, self.peer().clone(), client, buffers);
        session.put_buffers()?;
        let session = Arc::new(session);
        if self.add_session(&session) {
            return Ok(session);
        }
        // The editor is gone meanwhile.
        session.close().await;
        Err(RpcError::internal("zk ends"))
    }

    /// Returns the stored session with exactly this id.
    async fn stored(&self, id: &str) -> Result<SessionInfo, RpcError> {
        let nothing = Box::new(|_, _| ControlFlow::Break(()));
        let scan = self.launcher().store()?.scan(&SessionId::from(id), nothing).await?;
        if scan.info.id.as_str() == id { Ok(scan.info) } else { Err(RpcError::unknown_session(id)) }
    }

    pub(super) async fn list(&self, params: &Value) -> Result<Value, RpcError> {
        let Listing { cwd, cursor } = match params {
            Value::Null => Listing { cwd: None, cursor: None },
            params => Listing::deserialize(params).map_err(|error| RpcError::params(error.to_string()))?,
        };
        let cwd = match cwd {
            Some(dir) => {
                check_directory(&dir)?;
                // Sessions know their directories without links.
                let canonical = {
                    let dir = dir.clone();
                    tokio::task::spawn_blocking(move || std::fs::canonicalize(dir)).await
                };
                Some(canonical.ok().and_then(Result::ok).unwrap_or(dir))
            }
            None => None,
        };
        let begin = cursor.as_deref().map_or(Ok(0), str::parse::<usize>);
        let begin = begin.map_err(|_| RpcError::params("`cursor` is none that zk gave"))?;
        let filter = SessionFilter { cwd, ..SessionFilter::default() };
        let all = self.launcher().store()?.list(&filter).await?;
        let page: Vec<Value> = all.iter().skip(begin).take(PAGE_SESSIONS).map(session_row).collect();
        let next = begin + page.len();
        let mut answer = Map::from_iter([("sessions".to_owned(), Value::Array(page))]);
        if next < all.len() {
            answer.insert("nextCursor".into(), next.to_string().into());
        }
        Ok(Value::Object(answer))
    }

    pub(super) async fn close_session(&self, id: &str) -> Result<Value, RpcError> {
        let session = self.session(id)?;
        session.close().await;
        self.remove_session(id);
        Ok(json!({}))
    }

    /// Removes a session. A missing one counts as removed.
    pub(super) async fn delete(&self, id: &str) -> Result<Value, RpcError> {
        if self.session(id).is_ok() {
            self.close_session(id).await?;
        }
        if self.stored(id).await.is_ok() {
            self.launcher().store()?.delete(&SessionId::from(id)).await?;
        }
        Ok(json!({}))
    }
}

fn session_row(info: &SessionInfo) -> Value {
    json!({
        "sessionId": info.id.as_str(),
        "cwd": info.cwd,
        "title": info.title,
        "updatedAt": rfc3339(info.updated),
    })
}

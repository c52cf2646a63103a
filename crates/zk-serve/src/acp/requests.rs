use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zk_chat::{ConversationLauncher, HostedConversation, HostedOptions, LaunchRequest};

use super::options;
use super::prompt::{self, Prompt};
use super::session::Session;
use super::sessions::session_id;
use super::wire::{Client, KEYS_METHOD, Peer, RpcError, TERMINAL_METHOD};

/// Methods that zk answers.
const METHODS: [&str; 13] = [
    "initialize",
    "authenticate",
    "logout",
    "session/new",
    "session/load",
    "session/resume",
    "session/fork",
    "session/list",
    "session/close",
    "session/delete",
    "session/prompt",
    "session/set_mode",
    "session/set_config_option",
];

/// Handler of an editor's requests.
pub(super) struct Agent {
    launcher: Arc<dyn ConversationLauncher>,
    peer: Arc<Peer>,
    version: String,
    client: OnceLock<Client>,
    /// Open sessions by id; `None` once the editor is gone.
    sessions: Mutex<Option<HashMap<String, Arc<Session>>>>,
    /// Requests that are being answered, by their ids as JSON.
    answering: Mutex<HashMap<String, CancellationToken>>,
    tasks: TaskTracker,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Work to do after an answer was sent.
pub(super) enum After {
    Nothing,
    /// A session was opened, and the editor now knows its id.
    Opened(Arc<Session>),
    /// A prompt ended, and another may begin.
    Prompted(OwnedMutexGuard<()>),
}

impl Agent {
    pub(super) fn new(launcher: Arc<dyn ConversationLauncher>, peer: Arc<Peer>, version: String) -> Self {
        Self {
            launcher,
            peer,
            version,
            client: OnceLock::new(),
            sessions: Mutex::new(Some(HashMap::new())),
            answering: Mutex::default(),
            tasks: TaskTracker::new(),
        }
    }

    pub(super) fn launcher(&self) -> &dyn ConversationLauncher {
        &*self.launcher
    }

    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    pub(super) fn client(&self) -> Client {
        self.client.get().copied().unwrap_or_default()
    }

    fn sessions(&self) -> MutexGuard<'_, Option<HashMap<String, Arc<Session>>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answering(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.answering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an open session.
    pub(super) fn session(&self, id: &str) -> Result<Arc<Session>, RpcError> {
        let found = self.sessions().as_ref().and_then(|all| all.get(id).cloned());
        found.ok_or_else(|| RpcError::unknown_session(id))
    }

    /// Stores an opened session; returns false if the editor is gone.
    pub(super) fn add_session(&self, session: &Arc<Session>) -> bool {
        let mut sessions = self.sessions();
        let kept = sessions.as_mut().map(|all| all.insert(session.id.to_string(), session.clone()));
        kept.is_some()
    }

    pub(super) fn remove_session(&self, id: &str) {
        self.sessions().as_mut().and_then(|all| all.remove(id));
    }

    /// Ends all sessions in parallel, and waits until all requests are answered.
    pub(super) async fn close(&self) {
        let sessions = self.sessions().take().unwrap_or_default();
        join_all(sessions.values().map(|session| session.close())).await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Handles a request. A task of its own answers it, so that further requests are read meanwhile.
    pub(super) fn handle_request(self: &Arc<Self>, method: &str, id: Value, params: Value) {
        let stop = CancellationToken::new();
        // These steps run in the order of the lines: later requests need the agreed version and the running
        // prompt.
        let begun = match method {
            _ if !METHODS.contains(&method) => Err(RpcError::unknown_method(method)),
            "initialize" => self.initialize(&params).map(Begun::Answer),
            _ if self.client.get().is_none() => {
                Err(RpcError::new(RpcError::REQUEST, "the first request must be `initialize`"))
            }
            "session/prompt" => self.begin_prompt(&params, &stop),
            _ => Ok(Begun::Request),
        };
        let begun = match begun {
            Ok(Begun::Answer(answer)) => return self.peer.respond(&id, Ok(answer)),
            Err(error) => return self.peer.respond(&id, Err(error)),
            Ok(begun) => begun,
        };
        let key = id.to_string();
        self.answering().insert(key.clone(), stop.clone());
        let (agent, method) = (self.clone(), method.to_owned());
        self.tasks.spawn(async move {
            let answer = match begun {
                Begun::Prompt(begun) => {
                    let (session, prompt, prompting) = *begun;
                    let answer = prompt::run(&session, prompt, &stop).await;
                    let was_cancelled = agent.answering().remove(&key).is_none();
                    let answer = if was_cancelled { Err(RpcError::cancelled()) } else { answer };
                    agent.peer.respond(&id, answer);
                    return agent.finish_request(After::Prompted(prompting)).await;
                }
                Begun::Request | Begun::Answer(_) => {
                    let answering = agent.answer(&method, &params);
                    stop.run_until_cancelled(answering).await.unwrap_or(Err(RpcError::cancelled()))
                }
            };
            agent.answering().remove(&key);
            let (answer, after) = match answer {
                Ok((answer, after)) => (Ok(answer), after),
                Err(error) => (Err(error), After::Nothing),
            };
            agent.peer.respond(&id, answer);
            agent.finish_request(after).await;
        });
    }

    /// Handles a notification. Unknown ones are ignored.
    pub(super) fn handle_notification(&self, method: &str, params: &Value) {
        match method {
            "session/cancel" => {
                if let Ok(session) = session_id(params).and_then(|id| self.session(id)) {
                    session.cancel();
                }
            }
            "$/cancel_request" => {
                let id = params.get("requestId").map(ToString::to_string).unwrap_or_default();
                if let Some(stop) = self.answering().remove(&id) {
                    stop.cancel();
                }
            }
            _ => {}
        }
    }

    fn initialize(&self, params: &Value) -> Result<Value, RpcError> {
        let client = Client::read(params)?;
        if self.client.set(client).is_err() {
            return Err(RpcError::new(RpcError::REQUEST, "`initialize` was answered already"));
        }
        Ok(client.answer(&self.version))
    }

    fn begin_prompt(&self, params: &Value, stop: &CancellationToken) -> Result<Begun, RpcError> {
        let session = self.session(session_id(params)?)?;
        let prompt = Prompt::read(params)?;
        let prompting = session.begin_prompt(stop)?;
        Ok(Begun::Prompt(Box::new((session, prompt, prompting))))
    }

    async fn finish_request(&self, after: After) {
        match after {
            After::Nothing => {}
            After::Opened(session) => session.send_commands().await,
            After::Prompted(prompting) => drop(prompting),
        }
    }

    async fn answer(&self, method: &str, params: &Value) -> Result<(Value, After), RpcError> {
        let answer = match method {
            "session/new" => return Box::pin(self.new_session(params)).await,
            "session/load" => return Box::pin(self.load(params, true)).await,
            "session/resume" => return Box::pin(self.load(params, false)).await,
            "session/fork" => return Box::pin(self.fork(params)).await,
            "session/list" => self.list(params).await?,
            "session/close" => self.close_session(session_id(params)?).await?,
            "session/delete" => self.delete(session_id(params)?).await?,
            "session/set_mode" => self.set_mode(params).await?,
            "session/set_config_option" => self.set_option(params).await?,
            "authenticate" => self.authenticate(params).await?,
            "logout" => self.log_out().await?,
            other => return Err(RpcError::unknown_method(other)),
        };
        Ok((answer, After::Nothing))
    }

    async fn set_mode(&self, params: &Value) -> Result<Value, RpcError> {
        let session = self.session(session_id(params)?)?;
        let mode = params.get("modeId").and_then(Value::as_str);
        options::set_mode(&session.hosted, mode.ok_or_else(|| RpcError::params("`modeId` is missing"))?)?;
        session.send_choices(Some("mode")).await;
        Ok(json!({}))
    }

    async fn set_option(&self, params: &Value) -> Result<Value, RpcError> {
        let session = self.session(session_id(params)?)?;
        let field = |name: &str| {
            let text = params.get(name).and_then(Value::as_str);
            text.ok_or_else(|| RpcError::params(format!("`{name}` is no text")))
        };
        options::set(&session.hosted, field("configId")?, field("value")?).await?;
        let options = session.send_choices(Some("option")).await;
        Ok(json!({ "configOptions": options }))
    }

    async fn authenticate(&self, params: &Value) -> Result<Value, RpcError> {
        match params.get("methodId").and_then(Value::as_str) {
            Some(KEYS_METHOD) => {}
            Some(TERMINAL_METHOD) => {
                return Err(RpcError::params("this sign-in runs in a terminal: `zk auth login`"));
            }
            Some(other) => return Err(RpcError::params(format!("zk has no sign-in `{other}`"))),
            None => return Err(RpcError::params("`methodId` is missing")),
        }
        // A conversation opens only with a usable key, so opening one checks the sign-in. Nothing of it is
        // stored.
        let mut request = LaunchRequest::default();
        request.settings.insert("sessions".into(), false.into());
        let unattended = HostedOptions { attended: false, asks_about_project: false };
        HostedConversation::open(self.launcher.launch(&request)?, unattended).await?.close().await;
        Ok(json!({}))
    }

    /// Removes the stored credentials of the providers of all open sessions.
    async fn log_out(&self) -> Result<Value, RpcError> {
        let sessions: Vec<Arc<Session>> = self.sessions().iter().flat_map(HashMap::values).cloned().collect();
        if sessions.is_empty() {
            return Err(RpcError::internal("no session is open: `zk auth logout NAME` forgets a key"));
        }
        let mut done = BTreeSet::new();
        for session in sessions {
            let provider = session.hosted.agent().model().provider.to_string();
            if done.insert(provider.clone()) {
                session.hosted.factory().sign_out(&provider).await?;
            }
        }
        Ok(json!({}))
    }
}

/// Request that is answered already, or still has to run.
enum Begun {
    Answer(Value),
    Request,
    Prompt(Box<(Arc<Session>, Prompt, OwnedMutexGuard<()>)>),
}

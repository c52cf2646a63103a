use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use zk_core::kernel::Cx;
use zk_core::service::{Connections, Exec, ExecRequest, Input, Ui};

use super::incoming::AgentCalls;
use super::protocol::{AuthMethod, InitializeAnswer, PROTOCOL_VERSION, SessionAnswer, initialize_params};
use super::session::{AcpSession, Delivered};
use crate::definition::BackendDefinition;
use crate::lock::lock;
use crate::peer::{AUTH_REQUIRED, CallError, Peer};

/// Time limit for the first answer of an agent, since a package runner may have to download its package.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Time limit for opening a session, since a loaded session replays its whole history.
const SESSION_LIMIT: Duration = Duration::from_secs(60);

/// Time limit for changing a setting of a session.
const OPTION_LIMIT: Duration = Duration::from_secs(10);

/// Time limit for a cancelled prompt to end, after which the agent's process is ended.
pub(crate) const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of characters of the agent's error output that a message quotes.
const MAX_STDERR_CHARS: usize = 400;

/// Name of the model of an agent that chooses its model itself.
pub(crate) const DEFAULT_MODEL: &str = "default";

/// Executors of the host for agents.
#[derive(Clone)]
pub struct AgentExecs {
    /// Executor outside of any sandbox.
    pub plain: Arc<dyn Exec>,
    /// Executor in the sandbox of the model's commands; `None` without a sandbox.
    pub sandbox: Option<Arc<dyn Exec>>,
}

impl std::fmt::Debug for AgentExecs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentExecs").field("sandbox", &self.sandbox.is_some()).finish_non_exhaustive()
    }
}

/// Reason why an agent cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentFault {
    /// The program cannot be started, or has ended.
    #[error("{0}")]
    Gone(String),
    /// The agent requires a sign-in.
    #[error("{0}")]
    SignIn(String),
    /// The agent does not follow the protocol.
    #[error("{0}")]
    Protocol(String),
}

/// Agent that speaks the Agent Client Protocol, with its sessions. The process is started on demand.
pub(crate) struct AcpAgent {
    pub(crate) definition: BackendDefinition,
    execs: AgentExecs,
    running: tokio::sync::Mutex<Option<Arc<RunningAgent>>>,
    facts: Mutex<Facts>,
}

#[derive(Default)]
struct Facts {
    /// Ids of the agent's sessions, by ids of zk's sessions.
    stored: HashMap<String, String>,
    /// Session ids that are recorded in zk's sessions already: the agent's ids by zk's ids.
    recorded: HashMap<String, String>,
    /// Blocks of each session's last prompt that the agent received, by ids of zk's sessions.
    delivered: HashMap<String, Delivered>,
    models: Vec<String>,
    has_told: bool,
}

/// Running process of an agent, with its open sessions.
pub(crate) struct RunningAgent {
    pub(crate) peer: Arc<Peer>,
    pub(crate) calls: Arc<AgentCalls>,
    pub(crate) answer: InitializeAnswer,
    /// Open sessions, by ids of zk's sessions.
    sessions: Mutex<HashMap<String, Arc<AcpSession>>>,
    /// Method to choose a session's model, by the agent's session id: the id of an option, or `None` for
    /// `session/set_model`.
    model_options: Mutex<HashMap<String, Option<String>>>,
}

/// Session for a conversation, ready for a prompt.
pub(crate) struct OpenSession {
    pub(crate) running: Arc<RunningAgent>,
    pub(crate) session: Arc<AcpSession>,
    /// Whether the session is new, so that the agent does not know the earlier conversation.
    pub(crate) is_new: bool,
}

impl AcpAgent {
    pub(crate) fn new(definition: BackendDefinition, execs: AgentExecs) -> Self {
        Self { definition, execs, running: tokio::sync::Mutex::default(), facts: Mutex::default() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.definition.name
    }

    /// Whether the agent's process runs in the sandbox.
    pub(crate) fn is_sandboxed(&self) -> bool {
        self.definition.is_sandboxed && self.execs.sandbox.is_some()
    }

    /// Describes in lines the limits that zk cannot enforce on the agent.
    pub(crate) fn unenforced_limits(&self) -> Vec<String> {
        let mut lines = vec![
            "it runs tools of its own: zk asks you only about what it asks zk about, and modes, rules and hooks hold for \
             that alone"
                .to_owned(),
            "your permission mode answers what it asks before you do: `auto` and `accept-edits` let it change files of \
             the project without a card, `ask` does not"
                .to_owned(),
            "limits of zk on tools, tokens and cost do not bind it".to_owned(),
        ];
        lines.push(if self.is_sandboxed() {
            let hosts = match self.definition.hosts.as_slice() {
                [] => "no host".to_owned(),
                hosts => hosts.join(", "),
            };
            format!("its process is in the sandbox: it writes to the project alone and reaches {hosts}")
        } else if self.definition.is_sandboxed {
            "its process runs as you, with all your files and the network: there is no sandbox here"
                .to_owned()
        } else {
            "its process runs as you, with all your files and the network: `sandbox = false`".to_owned()
        });
        lines
    }

    /// Shows the person the limits that zk cannot enforce, once.
    pub(crate) fn show_limits_once(&self, cx: &Cx) {
        if std::mem::replace(&mut self.lock_facts().has_told, true) {
            return;
        }
        if let Some(ui) = cx.service::<dyn Ui>() {
            ui.notify(&format!("{}: its own permissions", self.name()));
            self.unenforced_limits().iter().for_each(|line| ui.notify(&format!("  {line}")));
        }
    }

    /// Marks the limits that zk cannot enforce as shown.
    pub(crate) fn mark_limits_shown(&self) {
        self.lock_facts().has_told = true;
    }

    pub(crate) fn models(&self) -> Vec<String> {
        self.lock_facts().models.clone()
    }

    /// Starts the agent, unless it is running.
    pub(crate) async fn start(&self, cwd: &Path) -> Result<Arc<RunningAgent>, AgentFault> {
        let mut running = self.running.lock().await;
        if let Some(running) = running.as_ref().filter(|running| running.peer.is_alive()) {
            return Ok(running.clone());
        }
        let begun = Arc::new(self.launch(cwd).await?);
        *running = Some(begun.clone());
        Ok(begun)
    }

    async fn launch(&self, cwd: &Path) -> Result<RunningAgent, AgentFault> {
        let BackendDefinition { program, args, env, hosts, .. } = &self.definition;
        let os = |text: &String| OsString::from(text);
        let request = ExecRequest {
            args: args.iter().map(os).collect(),
            env: env.iter().map(|(name, value)| (os(name), os(value))).collect::<BTreeMap<_, _>>(),
            input: Input::Piped,
            connections: (!hosts.is_empty()).then(|| Connections { hosts: hosts.clone(), any_public: false }),
            ..ExecRequest::new(program.as_str(), cwd)
        };
        let sandbox = self.execs.sandbox.as_ref().filter(|_| self.definition.is_sandboxed);
        let exec = sandbox.unwrap_or(&self.execs.plain);
        let process = exec.spawn(request).await.map_err(|error| AgentFault::Gone(error.to_string()))?;
        let outside = !self.is_sandboxed();
        let (peer, calls) =
            Peer::connect(process, |_| Arc::new(AgentCalls::new(self.name().to_owned(), outside)));
        let answer = peer.request_within(START_LIMIT, "initialize", initialize_params()).await;
        let answer = match answer {
            Ok(answer) => parse_answer::<InitializeAnswer>(answer, "initialize"),
            Err(error) => Err(self.call_fault(&peer, &[], error)),
        };
        let answer = match answer {
            Ok(answer) if answer.protocol_version == PROTOCOL_VERSION => answer,
            Ok(answer) => {
                peer.close().await;
                return Err(AgentFault::Protocol(format!(
                    "it speaks version {} of the Agent Client Protocol, and zk speaks {PROTOCOL_VERSION}; use \
                     another version of the agent",
                    answer.protocol_version
                )));
            }
            Err(fault) => {
                peer.close().await;
                return Err(fault);
            }
        };
        Ok(RunningAgent { peer, calls, answer, sessions: Mutex::default(), model_options: Mutex::default() })
    }

    /// Returns the agent's session for a conversation: the open one, the stored one, or a new one.
    pub(crate) async fn open_session(&self, key: &str, cwd: &Path) -> Result<OpenSession, AgentFault> {
        let running = self.start(cwd).await?;
        let known = lock(&running.sessions).get(key).cloned();
        if let Some(session) = known {
            return Ok(OpenSession { running, session, is_new: false });
        }
        let stored = self.lock_facts().stored.get(key).cloned();
        if let Some(id) = stored.filter(|_| running.answer.agent_capabilities.load_session)
            && let Some(session) = self.load_session(&running, &id, self.delivered_blocks(key), cwd).await?
        {
            lock(&running.sessions).insert(key.to_owned(), session.clone());
            return Ok(OpenSession { running, session, is_new: false });
        }
        let params = json!({ "cwd": cwd, "mcpServers": [] });
        let answer = running.peer.request_within(SESSION_LIMIT, "session/new", params).await;
        let answer = answer.map_err(|error| self.prompt_fault(&running, error))?;
        let answer: SessionAnswer = parse_answer(answer, "session/new")?;
        if answer.session_id.is_empty() {
            return Err(AgentFault::Protocol("its answer to `session/new` names no session".to_owned()));
        }
        let delivered = self.delivered_blocks(key);
        lock(&delivered).clear();
        let session = AcpSession::new(answer.session_id.clone(), delivered, false);
        self.store_models(&running, &session.id, &answer);
        running.calls.add(session.clone());
        lock(&running.sessions).insert(key.to_owned(), session.clone());
        self.lock_facts().stored.insert(key.to_owned(), session.id.clone());
        Ok(OpenSession { running, session, is_new: true })
    }

    /// Loads a stored session; `None` if the agent no longer has it.
    async fn load_session(
        &self,
        running: &Arc<RunningAgent>,
        id: &str,
        delivered: Delivered,
        cwd: &Path,
    ) -> Result<Option<Arc<AcpSession>>, AgentFault> {
        let session = AcpSession::new(id.to_owned(), delivered, true);
        running.calls.add(session.clone());
        let params = json!({ "sessionId": id, "cwd": cwd, "mcpServers": [] });
        let answer = running.peer.request_within(SESSION_LIMIT, "session/load", params).await;
        match answer {
            Ok(answer) => {
                session.end_replay();
                if let Ok(answer) = serde_json::from_value::<SessionAnswer>(answer) {
                    self.store_models(running, id, &answer);
                }
                Ok(Some(session))
            }
            Err(CallError::Refused { code, .. }) if code != AUTH_REQUIRED => {
                running.calls.remove(id);
                Ok(None)
            }
            Err(error) => Err(self.prompt_fault(running, error)),
        }
    }

    /// Stores the available models of a session, and the method to choose one.
    fn store_models(&self, running: &RunningAgent, id: &str, answer: &SessionAnswer) {
        let mut options = answer.config_options.iter().flatten();
        let option = options.find(|option| option.category.as_deref() == Some("model"));
        let (models, chosen_by) = match (option, &answer.models) {
            (Some(option), _) => (option.values(), Some(option.id.clone())),
            (None, Some(models)) => {
                (models.available_models.iter().map(|model| model.model_id.clone()).collect(), None)
            }
            (None, None) => return,
        };
        lock(&running.model_options).insert(id.to_owned(), chosen_by);
        self.lock_facts().models = models;
    }

    /// Sets the model of a session, if the agent allows that.
    pub(crate) async fn choose_model(&self, open: &OpenSession, model: &str) -> Result<(), AgentFault> {
        if model == DEFAULT_MODEL {
            return Ok(());
        }
        let session = &open.session.id;
        let option = lock(&open.running.model_options).get(session).cloned();
        let (method, params) = match option {
            Some(Some(option)) => (
                "session/set_config_option",
                json!({ "sessionId": session, "configId": option, "value": model }),
            ),
            Some(None) => ("session/set_model", json!({ "sessionId": session, "modelId": model })),
            None => {
                return Err(AgentFault::Protocol(format!(
                    "it lets nobody choose its model; /model {}/{DEFAULT_MODEL} leaves that to it",
                    self.name()
                )));
            }
        };
        let answer = open.running.peer.request_within(OPTION_LIMIT, method, params).await;
        answer.map(|_| ()).map_err(|error| self.prompt_fault(&open.running, error))
    }

    /// Returns the running agent and the open session of a conversation.
    pub(crate) async fn find_session(&self, key: &str) -> Option<(Arc<RunningAgent>, Arc<AcpSession>)> {
        let running = self.running.lock().await.clone()?;
        let session = lock(&running.sessions).get(key).cloned()?;
        Some((running, session))
    }

    /// Cancels the prompt of a session, and ends an agent that does not stop.
    pub(crate) fn cancel(running: &Arc<RunningAgent>, session: &Arc<AcpSession>) {
        if !session.cancel(&running.peer) {
            return;
        }
        let (running, session) = (running.clone(), session.clone());
        tokio::spawn(async move { running.wait_until_cancelled(&session).await });
    }

    /// Returns the id of the agent's session if it is not stored in the conversation yet, and marks it as
    /// stored.
    pub(crate) fn take_unrecorded_id(&self, key: &str) -> Option<String> {
        let mut facts = self.lock_facts();
        let id = facts.stored.get(key)?.clone();
        (facts.recorded.insert(key.to_owned(), id.clone()).as_ref() != Some(&id)).then_some(id)
    }

    /// Sets the agent's session of a conversation, read from its stored entry.
    pub(crate) fn restore_session(&self, key: &str, id: String) {
        let mut facts = self.lock_facts();
        facts.recorded.insert(key.to_owned(), id.clone());
        facts.stored.insert(key.to_owned(), id);
    }

    /// Cancels the open prompts of a run that has ended, for example at a limit.
    pub(crate) fn cancel_prompts_of_run(&self, run: &str) {
        let Ok(running) = self.running.try_lock() else { return };
        let Some(running) = running.clone() else { return };
        let of_run =
            |session: &Arc<AcpSession>| session.active_place().is_some_and(|place| place.cx.run_id() == run);
        let sessions: Vec<_> =
            lock(&running.sessions).values().filter(|session| of_run(session)).cloned().collect();
        sessions.iter().for_each(|session| Self::cancel(&running, session));
    }

    /// Ends the agent and all processes that it started.
    pub(crate) async fn stop(&self) {
        let running = self.running.lock().await.take();
        if let Some(running) = running {
            running.peer.close().await;
        }
    }

    /// Converts the error of a prompt, with the end of the agent's error output.
    pub(crate) fn prompt_fault(&self, running: &RunningAgent, error: CallError) -> AgentFault {
        self.call_fault(&running.peer, &running.answer.auth_methods, error)
    }

    fn call_fault(&self, peer: &Peer, methods: &[AuthMethod], error: CallError) -> AgentFault {
        match error {
            CallError::Refused { code: AUTH_REQUIRED, message } => {
                AgentFault::SignIn(sign_in_advice(&message, methods))
            }
            CallError::Gone(why) => AgentFault::Gone(with_stderr_tail(&why, peer)),
            CallError::Late { .. } => AgentFault::Gone(with_stderr_tail(&error.to_string(), peer)),
            CallError::Refused { .. } => AgentFault::Protocol(error.to_string()),
        }
    }

    fn delivered_blocks(&self, key: &str) -> Delivered {
        self.lock_facts().delivered.entry(key.to_owned()).or_default().clone()
    }

    fn lock_facts(&self) -> MutexGuard<'_, Facts> {
        lock(&self.facts)
    }
}

impl RunningAgent {
    /// Waits for the end of a cancelled prompt, and ends an agent that continues.
    pub(crate) async fn wait_until_cancelled(&self, session: &AcpSession) {
        if tokio::time::timeout(CANCEL_LIMIT, session.wait_for_prompt_end()).await.is_err() {
            let seconds = CANCEL_LIMIT.as_secs();
            self.peer
                .fail_connection(format!("it was told to stop, did not within {seconds} s, and was ended"));
        }
    }
}

/// Appends the end of the agent's error output to a reason.
pub(crate) fn with_stderr_tail(why: &str, peer: &Peer) -> String {
    match peer.stderr_tail(MAX_STDERR_CHARS) {
        said if said.is_empty() => why.to_owned(),
        said => format!("{why}; its last words: {said}"),
    }
}

/// Advice about the agent's sign-in, for an error message.
pub(crate) fn sign_in_advice(message: &str, methods: &[AuthMethod]) -> String {
    let named = |method: &AuthMethod| {
        let name = if method.name.is_empty() { &method.id } else { &method.name };
        match &method.description {
            Some(description) => format!("{name} ({description})"),
            None => name.clone(),
        }
    };
    let methods: Vec<String> = methods.iter().map(named).collect();
    let ways = match methods.as_slice() {
        [] => "sign in with the agent's own program".to_owned(),
        ways => format!("sign in with the agent's own program; its ways: {}", ways.join(", ")),
    };
    format!("it wants you to sign in first ({message}): {ways}, then send the prompt again")
}

fn parse_answer<T: serde::de::DeserializeOwned>(answer: Value, method: &str) -> Result<T, AgentFault> {
    serde_json::from_value(answer)
        .map_err(|error| AgentFault::Protocol(format!("its answer to `{method}` cannot be read: {error}")))
}

/// Makes a path absolute, relative to `/`.
pub(crate) fn absolute_path(cwd: &Path) -> PathBuf {
    if cwd.is_absolute() { cwd.to_owned() } else { Path::new("/").join(cwd) }
}

//! State of one served program: its conversation, its channel to the host, and what happened in the present turn.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Map, Value, json};
use tokio::sync::watch;
use zk_agent::Agent;
use zk_chat::{ConversationLauncher, HostedConversation};
use zk_core::model::ModelStats;
use zk_core::service::{Conversation, Exec, HostFiles, Redactor};
use zk_permission::ModeSwitch;

use super::args::{Given, HostRule, SdkArgs};
use super::channel::Channel;
use super::names::Names;
use super::transcript::Transcripts;
use super::wire::{fresh_uuid, uuid_of_id};

/// Version of the protocol, which SDKs compare with theirs.
pub(super) const PROTOCOL_VERSION: &str = "2.1.331";

/// Receiver of warnings from outside of a run.
pub type NoticeSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Choices of the program that serves an Agent SDK.
#[derive(Clone)]
pub struct SdkOptions {
    /// Arguments that the SDK gave.
    pub args: SdkArgs,
    /// Directory to work in.
    pub cwd: PathBuf,
    /// Directory that the host named for its files; transcripts are written below it.
    pub config_dir: Option<PathBuf>,
    /// Home of the person.
    pub home: Option<PathBuf>,
    /// Reader of this machine's files, for files that arguments name.
    pub host_files: Arc<dyn HostFiles>,
    /// Executor of the person's own programs. Hooks run on it, out of reach of the model's commands.
    pub own_programs: Arc<dyn Exec>,
    /// Whether commands of the model run on another machine or in a container.
    pub works_elsewhere: bool,
    /// Whether the host wants messages about the state of a turn: running, asking, idle.
    pub reads_session_state: bool,
    /// Version of the program.
    pub version: String,
    /// Redactor for everything that is written.
    pub redactor: Arc<Redactor>,
    /// Function that directs later notices to a sink.
    pub route_notices: Arc<dyn Fn(NoticeSink) + Send + Sync>,
}

impl std::fmt::Debug for SdkOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SdkOptions").field("args", &self.args).field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

/// Tool and arguments that the host approved in place of the model's.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Replacement {
    pub(super) tool: String,
    pub(super) args: Value,
}

/// State of the current turn.
#[derive(Default)]
pub(super) struct TurnState {
    pub(super) init_sent: bool,
    pub(super) denials: Vec<Value>,
    /// Calls that have no result yet.
    pub(super) open_calls: Vec<String>,
    /// Whether an answer is arriving.
    pub(super) streaming: bool,
    /// Text of the arriving answer so far.
    pub(super) begun_text: String,
}

/// State of questions and permission modes.
#[derive(Default)]
pub(super) struct AskingState {
    /// The SDK's name of the mode before plan mode.
    pub(super) before_plan: Option<String>,
    /// Whether the host forbade modes that never ask.
    pub(super) keeps_asking: bool,
    /// Server and tool of the host that answer questions about calls, in place of the host's callback.
    pub(super) prompter: Option<(String, String)>,
}

/// State of the conversation.
#[derive(Default)]
pub(super) struct Known {
    pub(super) session: String,
    pub(super) turn: TurnState,
    /// Reasons of the host for calls that it refused, by call id.
    pub(super) refusals: HashMap<String, String>,
    /// Calls at the gates: tool, arguments and id.
    pub(super) calls: Vec<(String, Value, String)>,
    pub(super) replacements: HashMap<String, Replacement>,
    /// Repeated calls with the host's own arguments, for which its decision is known.
    pub(super) decided: Vec<Replacement>,
    /// Rules that the host gave for the session.
    pub(super) rules: Vec<HostRule>,
    /// Task and call id of sub-agents that are being started.
    pub(super) spawning: Vec<(String, String)>,
    /// Ids of the calls that started sub-agents, by the sub-agent's name.
    pub(super) parents: HashMap<String, String>,
    pub(super) cost: f64,
    pub(super) models: BTreeMap<String, ModelStats>,
    /// The SDK's name of the permission mode.
    pub(super) mode: String,
    pub(super) asking: AskingState,
    pub(super) notices: Vec<String>,
    pub(super) default_model: Option<zk_core::model::Model>,
    /// MCP servers inside the host, with their tools.
    pub(super) servers: Vec<(String, Value)>,
    pub(super) commands: Vec<String>,
    pub(super) agents: Vec<String>,
    pub(super) output_style: String,
    /// Lines of sub-agents that are not in a transcript yet, by agent.
    pub(super) sidechains: BTreeMap<String, Vec<Value>>,
}

/// The served SDK host, with everything known about it.
pub(super) struct Host {
    pub(super) launcher: Arc<dyn ConversationLauncher>,
    pub(super) options: SdkOptions,
    pub(super) channel: Channel,
    pub(super) names: Arc<Names>,
    pub(super) first: Mutex<Value>,
    /// Parsed arguments with the contents of the files that they name. They are read once, since a model may
    /// change such files later.
    pub(super) given: OnceLock<Given>,
    pub(super) transcripts: Transcripts,
    known: Mutex<Known>,
    conversation: watch::Sender<Option<Arc<HostedConversation>>>,
}

impl Host {
    pub(super) fn new(
        launcher: Arc<dyn ConversationLauncher>,
        options: SdkOptions,
        channel: Channel,
    ) -> Self {
        let (conversation, _) = watch::channel(None);
        let mode = options.args.text("permission-mode").unwrap_or_default().to_owned();
        Self {
            launcher,
            channel,
            names: Arc::default(),
            first: Mutex::new(Value::Null),
            given: OnceLock::new(),
            transcripts: Transcripts::new(&options),
            known: Mutex::new(Known { mode, session: fresh_uuid(), ..Known::default() }),
            conversation,
            options,
        }
    }

    pub(super) fn args(&self) -> &SdkArgs {
        &self.options.args
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a field of the first request.
    pub(super) fn asked(&self, key: &str) -> Option<Value> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Whether somebody answers questions about calls.
    pub(super) fn is_attended(&self) -> bool {
        let args = self.args();
        let asks = match args.text("permission-prompts") {
            Some("none") => false,
            Some("host") => true,
            Some(_) | None => args.text("permission-prompt-tool").is_some_and(|tool| !tool.is_empty()),
        };
        asks && self.known().mode != "dontAsk"
    }

    /// Replaces the current conversation.
    pub(super) fn set_conversation(&self, hosted: Option<Arc<HostedConversation>>) {
        if let Some(hosted) = &hosted {
            let session = hosted.conversation().state().session;
            let id = session.map_or_else(fresh_uuid, |id| uuid_of_id(id.as_str(), 0));
            let mut known = self.known();
            known.session = id;
            known.default_model.get_or_insert_with(|| hosted.agent().model());
        }
        self.conversation.send_replace(hosted);
    }

    /// Waits until the conversation is open, and returns it.
    pub(super) async fn conversation(&self) -> Option<Arc<HostedConversation>> {
        let mut changes = self.conversation.subscribe();
        changes.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// The conversation, if it is open.
    pub(super) fn present(&self) -> Option<Arc<HostedConversation>> {
        self.conversation.borrow().clone()
    }

    /// Sends a line with a new UUID and the session's id.
    pub(super) fn send(&self, mut line: Value) {
        if let Some(fields) = line.as_object_mut() {
            fields.entry("uuid").or_insert_with(|| fresh_uuid().into());
            fields.entry("session_id").or_insert_with(|| self.known().session.clone().into());
        }
        self.channel.send(line);
    }

    /// Sends the state of the turn, if the host wants it.
    pub(super) fn send_state(&self, state: &str) {
        if self.options.reads_session_state {
            self.send(json!({
                "type": "system", "subtype": "session_state_changed", "state": state, "sdk_host_only": true,
            }));
        }
    }

    /// Sends a warning to the host, after the first line of the turn.
    pub(super) fn warn_host(&self, text: &str) {
        {
            let mut known = self.known();
            if !known.turn.init_sent {
                known.notices.push(text.to_owned());
                return;
            }
        }
        self.send_informational(text, "warning", "zk_notice");
    }

    pub(super) fn send_informational(&self, text: &str, level: &str, tag: &str) {
        self.send(json!({"type": "system", "subtype": "informational", "content": text, "level": level, "tag": tag}));
    }

    /// Sends the first line of a turn, once.
    pub(super) fn send_init(&self, agent: Option<&Agent>, tools: &[String]) {
        let notices = {
            let mut known = self.known();
            if std::mem::replace(&mut known.turn.init_sent, true) {
                return;
            }
            std::mem::take(&mut known.notices)
        };
        self.send(self.init_line(agent, tools));
        notices.iter().for_each(|text| self.send_informational(text, "warning", "zk_notice"));
    }

    fn init_line(&self, agent: Option<&Agent>, tools: &[String]) -> Value {
        let tools: Vec<String> = tools.iter().map(|tool| self.names.to_sdk_name(tool)).collect();
        let (mode, servers, commands, style) = {
            let known = self.known();
            let servers: Vec<Value> = known
                .servers
                .iter()
                .map(|(name, _)| json!({"name": name, "status": "connected", "source": "sdk"}))
                .collect();
            (known.mode.clone(), servers, known.commands.clone(), known.output_style.clone())
        };
        let agents = self.agent_names();
        json!({
            "type": "system",
            "subtype": "init",
            "cwd": self.options.cwd,
            "tools": tools,
            "mcp_servers": servers,
            "model": agent.map(|agent| agent.model().id),
            "permissionMode": mode,
            "slash_commands": commands,
            "apiKeySource": "none",
            "claude_code_version": PROTOCOL_VERSION,
            "zk_version": self.options.version,
            "output_style": style,
            "agents": agents,
            "skills": [],
            "plugins": [],
            "capabilities": ["sdk_mcp_manifests"],
        })
    }

    /// Names of the sub-agents that a model may begin.
    pub(super) fn agent_names(&self) -> Vec<String> {
        let asked = self.asked("agents").unwrap_or_default();
        let mut names: Vec<String> =
            asked.as_object().map(|agents| agents.keys().cloned().collect()).unwrap_or_default();
        let known = self.known().agents.clone();
        names.extend(known.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
        names
    }

    /// The mode switch of the conversation.
    pub(super) fn modes(&self) -> Option<Arc<ModeSwitch>> {
        self.present()?.agent().bus().service::<ModeSwitch>()
    }

    /// Returns call id and name of a sub-agent; nothing for the conversation's own agent.
    pub(super) fn parent_of(&self, agent: &str, depth: u32) -> (Value, Option<String>) {
        if depth == 0 {
            return (Value::Null, None);
        }
        let call = self.known().parents.get(agent).cloned();
        (call.map_or(Value::Null, Value::from), Some(agent.to_owned()))
    }

    /// Returns the fields that identify the agent of a line.
    pub(super) fn of_agent(&self, agent: &str, depth: u32) -> Map<String, Value> {
        let (parent, agent) = self.parent_of(agent, depth);
        let mut fields = Map::new();
        fields.insert("parent_tool_use_id".to_owned(), parent);
        if let Some(agent) = agent {
            fields.insert("agent_id".to_owned(), agent.into());
        }
        fields
    }
}

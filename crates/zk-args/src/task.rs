use std::net::SocketAddr;
use std::path::PathBuf;

use clap::CommandFactory;
use thiserror::Error;
use zk_providers::select::GivenValues;

use crate::actions::{
    AuthAction, ConfigAction, CostAction, CostBy, DebugAction, DoctorArgs, HooksAction, LearnedAction,
    McpAction, PolicyAction, PromptAction, SessionsAction, ShellAction, ShellArgs, SkillsAction, TrustAction,
};
use crate::candidates::Shell;
use crate::cli::{Cli, CliCommand, Deferred, OutputFormat, ViewFormat};
use crate::ext::ExtAction;
use crate::fleet::{FleetAction, HandoffArgs, WorkerArgs};
use crate::launch::Launch;
use crate::memory::MemoryAction;
use crate::plugin::PluginAction;
use crate::replay::ReplayArgs;
use zk_settings::LayerValues;

#[cfg(test)]
mod tests;

/// Command line whose parts do not go together, in words for the person.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct UsageError(String);

impl UsageError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Meaning of a command line.
#[derive(Debug)]
pub enum Request {
    /// Prints the page of the documentation on this topic, without reading settings: an unreadable file keeps nobody
    /// from reading about it.
    Help(Vec<String>),
    /// Prints the script for the start file of this remote shell, without reading settings: the start of a shell does not
    /// depend on the directory.
    ShellInit(String),
    /// Does a job with the settings.
    Task(Box<Task>),
}

/// Job, settings and options of a command line.
#[derive(Debug)]
pub struct Task {
    /// Work to do.
    pub job: Job,
    /// Settings and sources of the start.
    pub launch: Launch,
    /// Address and key for the selected provider, whichever it is.
    pub endpoint: GivenValues,
    /// Working directory; the one of the process unless given.
    pub cwd: Option<PathBuf>,
    /// Level of the log, and its file, as they were given.
    pub log: Option<String>,
}

/// Work that a command line asks for.
#[derive(Debug, PartialEq)]
#[expect(missing_docs, reason = "each job is described at its command, in `CliCommand`")]
pub enum Job {
    /// A run without a person, or a conversation.
    Prompt(Prompt),
    Sessions(SessionsAction),
    Fleet {
        action: Option<FleetAction>,
        json: bool,
    },
    Worker(WorkerArgs),
    Attach(String),
    Handoff(HandoffArgs),
    Undo {
        count: usize,
        yes: bool,
        session: Option<String>,
    },
    Redo {
        yes: bool,
        session: Option<String>,
    },
    TurnDiff {
        turn: Option<u64>,
        session: Option<String>,
    },
    Memory(MemoryAction),
    Replay(ReplayArgs),
    Context {
        id: Option<String>,
        json: bool,
    },
    Auth(AuthAction),
    ConfigKeys,
    ConfigGet {
        key: String,
        origin: bool,
    },
    ConfigChange {
        key: String,
        /// New value; `None` removes the setting.
        value: Option<String>,
        project: bool,
    },
    ConfigEdit {
        project: bool,
    },
    ConfigSchema {
        of_result: bool,
    },
    ConfigShow {
        origin: bool,
    },
    Setup,
    Doctor(DoctorArgs),
    UpdateCheck,
    Demo {
        keep: bool,
    },
    Shell(ShellArgs),
    Models {
        filter: Vec<String>,
        json: bool,
    },
    Hooks,
    Learned(LearnedAction),
    Logs(Option<String>),
    Registry,
    ManualPages(PathBuf),
    Completions(Shell),
    Mcp(McpAction),
    Ext(ExtAction),
    /// Serves an editor.
    #[cfg(feature = "acp")]
    Acp,
    ExecServer {
        /// Socket to listen on; `None` for standard input and output.
        listen: Option<String>,
    },
    Rpc {
        socket: Option<PathBuf>,
        websocket: Option<SocketAddr>,
    },
    RpcSchema,
    ServeSessions {
        address: SocketAddr,
        token_file: Option<PathBuf>,
    },
    Web {
        address: SocketAddr,
    },
    Trust(TrustAction),
    /// The protocol of the Agent SDK, with its arguments.
    AgentSdk(Vec<String>),
    Skills(SkillsAction),
    PromptShow(PromptAction),
    Cost {
        action: Option<CostAction>,
        by: CostBy,
        all: bool,
        json: bool,
    },
    Plugin(PluginAction),
    Policy(PolicyAction),
}

impl Job {
    /// Whether the job works with the runs of the engine that the settings name.
    #[must_use]
    pub fn needs_engine(&self) -> bool {
        match self {
            Self::Fleet { action: Some(action), .. } => action.needs_engine(),
            Self::Doctor(args) => args.fleet,
            _ => matches!(self, Self::Worker(_) | Self::Attach(_) | Self::Handoff(_)),
        }
    }
}

/// Prompt for a run without a person, or for a conversation.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// Text of the prompt, if one was given.
    pub text: Option<String>,
    /// Whether printing was requested; otherwise it depends on the terminal.
    pub print: bool,
    /// Format of the output.
    pub format: Format,
    /// Session to go on with; a new one unless given.
    pub resume: Option<Resume>,
    /// File with the JSON Schema of the answer.
    pub schema: Option<PathBuf>,
    /// Goal of the run, which goes on by itself until it is reached.
    pub goal: Option<String>,
    /// Whether tool calls are shown on standard error.
    pub verbose: bool,
}

/// Format of a printed run.
pub type Format = OutputFormat;

/// Session to resume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    /// The newest session of this directory.
    Latest,
    /// The session with this id prefix.
    Id(String),
    /// A new session with this id, requested by another program.
    Named(String),
    /// A session that the person chooses once the conversation is open.
    Choose,
}

impl Task {
    /// Creates the job of an Agent SDK, whose arguments the server of its protocol parses.
    pub fn agent_sdk(words: Vec<String>) -> Self {
        let endpoint = GivenValues { base_url: None, api_key: None };
        Self { job: Job::AgentSdk(words), launch: Launch::default(), endpoint, cwd: None, log: None }
    }
}

/// Names in other programs, with the equivalent command of zk.
const OTHER_NAMES: [(&str, &str); 11] = [
    ("continue", "zk --continue"),
    ("key", "zk auth login"),
    ("keys", "zk auth login"),
    ("login", "zk auth login"),
    ("logout", "zk auth logout"),
    ("permissions", "zk policy"),
    ("resume", "zk --resume"),
    ("settings", "zk config show"),
    ("upgrade", "zk update --check"),
    ("usage", "zk cost"),
    ("version", "zk --version"),
];

impl Cli {
    /// Advice on a one-word prompt that is probably a misspelt command; `None` if printing was requested.
    pub fn near_command(&self) -> Option<String> {
        let word = self.prompt.as_deref().filter(|_| !self.print && self.command.is_none())?;
        if word.contains(char::is_whitespace) {
            return None;
        }
        let did_you_mean = |line: &str| format!("did you mean `{line}`?");
        if let Some((_, line)) = OTHER_NAMES.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)) {
            return Some(did_you_mean(line));
        }
        let most = word.chars().count() / 3;
        let cli = Self::command();
        let names = cli.get_subcommands().filter(|command| !command.is_hide_set());
        names
            .map(|command| {
                (strsim::osa_distance(&word.to_lowercase(), command.get_name()), command.get_name())
            })
            .filter(|(distance, _)| *distance <= most)
            .min()
            .map(|(_, name)| did_you_mean(&format!("zk {name}")))
    }

    /// Returns the meaning of the command line.
    ///
    /// # Errors
    /// When options contradict each other or a value cannot be used.
    pub fn into_request(self) -> Result<Request, UsageError> {
        let mut given = LayerValues::default();
        given.text("provider", "--provider", self.provider);
        given.text("model", "--model", self.model);
        given.text("system", "--system", self.system);
        given.text("append_system", "--append-system", self.append_system);
        given.text("thinking", "--thinking", self.thinking.map(|level| level.as_str().to_owned()));
        given.text("preset", "--preset", (!self.preset.is_empty()).then(|| self.preset.join(",")));
        given.text("context", "--run-in", self.context);
        given.text("screen", "--screen", self.screen);
        given.text("session_store", "--session-store", self.named.session_store.clone());
        given.text("debug_dump", "--debug-dump", self.records.debug_dump);
        given.count("max_turns", "--max-turns", self.max_turns);
        given.count("max_tokens", "--max-tokens", self.max_tokens);
        given.texts("tools.allowed", "--allowed-tools", self.allowed_tools);
        given.texts("tools.disallowed", "--disallowed-tools", self.disallowed_tools);
        given.number("max_budget_usd", "--max-budget-usd", self.max_budget_usd);
        given.count("max_tokens_total", "--max-tokens-total", self.max_tokens_total);
        // The flag agrees to autonomous turns, unless the settings of an administrator refuse them.
        given.flag("goals.autonomous", "--goal", self.ends.goal.is_some().then_some(true));
        given.flag("permissions.allow_all", "--allow-all", self.allow_all.then_some(true));
        let mode = self.permission_mode.map(|mode| mode.name().to_owned());
        given.text("permissions.mode", "--permission-mode", mode);
        // The question of a set-up is no conversation.
        let is_setup = matches!(self.command, Some(CliCommand::Setup));
        given.flag("sessions", "--no-session", (self.records.no_session || is_setup).then_some(false));

        let resume = match (self.continue_, self.resume) {
            (true, _) => Some(Resume::Latest),
            (false, Some(id)) if id.trim().is_empty() => {
                let is_print = self.print || self.view.is_some() || self.output_format.is_some();
                if is_print || self.prompt.is_some() {
                    return Err(UsageError::new(
                        "--resume needs an ID where there is a prompt; `zk sessions` lists them",
                    ));
                }
                Some(Resume::Choose)
            }
            (false, Some(id)) => Some(Resume::Id(id)),
            (false, None) => None,
        };
        let format = match self.view {
            Some(ViewFormat::Json) => Some(Format::ViewJson),
            None => self.output_format,
        };
        let job = match self.command {
            None => Job::Prompt(Prompt {
                text: self.prompt.filter(|text| !text.trim().is_empty()),
                print: self.print || format.is_some_and(|format| format != Format::Text),
                format: format.unwrap_or(Format::Text),
                resume,
                schema: self.ends.json_schema,
                goal: self.ends.goal,
                verbose: self.verbose,
            }),
            Some(_) if self.prompt.is_some() => {
                return Err(UsageError::new(
                    "a prompt and a command do not go together; put a prompt of several words in quotes",
                ));
            }
            Some(command) => {
                if self.print || format.is_some() || resume.is_some() || self.ends.goal.is_some() {
                    return Err(UsageError::new(
                        "--print, --output-format, --view, --continue, --resume and --goal need a prompt, not a command",
                    ));
                }
                match command {
                    CliCommand::Sessions { action } => Job::Sessions(
                        action.map_or(SessionsAction::List { all: false, json: false }, Deferred::into_inner),
                    ),
                    CliCommand::Fleet { action, json } => {
                        Job::Fleet { action: action.map(Deferred::into_inner), json }
                    }
                    CliCommand::Worker(Deferred(args)) => Job::Worker(args),
                    CliCommand::Attach { run } => Job::Attach(run),
                    CliCommand::Handoff(Deferred(args)) => Job::Handoff(args),
                    CliCommand::Undo { count, yes, session } => {
                        Job::Undo { count: usize::try_from(count).unwrap_or(usize::MAX), yes, session }
                    }
                    CliCommand::Redo { yes, session } => Job::Redo { yes, session },
                    CliCommand::Diff { turn, session } => Job::TurnDiff { turn, session },
                    CliCommand::Memory { action } => Job::Memory(action.map_or(
                        MemoryAction::List { all: false, proposed: false, json: false },
                        Deferred::into_inner,
                    )),
                    CliCommand::Replay(Deferred(args)) => Job::Replay(args),
                    CliCommand::Context { id, json } => Job::Context { id, json },
                    CliCommand::Auth { action } => Job::Auth(action.into_inner()),
                    CliCommand::Config { action: Deferred(ConfigAction::Keys) } => Job::ConfigKeys,
                    CliCommand::Config { action: Deferred(ConfigAction::Get { key, origin }) } => {
                        Job::ConfigGet { key, origin }
                    }
                    CliCommand::Config { action: Deferred(ConfigAction::Set { key, value, project }) } => {
                        Job::ConfigChange { key, value: Some(value), project }
                    }
                    CliCommand::Config { action: Deferred(ConfigAction::Unset { key, project }) } => {
                        Job::ConfigChange { key, value: None, project }
                    }
                    CliCommand::Config { action: Deferred(ConfigAction::Edit { project }) } => {
                        Job::ConfigEdit { project }
                    }
                    CliCommand::Config { action: Deferred(ConfigAction::Schema { result }) } => {
                        Job::ConfigSchema { of_result: result }
                    }
                    CliCommand::Config { action: Deferred(ConfigAction::Show { origin }) } => {
                        Job::ConfigShow { origin }
                    }
                    CliCommand::Setup => Job::Setup,
                    CliCommand::Doctor(Deferred(args)) => Job::Doctor(args),
                    CliCommand::Update { check: _ } => Job::UpdateCheck,
                    CliCommand::Demo { keep } => Job::Demo { keep },
                    CliCommand::Shell(Deferred(ShellArgs {
                        action: Some(ShellAction::Init { shell }),
                        ..
                    })) => {
                        return Ok(Request::ShellInit(shell));
                    }
                    CliCommand::Shell(Deferred(args)) => Job::Shell(args),
                    CliCommand::Models { filter, json } => Job::Models { filter, json },
                    CliCommand::Hooks { action: None | Some(Deferred(HooksAction::List)) } => Job::Hooks,
                    CliCommand::Learned { action } => {
                        Job::Learned(action.map_or(LearnedAction::List, Deferred::into_inner))
                    }
                    CliCommand::Logs { name } => Job::Logs(name),
                    CliCommand::Help { topic } => return Ok(Request::Help(topic)),
                    CliCommand::Debug { action: Deferred(DebugAction::Registry) } => Job::Registry,
                    CliCommand::Debug { action: Deferred(DebugAction::Man { dir }) } => Job::ManualPages(dir),
                    CliCommand::Completions { shell } => Job::Completions(shell),
                    CliCommand::Mcp { action } => {
                        Job::Mcp(action.map_or(McpAction::List, Deferred::into_inner))
                    }
                    CliCommand::Ext { action } => {
                        Job::Ext(action.map_or(ExtAction::List, Deferred::into_inner))
                    }
                    CliCommand::Plugin { action } => {
                        Job::Plugin(action.map_or(PluginAction::List { json: false }, Deferred::into_inner))
                    }
                    CliCommand::Policy { action } => {
                        Job::Policy(action.map_or(PolicyAction::List, Deferred::into_inner))
                    }
                    CliCommand::Prompt { action } => Job::PromptShow(
                        action.map_or(PromptAction::Show { sizes: false }, Deferred::into_inner),
                    ),
                    CliCommand::Cost { action, by, all, json } => {
                        Job::Cost { action: action.map(Deferred::into_inner), by, all, json }
                    }
                    CliCommand::Skills { action } => {
                        Job::Skills(action.map_or(SkillsAction::List { json: false }, Deferred::into_inner))
                    }
                    #[cfg(feature = "acp")]
                    CliCommand::Acp { login: false } => Job::Acp,
                    #[cfg(feature = "acp")]
                    CliCommand::Acp { login: true } => {
                        Job::Auth(AuthAction::Login { provider: None, key: false, browser: false })
                    }
                    CliCommand::ExecServer { listen, stdio: _ } => Job::ExecServer { listen },
                    CliCommand::ServeSessions { listen, token_file } => {
                        Job::ServeSessions { address: listen, token_file }
                    }
                    CliCommand::Web { listen } => Job::Web { address: listen },
                    CliCommand::Rpc { schema: true, .. } => Job::RpcSchema,
                    CliCommand::Rpc { socket, websocket, schema: _ } => Job::Rpc { socket, websocket },
                    CliCommand::Trust { action } => {
                        Job::Trust(action.map_or(TrustAction::Status, Deferred::into_inner))
                    }
                }
            }
        };
        let launch = Launch {
            given,
            config: self.config,
            scope: self.left_out.scope(),
            trust_mcp: self.trust_mcp,
            mcp_configs: self.named.mcp_config,
            plugin_dirs: self.named.plugin_dir,
            agents: self.agents,
            add_dirs: self.add_dir,
            ..Launch::default()
        };
        let endpoint = GivenValues { base_url: self.base_url, api_key: self.api_key };
        #[cfg(feature = "otel")]
        let log = self.records.log;
        #[cfg(not(feature = "otel"))]
        let log = None;
        Ok(Request::Task(Box::new(Task { job, launch, endpoint, cwd: self.cwd, log })))
    }
}

mod deferred;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use zk_auth::Secret;
use zk_core::model::ThinkingLevel;
use zk_permission::Mode;

use crate::exit;
use crate::plugin::PluginAction;

use crate::actions::{
    AuthAction, ConfigAction, CostAction, CostBy, DebugAction, DoctorArgs, HooksAction, LearnedAction,
    McpAction, PolicyAction, PromptAction, SessionsAction, ShellArgs, SkillsAction, TrustAction,
};
use crate::candidates::{self, Shell};
use crate::ext::ExtAction;
use crate::fleet::{FleetAction, HandoffArgs, WorkerArgs};
use crate::groups::{LeftOutSources, NamedSources, RecordFiles, RunEnds};
use crate::memory::MemoryAction;
use crate::replay::ReplayArgs;

pub use deferred::Deferred;

/// A key, hidden from whatever prints the command line.
fn secret(text: &str) -> Result<Secret, Infallible> {
    Ok(text.into())
}

/// Heading of the options that every command has.
pub(crate) const GLOBAL: &str = "Options of every command";

/// Coding agent for your terminal.
///
/// With a prompt, zk works on it; without one, it starts a conversation.
#[derive(Debug, Parser)]
#[command(
    name = "zk",
    version,
    // The terminal breaks the lines: the text is the same whatever else in the tree makes clap measure it.
    term_width = 0,
    disable_help_subcommand = true,
    after_help = exit::help()
)]
#[expect(missing_docs, reason = "commands and groups are described at their types")]
pub struct Cli {
    /// Prompt to work on. Text from standard input follows it
    pub prompt: Option<String>,

    /// Print the answer and exit (non-interactive)
    #[arg(short, long)]
    pub print: bool,

    /// The provider, such as anthropic, openai, gemini, openrouter or ollama
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "NAME", add = ArgValueCandidates::new(candidates::providers))]
    pub provider: Option<String>,

    /// The model's id
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "ID")]
    pub model: Option<String>,

    /// The system prompt, in place of zk's own
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,

    /// Text to add to the system prompt
    #[arg(long, value_name = "TEXT")]
    pub append_system: Option<String>,

    /// Thinking level: off, minimal, low, medium, high, xhigh, max, or adaptive (default): the model decides
    #[arg(long, value_name = "LEVEL", add = ArgValueCandidates::new(candidates::levels))]
    pub thinking: Option<ThinkingLevel>,

    /// Named sets of settings that add up: build (default), plan and explore (only what reads runs), or
    /// .zk/presets/NAME.toml; may be repeated
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "NAMES", value_delimiter = ',')]
    pub preset: Vec<String>,

    /// The only tools the model is offered, such as read_file,grep,mcp_github_*
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub allowed_tools: Vec<String>,

    /// Tools the model is not offered
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub disallowed_tools: Vec<String>,

    /// Work in this directory, too; may be repeated
    #[arg(long, value_name = "DIR")]
    pub add_dir: Vec<PathBuf>,

    #[command(flatten)]
    pub ends: RunEnds,

    /// Run commands here: process (on this machine), sandbox (there, and they write to the project alone),
    /// docker:IMAGE (in a container with the project), remote:unix:PATH (where `zk exec-server` listens,
    /// files too), or remote:ssh:HOST (where it is started)
    #[arg(long = "run-in", alias = "context", value_name = "WHERE")]
    pub context: Option<String>,

    /// Form of the conversation: inline (answers as Markdown, and a place to type that stays), full (the same
    /// on all of the terminal, with scrolling of its own) or plain (lines)
    #[arg(long, value_name = "NAME")]
    pub screen: Option<String>,

    /// Turns after which the run stops
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_turns: Option<u32>,

    /// Output limit of one response, in tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,

    /// Limit of what the conversation costs with its sub-agents, in US dollars: then you are asked; with
    /// --print the run stops
    #[arg(long, value_name = "USD", value_parser = amount)]
    pub max_budget_usd: Option<f64>,

    /// Limit of the conversation in tokens, read and written: then you are asked; with --print the run stops
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens_total: Option<u32>,

    /// The directory to work in
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "DIR")]
    pub cwd: Option<PathBuf>,

    /// Format of the answer; json and stream-json imply --print
    #[arg(long, value_name = "FORMAT")]
    pub output_format: Option<OutputFormat>,

    /// Print what a person would see as JSON lines: the patches of the view, the result last; implies --print
    #[arg(long, value_name = "FORMAT", conflicts_with = "output_format")]
    pub view: Option<ViewFormat>,

    /// Run every tool without asking
    #[arg(long, conflicts_with = "permission_mode")]
    pub allow_all: bool,

    /// Calls that run without asking: read-only, ask, accept-edits, auto (in the sandbox; default where it
    /// holds) or all
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "MODE", add = ArgValueCandidates::new(candidates::modes))]
    pub permission_mode: Option<Mode>,

    /// Go on with the newest session of this directory
    #[arg(short, long = "continue", conflicts_with = "resume")]
    pub continue_: bool,

    /// Go on with this session; the beginning of its id is enough. Without one, choose it in a list
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", add = ArgValueCompleter::new(candidates::sessions))]
    pub resume: Option<String>,

    /// Address of the provider, instead of its usual one
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL")]
    pub base_url: Option<String>,

    /// The provider's key. Other users of the machine can see it here: prefer `zk auth login`
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "KEY", hide_env_values = true, value_parser = secret)]
    pub api_key: Option<Secret>,

    /// One more settings file, over those of the project and the user
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Sub-agents for this once, by name: JSON such as {"critic": {"description": "…", "prompt": "…"}}, or a file of it
    #[arg(long, value_name = "JSON|FILE")]
    pub agents: Option<String>,

    /// Start this MCP server of the project's .mcp.json, this once without approving it; may be repeated
    #[arg(long, value_name = "NAME")]
    pub trust_mcp: Vec<String>,

    #[command(flatten)]
    pub named: NamedSources,

    #[command(flatten)]
    pub left_out: LeftOutSources,

    #[command(flatten)]
    pub records: RecordFiles,

    /// With --print, show tool calls on standard error
    #[arg(short, long, global = true, help_heading = GLOBAL, action = ArgAction::SetTrue)]
    pub verbose: bool,

    #[command(subcommand)]
    pub command: Option<CliCommand>,
}

pub(crate) fn amount(text: &str) -> Result<f64, String> {
    let amount =
        text.trim_start_matches('$').parse::<f64>().ok().filter(|amount| *amount > 0.0 && amount.is_finite());
    amount.ok_or_else(|| "it must be an amount of US dollars above 0, such as 2.50".to_owned())
}

/// Format of the printed answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// The answer, nothing else
    #[default]
    Text,
    /// One object when the run is over
    Json,
    /// A line for each event, that object last
    StreamJson,
    /// A line for each patch of the view, that object last: `--view json`
    #[value(skip)]
    ViewJson,
}

/// Format of the printed view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ViewFormat {
    /// A line for each patch
    Json,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "commands and groups are described at their types")]
pub enum CliCommand {
    /// List, find, show, copy, verify or remove sessions
    Sessions {
        #[command(subcommand)]
        action: Option<Deferred<SessionsAction>>,
    },
    /// Submit, watch and decide runs that outlive their worker; list and stop live conversations
    Fleet {
        #[command(subcommand)]
        action: Option<Deferred<FleetAction>>,
        /// One JSON array, an object for each
        #[arg(long)]
        json: bool,
    },
    /// Serve submitted runs until a signal ends it; they go on with other workers
    Worker(Deferred<WorkerArgs>),
    /// Go on with a run by yourself, in its session
    Attach {
        /// The run's id, or the beginning of it
        run: String,
    },
    /// Make a session a run: a worker goes on with it
    Handoff(Deferred<HandoffArgs>),
    /// Take back what the last prompts of a session changed in files, by shell commands too
    Undo {
        /// Number of prompts whose changes go back
        #[arg(value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        count: u64,
        /// Do it without asking
        #[arg(long)]
        yes: bool,
        /// The session's id, or the beginning of it; without one, the newest session of this directory
        #[arg(long, value_name = "ID", add = ArgValueCompleter::new(candidates::sessions))]
        session: Option<String>,
    },
    /// Take the last undo of a session back
    Redo {
        /// Do it without asking
        #[arg(long)]
        yes: bool,
        /// The session's id, or the beginning of it; without one, the newest session of this directory
        #[arg(long, value_name = "ID", add = ArgValueCompleter::new(candidates::sessions))]
        session: Option<String>,
    },
    /// Show what a prompt of a session changed in files
    Diff {
        /// Number of the prompt among those that changed files, as /undo list has it; without one, the last
        #[arg(long, value_name = "N")]
        turn: Option<u64>,
        /// The session's id, or the beginning of it; without one, the newest session of this directory
        #[arg(long, value_name = "ID", add = ArgValueCompleter::new(candidates::sessions))]
        session: Option<String>,
    },
    /// List, show and change what is remembered from one session to the next
    Memory {
        #[command(subcommand)]
        action: Option<Deferred<MemoryAction>>,
    },
    /// Replay a session without running anything, or list what would go otherwise now
    Replay(Deferred<ReplayArgs>),
    /// Show what fills the context: of every request, or of a session's next one
    Context {
        /// The session's id, or the beginning of it
        #[arg(add = ArgValueCompleter::new(candidates::sessions))]
        id: Option<String>,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Store a key, sign in or out, and show what there is
    Auth {
        #[command(subcommand)]
        action: Deferred<AuthAction>,
    },
    /// Show and change the settings
    Config {
        #[command(subcommand)]
        action: Deferred<ConfigAction>,
    },
    /// Choose the provider that answers, store its key, and ask it one question
    Setup,
    /// Check what is configured, reachable and missing
    Doctor(Deferred<DoctorArgs>),
    /// Say whether there is a newer zk, and how this one is updated: zk never updates itself
    Update {
        /// Ask where releases are published for the newest one
        #[arg(long, required = true)]
        check: bool,
    },
    /// Watch a scripted model repair a small project with the real tools: no key, no network
    Demo {
        /// Keep the project and print where it is
        #[arg(long)]
        keep: bool,
    },
    /// Run your own shell with the agent attached: ? at an empty line calls it, and Ctrl-] at any prompt
    Shell(Deferred<ShellArgs>),
    /// List the models of the provider; without one, the providers and how many models each has
    Models {
        /// Only models whose provider and id contain each of these words
        filter: Vec<String>,
        /// One line of JSON for each, with all that is known of it
        #[arg(long)]
        json: bool,
    },
    /// Show, approve or revoke the settings of this project
    Trust {
        #[command(subcommand)]
        action: Option<Deferred<TrustAction>>,
    },
    /// Show what the model is told before the conversation, and how much of its window that takes
    Prompt {
        #[command(subcommand)]
        action: Option<Deferred<PromptAction>>,
    },
    /// Show what the sessions of this directory used and cost
    Cost {
        #[command(subcommand)]
        action: Option<Deferred<CostAction>>,
        /// A line for each session, model or day
        #[arg(long, value_name = "WHAT", default_value = "session")]
        by: CostBy,
        /// The sessions of every directory
        #[arg(long)]
        all: bool,
        /// One JSON array, an object for each
        #[arg(long)]
        json: bool,
    },
    /// List, show, check and manage skills: directories with instructions for particular tasks
    Skills {
        #[command(subcommand)]
        action: Option<Deferred<SkillsAction>>,
    },
    /// Set up MCP servers, and show what they have and say
    Mcp {
        #[command(subcommand)]
        action: Option<Deferred<McpAction>>,
    },
    /// Set up, try and write extensions: programs in any language that add tools, commands, gates and more
    Ext {
        #[command(subcommand)]
        action: Option<Deferred<ExtAction>>,
    },
    /// Add, show, update and remove plugins: directories with commands, agents, skills, hooks and MCP servers
    Plugin {
        #[command(subcommand)]
        action: Option<Deferred<PluginAction>>,
    },
    /// Say what may run and why, and take back what was approved
    Policy {
        #[command(subcommand)]
        action: Option<Deferred<PolicyAction>>,
    },
    /// Serve an editor that speaks the Agent Client Protocol, at standard input and output
    #[cfg(feature = "acp")]
    Acp {
        /// Sign in to a provider, or store its key, and end: what an editor runs in a terminal
        #[arg(long)]
        login: bool,
    },
    /// Run commands and reach files here for a zk elsewhere, which has `--run-in remote:unix:PATH` or `remote:ssh:HOST`
    ExecServer {
        /// The socket, such as unix:/run/user/1000/zk.sock; only programs of the same user may connect
        #[arg(long, value_name = "unix:PATH", required_unless_present = "stdio", conflicts_with = "stdio")]
        listen: Option<String>,
        /// Serve the program at the other end of standard input and output, which ends this with them
        #[arg(long)]
        stdio: bool,
    },
    /// Serve the sessions of this user to other zk, over HTTP with a token
    ServeSessions {
        /// Address of this machine to listen at
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
        listen: SocketAddr,
        /// File with the token; made if it is missing. Without it, auth/sessions-token of zk's state
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
    },
    /// Serve a page for a browser on this machine, and print a link to it that works once
    Web {
        /// Address of this machine to listen at
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// Serve programs of any language that drive zk: JSON-RPC on standard input and output, or at a socket
    Rpc {
        /// Listen at this unix socket, in a directory that is yours alone
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
        /// Listen for WebSockets at this address of this machine
        #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
        websocket: Option<SocketAddr>,
        /// Print the JSON Schema of the messages
        #[arg(long, conflicts_with_all = ["socket", "websocket"])]
        schema: bool,
    },
    /// List the commands that are hooks, and whether they count
    Hooks {
        #[command(subcommand)]
        action: Option<Deferred<HooksAction>>,
    },
    /// List and forget rules that zk learned about outputs of this project's programs
    Learned {
        #[command(subcommand)]
        action: Option<Deferred<LearnedAction>>,
    },
    /// Print the script by which a shell completes command lines of zk: bash, zsh, fish, powershell or nushell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// List zk's own log files, and print one
    Logs {
        /// The log, by a part of its path
        name: Option<String>,
    },
    /// Look into zk itself
    Debug {
        #[command(subcommand)]
        action: Deferred<DebugAction>,
    },
    /// Print a page of the documentation or the help of a command; without a name, list the pages
    Help {
        /// The page, such as sandbox, or the command, such as sessions list
        #[arg(add = ArgValueCandidates::new(candidates::pages))]
        topic: Vec<String>,
    },
}

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;

use crate::candidates;
use crate::session_care::SessionCare;

/// Commands below `zk hooks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum HooksAction {
    /// List the commands that the settings and the project have as hooks, and whether they count
    List,
}

/// Commands below `zk learned`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum LearnedAction {
    /// List the rules with their numbers
    List,
    /// Forget a rule, or all that was learned in this project
    Forget {
        /// Number of the rule in the list
        #[arg(value_name = "N")]
        number: Option<usize>,
        /// Forget all
        #[arg(long, conflicts_with = "number")]
        all: bool,
    },
}

/// Options of `zk doctor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct DoctorArgs {
    /// Mend what surely can be mended of zk's own files: each change is shown, then you are asked
    #[arg(long)]
    pub fix: bool,
    /// Mend without asking
    #[arg(long, requires = "fix")]
    pub yes: bool,
    /// Check runs instead: the engine, its workers and leases, and runs that make no progress
    #[arg(long, conflicts_with = "fix")]
    pub fleet: bool,
}

/// Options of `zk shell`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ShellArgs {
    /// Subcommand of `zk shell`.
    #[command(subcommand)]
    pub action: Option<ShellAction>,
    /// The shell, by name or path, instead of $SHELL; bash, zsh and fish tell zk what runs in them
    #[arg(long, value_name = "PROGRAM")]
    pub shell: Option<PathBuf>,
    /// Start it as a login shell
    #[arg(long)]
    pub login: bool,
    /// Start it inside of another `zk shell`
    #[arg(long)]
    pub nested: bool,
    /// Character that calls the agent at an empty line, ? by default; an empty one for none
    #[arg(long, value_name = "CHARACTER")]
    pub trigger: Option<String>,
}

/// Commands below `zk shell`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum ShellAction {
    /// Print a script for the start file of bash, zsh or fish on a remote host, so that zk is told what runs there
    Init {
        /// The remote shell: bash, zsh or fish
        #[arg(value_name = "NAME", value_parser = ["bash", "zsh", "fish"])]
        shell: String,
    },
}

/// Commands below `zk debug`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum DebugAction {
    /// List every handler, observer, tool and service, and who registered it
    Registry,
    /// Write manual pages into a directory, for packages
    Man {
        /// The directory
        dir: PathBuf,
    },
}

/// Commands below `zk mcp`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum McpAction {
    /// List the servers that are set up, and how they are in the program that used them last
    List,
    /// Start servers and list their tools
    Tools {
        /// Only of this server
        server: Option<String>,
    },
    /// Call a tool of a server, without asking
    Call {
        /// The server
        server: String,
        /// The tool
        tool: String,
        /// Arguments of the tool as JSON
        args: Option<String>,
    },
    /// Show how the tools of a server differ from those that were accepted, and accept them
    Accept {
        /// The server
        server: String,
        /// Digest of the change, as it is shown without this
        digest: Option<String>,
    },
    /// Print what the program of a server printed to standard error
    Logs {
        /// The server
        server: String,
    },
    /// Sign in to a server that wants it, in the browser
    Login {
        /// The server
        server: String,
        /// Open the sign-in page with xdg-open, or with the command of the setting mcp.opener
        #[arg(long)]
        browser: bool,
    },
    /// Forget the sign-in to a server
    Logout {
        /// The server
        server: String,
    },
    /// Serve zk's own tools, and zk itself as the tool `run`, to the program at the other end of standard input and output
    Serve {
        /// Serve programs of this machine at this address instead, such as 127.0.0.1:8700; they need the token that is
        /// printed, or that of ZK_MCP_TOKEN
        #[arg(long, value_name = "ADDRESS")]
        http: Option<SocketAddr>,
    },
    /// Set up a server in your own settings
    Add(McpAdd),
    /// Remove a server from your own settings
    Remove {
        /// The server
        server: String,
    },
}

/// Server that `zk mcp add` adds.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct McpAdd {
    /// Name for the server
    pub name: String,
    /// Address of the server, for one that is reached by HTTP
    #[arg(value_name = "URL", conflicts_with = "url")]
    pub address: Option<String>,
    /// Address of the server, as an option
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// A variable for its program, NAME=VALUE; ${VAR} stands for one of your own
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// A header for its address, "NAME: VALUE"
    #[arg(long, value_name = "HEADER")]
    pub header: Vec<String>,
    /// Program of the server and its arguments
    #[arg(last = true)]
    pub command: Vec<String>,
}

/// Commands below `zk policy`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum PolicyAction {
    /// List the rules that hold here, and what was approved
    List,
    /// Judge a command, a host or a call of a tool without running it: allow, ask or deny, then why
    Test {
        /// A tool, in place of a command; its arguments follow as JSON, such as '{"path": "src/a.rs"}'
        #[arg(long, value_name = "NAME", conflicts_with = "host")]
        tool: Option<String>,
        /// A host that the tool fetch would connect to, such as docs.rs or localhost:8000, in place of a command
        #[arg(long, value_name = "HOST")]
        host: Option<String>,
        /// The command: one text in quotes, or its words; with --tool, the arguments as JSON
        #[arg(
            required_unless_present = "host",
            conflicts_with = "host",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        command: Vec<String>,
    },
    /// Show what each rule matches and what not, by examples
    Explain {
        /// A rule that is not set yet, such as "git push *"
        rule: Option<String>,
    },
    /// Take back something approved
    Revoke {
        /// Number of the rule or call in `zk policy list`, or the rule
        which: String,
    },
}

/// Commands below `zk prompt`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum PromptAction {
    /// Print every part, who added it, and its size by an estimate
    Show {
        /// The sizes alone
        #[arg(long)]
        sizes: bool,
    },
}

/// Commands below `zk cost`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum CostAction {
    /// Show what a session read anew although a cache could have kept it, and why
    Why {
        /// Id of the session, or the beginning of it
        #[arg(add = ArgValueCompleter::new(candidates::sessions))]
        id: String,
    },
}

/// Items that costs are added up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CostBy {
    /// Each session
    Session,
    /// Each model
    Model,
    /// Each day, by UTC
    Day,
    /// The conversation, and each plugin that asked a model beside it
    Plugin,
    /// The conversation, and each part beside it such as summaries and sub-agents, with the model that it asked
    Part,
}

/// Commands below `zk skills`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum SkillsAction {
    /// List the skills that are found here, and what becomes of each
    List {
        /// One JSON array, an object for each
        #[arg(long)]
        json: bool,
    },
    /// Print a skill: what its frontmatter says, its files and its text
    Show {
        /// Name of the skill
        name: String,
    },
    /// Validate skills strictly, by the specification; ends with 1 if one is not valid
    Check {
        /// Directories of skills or below which skills are, or names of skills; all that are found here unless named
        #[arg(value_name = "PATH|NAME")]
        paths: Vec<PathBuf>,
        /// One JSON array, an object for each
        #[arg(long)]
        json: bool,
    },
    /// Copy a skill from a directory
    Add {
        /// The directory with its SKILL.md
        path: PathBuf,
        /// For this project, into .agents/skills; for yourself otherwise
        #[arg(long)]
        project: bool,
    },
    /// Remove one of your own skills, or one of this project
    Remove {
        /// Name of the skill
        name: String,
        /// Remove the one of this project
        #[arg(long)]
        project: bool,
    },
    /// Make a new skill to be filled in
    New {
        /// Name of the skill: lower-case letters, digits and hyphens
        name: String,
        /// For this project, in .agents/skills; for yourself otherwise
        #[arg(long)]
        project: bool,
    },
}

/// Commands below `zk trust`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum TrustAction {
    /// Show what the project sets, whether that is trusted, and which calls always run here
    Status,
    /// Trust the project's settings files exactly as they are now
    Add,
    /// Trust nothing of the project any more, or one settings file or call
    Remove {
        /// The file or the call, as `zk trust` shows it, or the beginning of it
        name: Option<String>,
    },
}

/// Commands below `zk sessions`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
#[expect(missing_docs, reason = "commands and groups are described at their types")]
pub enum SessionsAction {
    /// List the sessions of this directory, newest first
    List {
        /// List the sessions of every directory
        #[arg(long)]
        all: bool,
        /// One JSON array, an object for each
        #[arg(long)]
        json: bool,
    },
    /// Print a session's conversation
    Show {
        /// Id of the session, or the beginning of it
        #[arg(add = ArgValueCompleter::new(candidates::sessions))]
        id: String,
        /// All branches as an indented tree, a line for each prompt and answer
        #[arg(long)]
        tree: bool,
    },
    /// Copy a session, even one that another process has open
    Copy {
        /// Id of the session, or the beginning of it
        #[arg(add = ArgValueCompleter::new(candidates::sessions))]
        id: String,
    },
    /// Write a session as a document: JSON lines that can be imported again, Markdown, or one page for a browser
    Export {
        /// Id of the session, or the beginning of it
        #[arg(add = ArgValueCompleter::new(candidates::sessions))]
        id: String,
        /// Format of the document; without it, the ending of FILE decides, else Markdown
        #[arg(long, value_enum)]
        format: Option<DocumentFormat>,
        /// New file to write; `-` and no FILE are standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// All branches instead of the present one (JSON lines only)
        #[arg(long)]
        tree: bool,
    },
    /// Import transcripts of Claude Code, codex, pi, opencode or zk; without PATH, list where some are
    Import {
        /// File, database of opencode, or directory
        path: Option<PathBuf>,
        /// Program that wrote the transcripts, where their content does not tell it
        #[arg(long, value_enum)]
        from: Option<TranscriptProgram>,
        /// Read everything and store nothing
        #[arg(long)]
        dry_run: bool,
        /// One JSON array, an object for each
        #[arg(long)]
        json: bool,
    },
    #[command(flatten)]
    Care(SessionCare),
}

/// Formats of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DocumentFormat {
    /// JSON lines, an entry on each
    Jsonl,
    /// Markdown
    Md,
    /// One page for a browser
    Html,
}

/// Programs that write transcripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "a comment on a value would stand in the help")]
pub enum TranscriptProgram {
    Claude,
    Codex,
    Pi,
    Opencode,
    Zk,
}

/// Commands below `zk auth`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum AuthAction {
    /// Store a key, typed or from standard input, or sign in where the provider has a sign-in
    Login {
        /// For which provider; the one in the settings unless named
        provider: Option<String>,
        /// Store a key, even if there is a sign-in
        #[arg(long)]
        key: bool,
        /// Open the sign-in page with xdg-open
        #[arg(long)]
        browser: bool,
    },
    /// Remove what is stored
    Logout {
        /// For which provider; the one in the settings unless named
        provider: Option<String>,
    },
    /// Show which credential is used for each provider and where it comes from, never the credential itself
    Status {
        /// Only of this provider; ends with 4 if there is none
        provider: Option<String>,
    },
}

/// Commands below `zk config`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum ConfigAction {
    /// Print every setting
    Show {
        /// With the layer and the file each comes from
        #[arg(long)]
        origin: bool,
    },
    /// Print one setting as it counts here
    Get {
        /// Key with its tables, such as model or permissions.mode
        key: String,
        /// With the layer and the file it comes from
        #[arg(long)]
        origin: bool,
    },
    /// Change one setting in your settings file, whose comments and order stay
    Set {
        /// Key with its tables, such as model or permissions.mode
        key: String,
        /// Value: a text as it is, anything else as TOML has it, such as 5, true or ["a", "b"]
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// In the project's .zk/settings.toml instead
        #[arg(long)]
        project: bool,
    },
    /// Take one setting out of your settings file
    Unset {
        /// Key with its tables, such as model or permissions.mode
        key: String,
        /// In the project's .zk/settings.toml instead
        #[arg(long)]
        project: bool,
    },
    /// Change your settings file in $VISUAL or $EDITOR; what is wrong with it is told before it counts
    Edit {
        /// The project's .zk/settings.toml instead
        #[arg(long)]
        project: bool,
    },
    /// Print every key with its values, its default and its meaning
    Keys,
    /// Print the JSON Schema of the settings, for editors
    Schema {
        /// Print the schema of the object that `--output-format json` prints instead
        #[arg(long)]
        result: bool,
    },
}

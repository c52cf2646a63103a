use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

/// Names of the built-in tools, from which presets choose.
pub const NAMES: [&str; 14] = [
    "ask_user",
    "edit",
    "glob",
    "grep",
    "jobs",
    "list_files",
    "multi_edit",
    "present_plan",
    "read_file",
    "recall",
    "shell",
    "todo_read",
    "todo_write",
    "write_file",
];

/// Built-in tool of runs that outlive their workers.
pub(crate) const WAIT: &str = "wait";

/// Built-in tools that ask the person.
pub(crate) const ASKING: [&str; 2] = ["ask_user", "present_plan"];

/// Presence of the person whom tools ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// A person may be here: `ask_user` and `present_plan` are offered.
    #[default]
    Here,
    /// Nobody is here, so neither is offered.
    Nobody,
    /// A person answers later, in a run that outlives its worker: `ask_user` parks it, and `wait` is offered.
    Later,
}

/// Options of the built-in tools; a person sets some of them as keys of `[tools]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolsOptions {
    /// Names of the offered tools; `None` for all of [`NAMES`], and `wait` in runs that outlive their workers.
    #[serde(skip)]
    pub only: Option<Vec<String>>,
    /// Default lines of one read; 0 means no limit.
    #[schemars(range(min = 1))]
    #[schemars(description = "Lines of one read, unless the call says otherwise.")]
    pub read_lines: u64,
    /// Default bytes of one read; 0 means no limit.
    #[schemars(range(min = 1))]
    #[schemars(description = "Bytes of one read, unless the call says otherwise.")]
    pub read_bytes: u64,
    /// Whether lines are shown with their numbers. `edit` accepts text that was copied with them.
    pub line_numbers: bool,
    /// Whether a repeated read with the same result is answered by a note.
    pub dedup_reads: bool,
    /// Whether a file must have been read before it is edited or overwritten. A file that has changed since
    /// the model saw it is refused in any case.
    pub read_before_edit: bool,
    /// Maximum number of bytes at the end of a command's output that a result contains; 0 means no limit.
    #[schemars(range(min = 1))]
    #[schemars(description = "Bytes of output that a command may give back, its end.")]
    pub shell_bytes: usize,
    /// Maximum number of bytes of a command's output that are written to a file, once the output exceeds the
    /// result's limit.
    #[serde(rename = "output_file_mb", with = "crate::settings::mebibytes")]
    #[schemars(with = "u32", range(min = 1))]
    #[schemars(
        description = "Output of one command that is written to a file once it is more than a result gives back, in MB."
    )]
    pub output_file_bytes: u64,
    /// Default time limit of a command.
    #[serde(rename = "shell_seconds", with = "crate::settings::seconds")]
    #[schemars(with = "u32", range(min = 1))]
    #[schemars(description = "Seconds of a command, unless the call says otherwise.")]
    pub shell_timeout: Duration,
    /// Longest time limit that a call may set for its command.
    #[serde(rename = "shell_seconds_max", with = "crate::settings::seconds")]
    #[schemars(with = "u32", range(min = 1))]
    #[schemars(description = "Seconds that a call may set for its command at most.")]
    pub shell_timeout_max: Duration,
    /// Time limit of background commands, overriding that of a call; `None` means no limit. With a limit no
    /// command can be detached, since nothing would end it.
    #[serde(skip)]
    pub job_timeout_max: Option<Duration>,
    /// Line that bash runs before each command, such as `source .venv/bin/activate`. It is shown in questions
    /// about a call.
    #[schemars(extend("x-by-projects" = false))]
    pub shell_prefix: Option<String>,
    /// Whether a result ends with the exit code and the duration.
    pub shell_footer: bool,
    /// Whether a call may ask to run its command outside of the usual execution context, through the host's
    /// [`OutsideExec`](zk_core::service::OutsideExec). A permission gate asks a person about each such call.
    #[serde(skip)]
    pub outside: bool,
    /// Restrictions of all commands, as text for the model at the end of the description of `shell`.
    #[serde(skip)]
    pub shell_bounds: Option<String>,
    /// Prefixes of addresses for which git has the person's credentials, in a file or from a helper; an empty
    /// prefix matches all. With [`shell_bounds`](Self::shell_bounds), a single command that needs such
    /// credentials requests to run [`outside`](Self::outside) automatically.
    #[serde(skip)]
    pub git_helper_urls: Vec<String>,
    /// Prefixes of addresses that git rewrites to ssh by its configuration (`insteadOf`), each with whether
    /// only for pushes.
    #[serde(skip)]
    pub git_ssh_prefixes: Vec<(String, bool)>,
    /// Presence of the person whom `ask_user` and `present_plan` ask.
    #[serde(skip)]
    pub person: Presence,
    /// Default number of results of a search; 0 means no limit.
    #[schemars(range(min = 1))]
    #[schemars(description = "Results of one search, unless the call says otherwise.")]
    pub grep_results: usize,
    /// Maximum number of files in the result of `glob`.
    #[schemars(range(min = 1))]
    pub glob_results: usize,
}

impl ToolsOptions {
    /// Options whose longest time limit is at least the default one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zk_tools::ToolsOptions;
    ///
    /// let hour = Duration::from_secs(3600);
    /// let options = ToolsOptions { shell_timeout: hour, ..ToolsOptions::default() }.sorted_limits();
    /// assert_eq!(options.shell_timeout_max, hour);
    /// ```
    #[must_use]
    pub fn sorted_limits(self) -> Self {
        Self { shell_timeout_max: self.shell_timeout_max.max(self.shell_timeout), ..self }
    }

    /// Options in which no command runs longer than `most`.
    #[must_use]
    pub fn within(self, most: Duration) -> Self {
        let shell_timeout = self.shell_timeout.min(most);
        Self { shell_timeout, shell_timeout_max: most, job_timeout_max: Some(most), ..self }
    }
}

impl Default for ToolsOptions {
    fn default() -> Self {
        Self {
            only: None,
            read_lines: 2_000,
            read_bytes: 262_144,
            line_numbers: true,
            dedup_reads: true,
            read_before_edit: false,
            shell_bytes: 32_768,
            output_file_bytes: 256 << 20,
            shell_timeout: Duration::from_secs(120),
            shell_timeout_max: Duration::from_secs(600),
            job_timeout_max: None,
            shell_prefix: None,
            shell_footer: true,
            outside: false,
            shell_bounds: None,
            git_helper_urls: Vec::new(),
            git_ssh_prefixes: Vec::new(),
            person: Presence::Here,
            grep_results: 250,
            glob_results: 200,
        }
    }
}

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

/// The names of the built-in tools, as presets choose among them.
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

/// Built-in tools that ask the person.
pub(crate) const ASKING: [&str; 2] = ["ask_user", "present_plan"];

/// Options of the built-in tools; those that a person can set are the keys of `[tools]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolsOptions {
    /// Tools that there are, by name; all of [`NAMES`] if nothing.
    #[serde(skip)]
    pub only: Option<Vec<String>>,
    /// Lines of one read, unless the call says otherwise; 0 is without limit.
    #[schemars(range(min = 1))]
    #[schemars(description = "Lines of one read, unless the call says otherwise.")]
    pub read_lines: u64,
    /// Bytes of one read, unless the call says otherwise; 0 is without limit.
    #[schemars(range(min = 1))]
    #[schemars(description = "Bytes of one read, unless the call says otherwise.")]
    pub read_bytes: u64,
    /// Whether lines carry their numbers. `edit` accepts text copied with them.
    pub line_numbers: bool,
    /// Whether a read that would show the same again is answered by saying so.
    pub dedup_reads: bool,
    /// Whether a file must have been read before it is edited or overwritten. A file that changed since the
    /// model saw it is never changed blindly, whatever this says.
    pub read_before_edit: bool,
    /// Bytes of output a command may give back, its end; 0 is without limit.
    #[schemars(range(min = 1))]
    #[schemars(description = "Bytes of output that a command may give back, its end.")]
    pub shell_bytes: usize,
    /// Bytes of one command's output that are written to a file, once they are more than a result gives back.
    #[serde(rename = "output_file_mb", with = "crate::settings::mebibytes")]
    #[schemars(with = "u32", range(min = 1))]
    #[schemars(
        description = "Output of one command that is written to a file once it is more than a result gives back, in MB."
    )]
    pub output_file_bytes: u64,
    /// Time limit of a command, unless the call says otherwise.
    #[serde(rename = "shell_seconds", with = "crate::settings::seconds")]
    #[schemars(with = "u32", range(min = 1))]
    #[schemars(description = "Seconds of a command, unless the call says otherwise.")]
    pub shell_timeout: Duration,
    /// Longest time limit that a call may set for its command.
    #[serde(rename = "shell_seconds_max", with = "crate::settings::seconds")]
    #[schemars(with = "u32", range(min = 1))]
    #[schemars(description = "Seconds that a call may set for its command at most.")]
    pub shell_timeout_max: Duration,
    /// Time limit of a command in the background, whatever its call says; nothing is without limit. With a
    /// limit no command is detached, since nothing would end it.
    #[serde(skip)]
    pub job_timeout_max: Option<Duration>,
    /// A line that bash runs before each command, such as `source .venv/bin/activate`. Who approves a call is shown it, too.
    #[schemars(extend("x-by-projects" = false))]
    pub shell_prefix: Option<String>,
    /// Whether the result ends with the exit code and the time it took.
    pub shell_footer: bool,
    /// Whether a call may ask to run its command outside of the context of all others, with the
    /// [`OutsideExec`](zk_core::service::OutsideExec) of the host. A permission gate asks a person about each.
    #[serde(skip)]
    pub outside: bool,
    /// Bounds of all commands in words for the model, as the end of the description of `shell`.
    #[serde(skip)]
    pub shell_bounds: Option<String>,
    /// Beginnings of addresses for which git has credentials of the person's: a program that it asks, or a file; an empty
    /// one is any. With [`shell_bounds`](Self::shell_bounds) a single command that needs some asks to run
    /// [`outside`](Self::outside) by itself.
    #[serde(skip)]
    pub git_helper_urls: Vec<String>,
    /// Beginnings of addresses that git goes to by ssh although they do not say so, by rules of its configuration
    /// (`insteadOf`), each with whether it does for pushes alone.
    #[serde(skip)]
    pub git_ssh_prefixes: Vec<(String, bool)>,
    /// Whether somebody may be there to answer `ask_user` and `present_plan`: without, they are not offered.
    #[serde(skip)]
    pub attended: bool,
    /// Results of one search, unless the call says otherwise; 0 is without limit.
    #[schemars(range(min = 1))]
    #[schemars(description = "Results of one search, unless the call says otherwise.")]
    pub grep_results: usize,
    /// Files of one `glob`.
    #[schemars(range(min = 1))]
    pub glob_results: usize,
}

impl ToolsOptions {
    /// Options in which the limit of all commands is not below that of one without a limit of its own.
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
            attended: true,
            grep_results: 250,
            glob_results: 200,
        }
    }
}

//! Rules: what a person or an administrator wrote down about calls.

mod code;
mod decision;
mod explain;
mod filters;
mod held;
mod host;
mod known_tools;
mod pattern;

use std::fmt;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

pub use code::{Bound, Manifest, ProjectCode};
pub(crate) use code::{is_runner, plain_command};
pub use decision::{Decision, UnknownDecision};
pub use explain::Explanation;
pub(crate) use filters::filtered_command;
pub use held::{DeniedFiles, HeldPaths, HideFiles};
pub use known_tools::KnownTools;
pub use pattern::CommandPattern;
pub(crate) use pattern::Likeness;

use zk_core::service::foreign_server_names;

use crate::classifier::{normalise, sounds_like_credentials};
use host::HostPattern;

/// Layer of settings that contains a rule. Reported with a verdict, without influence on it: denials win over
/// rules to ask, which win over rules to allow, from any layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Rules of an administrator.
    Managed,
    /// Rules on the command line.
    CommandLine,
    /// Rules of the project, for this checkout only.
    ProjectLocal,
    /// Rules of the project, which allow nothing until a person trusts it.
    Project,
    /// Rules in the settings of the person.
    User,
    /// Chosen for this session.
    Session,
    /// Approved for good, in the file of approvals.
    Approvals,
}

impl Layer {
    /// Returns the name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Managed => "managed settings",
            Self::CommandLine => "command line",
            Self::ProjectLocal => "local project settings",
            Self::Project => "project settings",
            Self::User => "user settings",
            Self::Session => "this session",
            Self::Approvals => "approvals",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A rule that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rule `{rule}` is not usable: {why}")]
pub struct RuleError {
    /// The rule as it was written.
    pub rule: String,
    /// Description of the fault, and the correct form.
    pub why: String,
}

/// Kind of access that a path rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading files.
    Read,
    /// Writing, making and removing files.
    Write,
}

/// Base of a rule's relative paths and of `~/`.
#[derive(Clone, Debug, Default)]
pub struct RuleBase {
    /// The project's root, absolute.
    pub root: PathBuf,
    /// The home directory.
    pub home: Option<PathBuf>,
}

/// One rule.
///
/// | written | about | |---|---| | `git push **` | commands, see [`CommandPattern`] | | `read(docs/**)`,
/// `write(src/*.rs)` | files that a call declares to read or write; relative to the project | |
/// `fetch(docs.rs)`, `fetch(*.rust-lang.org)`, `fetch(localhost:8000)` | hosts that a call declares to
/// connect to | | `tool(fetch)`, `tool(mcp_*)` | calls of tools by their names; those of servers also as
/// `mcp__SERVER__TOOL` |
#[derive(Clone, Debug)]
pub struct Rule {
    /// Layer that the rule is from.
    pub layer: Layer,
    /// Decision of the rule.
    pub decision: Decision,
    /// Text of the rule, as it was written.
    pub text: String,
    pub(crate) subject: Subject,
    /// Whether the sandbox enforces this denial for every command.
    pub(crate) is_held: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Command(CommandPattern),
    /// A whole shell text, byte by byte.
    Exact(String),
    Path {
        access: Access,
        glob: GlobMatcher,
        and_itself: Option<PathBuf>,
        /// Fixed beginning of the pattern: the directory or file that every path it matches is or lies below.
        fixed: PathBuf,
    },
    /// Reading or writing below this directory.
    Below(Access, PathBuf),
    Host(HostPattern),
    Tool(GlobMatcher),
    /// Tools by their exact names.
    Tools(Vec<String>),
    Code(ProjectCode),
}

impl Rule {
    /// Reads a rule.
    ///
    /// # Errors
    /// [`RuleError`] when the text is no rule, or would allow every program.
    pub fn parse(layer: Layer, decision: Decision, text: &str, base: &RuleBase) -> Result<Self, RuleError> {
        let text = text.trim();
        let wrong = |why: String| RuleError { rule: text.to_owned(), why };
        let subject = if let Some(pattern) = argument_of(text, "read") {
            path_subject(Access::Read, pattern, decision, base).map_err(wrong)?
        } else if let Some(pattern) = argument_of(text, "write") {
            path_subject(Access::Write, pattern, decision, base).map_err(wrong)?
        } else if let Some(host) = argument_of(text, "fetch") {
            Subject::Host(HostPattern::parse(host).map_err(wrong)?)
        } else if let Some(name) = argument_of(text, "tool") {
            Subject::Tool(glob(name, false).map_err(wrong)?)
        } else {
            let pattern = CommandPattern::parse(text)?;
            if decision == Decision::Allow && pattern.is_any_program() {
                return Err(wrong(
                    "a star cannot stand for the program of a rule that allows; name it".to_owned(),
                ));
            }
            Subject::Command(pattern)
        };
        Ok(Self { layer, decision, text: text.to_owned(), subject, is_held: false })
    }

    /// A rule for exactly this shell text.
    #[must_use]
    pub fn exact(layer: Layer, decision: Decision, command: &str) -> Self {
        let subject = Subject::Exact(command.to_owned());
        Self { layer, decision, text: command.to_owned(), subject, is_held: false }
    }

    /// Creates a rule for all commands with this prefix.
    #[must_use]
    pub fn prefix<S: AsRef<str>>(layer: Layer, decision: Decision, words: &[S]) -> Self {
        let pattern = CommandPattern::prefix(words);
        Self {
            layer,
            decision,
            text: pattern.to_string(),
            subject: Subject::Command(pattern),
            is_held: false,
        }
    }

    /// A rule for writing all files below a directory, absolute.
    #[must_use]
    pub fn directory(layer: Layer, decision: Decision, directory: &Path) -> Self {
        Self::below(layer, decision, Access::Write, directory)
    }

    /// A rule for reading all files below a directory, absolute, and for listing it.
    #[must_use]
    pub fn reading(layer: Layer, decision: Decision, directory: &Path) -> Self {
        Self::below(layer, decision, Access::Read, directory)
    }

    fn below(layer: Layer, decision: Decision, access: Access, directory: &Path) -> Self {
        let verb = match access {
            Access::Read => "read",
            Access::Write => "write",
        };
        let text = format!("{verb}({}/**)", directory.display());
        let subject = Subject::Below(access, normalise(directory));
        Self { layer, decision, text, subject, is_held: false }
    }

    /// Whether the rule matches a file with an absolute `path`.
    pub(crate) fn matches_path(&self, wanted: Access, path: &Path) -> bool {
        match &self.subject {
            Subject::Path { access, glob, and_itself, .. } => {
                let path = normalise(path);
                *access == wanted && (glob.is_match(&path) || and_itself.as_ref() == Some(&path))
            }
            Subject::Below(access, directory) => {
                let path = normalise(path);
                let below = path.strip_prefix(directory).ok().filter(|_| *access == wanted);
                // A person who allowed all reads in a directory did not mean the credentials in it.
                let is_held_back = self.decision == Decision::Allow && *access == Access::Read;
                below.is_some_and(|below| !is_held_back || !sounds_like_credentials(below))
            }
            _ => false,
        }
    }

    /// Whether the rule matches a host with an optional unusual port.
    pub(crate) fn matches_host(&self, host: &str) -> bool {
        self.host().is_some_and(|pattern| pattern.matches(host, self.decision))
    }

    /// The host pattern, of a rule about hosts.
    pub(crate) fn host(&self) -> Option<&HostPattern> {
        if let Subject::Host(pattern) = &self.subject { Some(pattern) } else { None }
    }

    pub(crate) fn matches_tool(&self, tool: &str) -> bool {
        match &self.subject {
            Subject::Tool(name) => {
                name.is_match(tool) || foreign_server_names(tool).any(|tool| name.is_match(&tool))
            }
            Subject::Tools(names) => names.iter().any(|name| name == tool),
            Subject::Command(_)
            | Subject::Exact(_)
            | Subject::Path { .. }
            | Subject::Below(..)
            | Subject::Host(_)
            | Subject::Code(_) => false,
        }
    }

    /// Whether the rule restricts this kind of access to files.
    pub(crate) fn is_about(&self, wanted: Access) -> bool {
        match &self.subject {
            Subject::Path { access, .. } => *access == wanted,
            Subject::Below(access, _) => *access == wanted,
            Subject::Command(_)
            | Subject::Exact(_)
            | Subject::Host(_)
            | Subject::Tool(_)
            | Subject::Tools(_)
            | Subject::Code(_) => false,
        }
    }

    /// Whether the rule can match a file below a directory, given by its absolute path.
    pub(crate) fn can_be_below(&self, wanted: Access, directory: &Path) -> bool {
        let directory = normalise(directory);
        match &self.subject {
            Subject::Path { access, fixed, glob, .. } if *access == wanted => {
                fixed.starts_with(&directory)
                    || (directory.starts_with(fixed) && glob.glob().glob() != fixed.to_string_lossy())
            }
            Subject::Below(access, own) => *access == wanted && own.starts_with(&directory),
            Subject::Path { .. }
            | Subject::Command(_)
            | Subject::Exact(_)
            | Subject::Host(_)
            | Subject::Tool(_)
            | Subject::Tools(_)
            | Subject::Code(_) => false,
        }
    }

    /// Single file or whole directory that a deny rule covers, from which a sandbox can keep commands.
    #[must_use]
    pub fn denied_tree(&self) -> Option<(Access, &Path)> {
        match &self.subject {
            Subject::Path { access, glob, and_itself, fixed } if self.decision == Decision::Deny => {
                let is_whole = match and_itself {
                    Some(directory) => directory == fixed,
                    None => glob.glob().glob() == fixed.to_string_lossy(),
                };
                (is_whole && fixed.components().count() > 1).then_some((*access, fixed))
            }
            _ => None,
        }
    }

    /// Access, and directory above all paths, of a deny rule about files; `None` for other rules.
    #[must_use]
    pub fn denied_below(&self) -> Option<(Access, &Path)> {
        match &self.subject {
            Subject::Path { access, fixed, .. } if self.decision == Decision::Deny => Some((*access, fixed)),
            _ => None,
        }
    }

    /// Whether the rule matches an absolute file path.
    #[must_use]
    pub fn is_about_file(&self, access: Access, path: &Path) -> bool {
        self.matches_path(access, path)
    }

    /// Marks the denial as enforced by the sandbox.
    pub fn hold(&mut self) {
        self.is_held = true;
    }

    /// Whether the sandbox enforces the denial for every command.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held && self.decision == Decision::Deny
    }

    pub(crate) fn is_exactly(&self, command: &str) -> bool {
        matches!(&self.subject, Subject::Exact(text) if text == command)
    }

    pub(crate) fn pattern(&self) -> Option<&CommandPattern> {
        if let Subject::Command(pattern) = &self.subject { Some(pattern) } else { None }
    }
}

/// Text between the brackets of a rule such as `read(src/**)`, if the rule has this name.
fn argument_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')
}

fn path_subject(
    access: Access,
    pattern: &str,
    decision: Decision,
    base: &RuleBase,
) -> Result<Subject, String> {
    if pattern.is_empty() {
        return Err("it names no path".to_owned());
    }
    let full = if pattern.starts_with('/') {
        pattern.to_owned()
    } else if let Some(rest) = pattern.strip_prefix("~/") {
        let Some(home) = &base.home else { return Err("there is no home directory for `~/`".to_owned()) };
        format!("{}/{rest}", literal(home)?)
    } else {
        format!("{}/{}", literal(&base.root)?, pattern.strip_prefix("./").unwrap_or(pattern))
    };
    if full.split('/').any(|part| part == "..") {
        return Err("`..` is not resolved in patterns; write where it leads".to_owned());
    }
    // A rule that denies or asks about all below a directory is about the directory itself, too.
    let directory = full.strip_suffix("/**").filter(|_| decision != Decision::Allow);
    let and_itself = directory.map(PathBuf::from);
    Ok(Subject::Path { access, glob: glob(&full, true)?, and_itself, fixed: fixed_part(&full) })
}

/// Literal components of a pattern, before the first wildcard.
fn fixed_part(pattern: &str) -> PathBuf {
    let is_fixed = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
    let parts: Vec<&str> = pattern.split('/').take_while(is_fixed).collect();
    PathBuf::from(if parts.len() < 2 { "/".to_owned() } else { parts.join("/") })
}

fn literal(path: &Path) -> Result<String, String> {
    let text = path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
    Ok(globset::escape(text.trim_end_matches('/')))
}

fn glob(text: &str, is_path: bool) -> Result<GlobMatcher, String> {
    if text.is_empty() {
        return Err("it names no tool".to_owned());
    }
    let built = GlobBuilder::new(text).literal_separator(is_path).backslash_escape(true).build();
    built.map(|glob| glob.compile_matcher()).map_err(|error| error.to_string())
}

/// Rules in effect.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
}

impl Rules {
    /// Makes an empty set of rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Predicate for files whose reading a rule denies or asks about; `None` without such rules.
    #[must_use]
    pub fn restricted_reads(&self) -> Option<impl Fn(&Path) -> bool + Send + Sync + 'static> {
        let restricts = |rule: &&Rule| rule.decision != Decision::Allow && rule.is_about(Access::Read);
        let rules: Vec<Rule> = self.rules.iter().filter(restricts).cloned().collect();
        let is_restricted = move |path: &Path| rules.iter().any(|rule| rule.matches_path(Access::Read, path));
        self.rules.iter().any(|rule| restricts(&rule)).then_some(is_restricted)
    }

    /// Adds a rule.
    pub fn push(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// Adds the rules of one list of settings; returns the invalid ones, which have no effect.
    #[must_use = "a rule that cannot be read must be told"]
    pub fn extend<S: AsRef<str>>(
        &mut self,
        layer: Layer,
        decision: Decision,
        texts: &[S],
        base: &RuleBase,
    ) -> Vec<RuleError> {
        let mut wrong = Vec::new();
        for text in texts {
            match Rule::parse(layer, decision, text.as_ref(), base) {
                Ok(rule) => self.push(rule),
                Err(error) => wrong.push(error),
            }
        }
        wrong
    }

    /// Removes the project's allowing rules and keeps its forbidding ones. Returns the number of removed
    /// rules.
    pub fn distrust_project(&mut self) -> usize {
        let before = self.rules.len();
        let is_projects = |rule: &Rule| matches!(rule.layer, Layer::Project | Layer::ProjectLocal);
        self.rules.retain(|rule| !(is_projects(rule) && rule.decision == Decision::Allow));
        before - self.rules.len()
    }

    /// All rules, in order of addition.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// All rules, to mark the ones enforced by a sandbox.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Rule> {
        self.rules.iter_mut()
    }

    /// Returns the rules with this decision.
    pub(crate) fn saying(&self, decision: Decision) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.decision == decision)
    }
}

mod offer;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::{Table, Value};
use zk_core::service::{StateFileError, StateFiles};

pub(crate) use offer::offered;

use crate::rules::{Decision, Layer, Rule};

/// Largest approvals file, in bytes.
const MAX_APPROVALS_BYTES: usize = 1 << 20;

const VERSION: i64 = 1;

/// Key of the list in the file.
const LIST: &str = "approval";

/// Lasting approval of a person, in one project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Calls that it allows.
    pub kind: ApprovalKind,
    /// Canonical root of the project; the approval holds nowhere else.
    pub project: PathBuf,
    /// Day of the approval, as `2026-11-22`.
    pub created: String,
}

/// Kind of calls that an approval allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalKind {
    /// Calls with exactly this shell text.
    Exact {
        /// Shell text.
        command: String,
    },
    /// Commands that begin with these words.
    Prefix {
        /// Program and first arguments; at least one word.
        words: Vec<String>,
    },
    /// Writes below this directory of the workspace, by file tools and redirections.
    Directory {
        /// The directory, absolute.
        path: PathBuf,
    },
}

impl Approval {
    /// Rule that grants this approval.
    #[must_use]
    pub fn rule(&self) -> Rule {
        match &self.kind {
            ApprovalKind::Exact { command } => Rule::exact(Layer::Approvals, Decision::Allow, command),
            ApprovalKind::Prefix { words } => Rule::prefix(Layer::Approvals, Decision::Allow, words),
            ApprovalKind::Directory { path } => Rule::directory(Layer::Approvals, Decision::Allow, path),
        }
    }

    fn parse(table: &Table) -> Result<Option<Self>, String> {
        let text = |key: &str| {
            let value = table.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            value.map(str::to_owned).ok_or_else(|| format!("an approval has no text `{key}`"))
        };
        let kind = match text("kind")?.as_str() {
            "exact" => ApprovalKind::Exact { command: text("command")? },
            "prefix" => {
                let words = table.get("words").and_then(Value::as_array).filter(|words| !words.is_empty());
                let words = words
                    .and_then(|words| words.iter().map(|word| Some(word.as_str()?.to_owned())).collect());
                ApprovalKind::Prefix {
                    words: words.ok_or("an approval of a prefix has no list `words` of texts")?,
                }
            }
            "directory" => ApprovalKind::Directory { path: absolute(text("directory")?)? },
            // Kind of a later version.
            _ => return Ok(None),
        };
        Ok(Some(Self { kind, project: absolute(text("project")?)?, created: text("created")? }))
    }

    fn to_table(&self) -> io::Result<Table> {
        let utf8 = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| {
                io::Error::new(ErrorKind::InvalidInput, format!("{} is not UTF-8", path.display()))
            })
        };
        let mut table = Table::new();
        let (kind, key, value) = match &self.kind {
            ApprovalKind::Exact { command } => ("exact", "command", Value::String(command.clone())),
            ApprovalKind::Prefix { words } => {
                ("prefix", "words", Value::Array(words.iter().cloned().map(Value::String).collect()))
            }
            ApprovalKind::Directory { path } => ("directory", "directory", Value::String(utf8(path)?)),
        };
        table.insert("kind".to_owned(), Value::String(kind.to_owned()));
        table.insert(key.to_owned(), value);
        table.insert("project".to_owned(), Value::String(utf8(&self.project)?));
        table.insert("created".to_owned(), Value::String(self.created.clone()));
        Ok(table)
    }
}

fn absolute(text: String) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err(format!("`{}` is not absolute", path.display())) }
}

/// Failure to read or store approvals.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// The file exists and is unusable: it approves nothing and is not overwritten.
    #[error("the approvals in {} are not usable ({why}); nothing in them counts until the file is repaired or removed", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Reason why the file is unusable.
        why: String,
    },
    /// The file cannot be read or written.
    #[error("cannot write the approvals in {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
}

/// File `approvals.toml` of a configuration directory. Only its owner may have write access. Unknown entries
/// are kept.
#[derive(Clone)]
pub struct Approvals {
    path: PathBuf,
    files: Arc<dyn StateFiles>,
}

impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approvals").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Approvals {
    /// Approvals in the file at `path`, which need not exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, files: Arc<dyn StateFiles>) -> Self {
        Self { path: path.into(), files }
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All approvals of all projects, oldest first.
    ///
    /// # Errors
    /// [`ApprovalError::Unusable`] when the file is damaged, too large, or writable by others.
    pub fn list(&self) -> Result<Vec<Approval>, ApprovalError> {
        let file = self.load()?;
        approvals(&file).map(|all| all.into_iter().flatten().collect()).map_err(|why| self.unusable(why))
    }

    /// Rules from the approvals of a project.
    ///
    /// # Errors
    /// As [`Approvals::list`].
    pub fn rules(&self, project: &Path) -> Result<Vec<Rule>, ApprovalError> {
        let all = self.list()?;
        Ok(all.iter().filter(|approval| approval.project == project).map(Approval::rule).collect())
    }

    /// Adds an approval, unless the file contains it.
    ///
    /// # Errors
    /// [`ApprovalError`] when the file is unusable or cannot be written.
    pub fn add(&self, approval: &Approval) -> Result<(), ApprovalError> {
        self.change(|list, known| {
            let is_there = |old: &Option<Approval>| {
                old.as_ref().is_some_and(|old| old.kind == approval.kind && old.project == approval.project)
            };
            if !known.iter().any(is_there) {
                list.push(Value::Table(approval.to_table()?));
            }
            Ok(())
        })
    }

    /// Removes an approval; returns whether the file contained it.
    ///
    /// # Errors
    /// As [`Approvals::add`].
    pub fn revoke(&self, approval: &Approval) -> Result<bool, ApprovalError> {
        let mut found = false;
        self.change(|list, known| {
            let mut known = known.into_iter();
            list.retain(|_| {
                let is_it = known.next().flatten().is_some_and(|old| old == *approval);
                found |= is_it;
                !is_it
            });
            Ok(())
        })?;
        Ok(found)
    }

    fn unusable(&self, why: impl Into<String>) -> ApprovalError {
        ApprovalError::Unusable { path: self.path.clone(), why: why.into() }
    }

    fn load(&self) -> Result<Table, ApprovalError> {
        let read = self.files.read(&self.path, MAX_APPROVALS_BYTES).map_err(|error| match error {
            StateFileError::Unusable { why, .. } => self.unusable(why),
            error @ (StateFileError::Busy { .. } | StateFileError::Io { .. }) => {
                self.unusable(error.to_string())
            }
        })?;
        let Some(bytes) = read else { return Ok(Table::new()) };
        let text = String::from_utf8(bytes).map_err(|_| self.unusable("it is not UTF-8"))?;
        let table: Table =
            text.parse().map_err(|error: toml::de::Error| self.unusable(error.message().to_owned()))?;
        match table.get("version").map(Value::as_integer) {
            None | Some(Some(VERSION)) => Ok(table),
            Some(_) => Err(self.unusable(format!("its version is not {VERSION}"))),
        }
    }

    /// Changes the list under the file's lock.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<Value>, Vec<Option<Approval>>) -> io::Result<()>,
    ) -> Result<(), ApprovalError> {
        let failed = |source| ApprovalError::Io { path: self.path.clone(), source };
        let _lock = self.files.lock(&self.path).map_err(|error| failed(error.into_io()))?;
        let mut table = self.load()?;
        let known = approvals(&table).map_err(|why| self.unusable(why))?;
        table.entry("version").or_insert(Value::Integer(VERSION));
        let list = table.entry(LIST).or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(list) = list else { return Err(self.unusable(format!("`{LIST}` is no list"))) };
        change(list, known).map_err(failed)?;
        let text = toml::to_string_pretty(&table).map_err(|error| failed(io::Error::other(error)))?;
        self.files.replace(&self.path, text.as_bytes()).map_err(|error| failed(error.into_io()))
    }
}

/// Parses the approvals of a file, in order; `None` stands for a kind of a later version.
fn approvals(table: &Table) -> Result<Vec<Option<Approval>>, String> {
    let Some(list) = table.get(LIST) else { return Ok(Vec::new()) };
    let Some(list) = list.as_array() else { return Err(format!("`{LIST}` is no list")) };
    list.iter()
        .map(|item| {
            item.as_table().ok_or_else(|| "an approval is no table".to_owned()).and_then(Approval::parse)
        })
        .collect()
}

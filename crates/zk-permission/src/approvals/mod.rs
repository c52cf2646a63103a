mod offer;
mod words;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::{Table, Value};
use zk_core::service::{StateFileError, StateFiles};

pub(crate) use offer::{AskedPlace, offered};
pub(crate) use words::{call_offer, from_key};

use crate::rules::{Bound, Decision, Layer, Manifest, ProjectCode, Rule};

/// Largest approvals file, in bytes.
const MAX_APPROVALS_BYTES: usize = 1 << 20;

const VERSION: i64 = 1;

/// Key of the list of approvals in the file.
const LIST_KEY: &str = "approval";

/// Lasting approval of a person, in one project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Kind of calls that the approval allows.
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
    /// Commands with this prefix.
    Prefix {
        /// Program and first arguments; at least one word.
        words: Vec<String>,
    },
    /// Writes below this directory of the workspace, by file tools and redirections.
    Directory {
        /// The directory, absolute.
        path: PathBuf,
    },
    /// Reading below this directory outside of the workspace, by file tools.
    Reads {
        /// The directory, absolute.
        path: PathBuf,
    },
    /// Commands that run code of the project, such as its tests or a build script.
    Code(ProjectCode),
    /// Every call of these tools, with any arguments.
    Tools {
        /// MCP server of the tools, if the approval covers all tools of the server.
        server: Option<String>,
        /// Canonical names of the tools, at least one.
        names: Vec<String>,
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
            ApprovalKind::Reads { path } => Rule::reading(Layer::Approvals, Decision::Allow, path),
            ApprovalKind::Code(code) => Rule::project_code(Layer::Approvals, code),
            ApprovalKind::Tools { server, names } => Rule::tools(Layer::Approvals, server.as_deref(), names),
        }
    }

    fn parse(table: &Table) -> Result<Option<Self>, String> {
        let text = |key: &str| {
            let value = table.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            value.map(str::to_owned).ok_or_else(|| format!("an approval has no text `{key}`"))
        };
        let kind = match text("kind")?.as_str() {
            "exact" => ApprovalKind::Exact { command: text("command")? },
            "prefix" => ApprovalKind::Prefix {
                words: texts(table, "words").ok_or("an approval of a prefix has no list `words` of texts")?,
            },
            "project-code" => ApprovalKind::Code(ProjectCode {
                words: texts(table, "words")
                    .ok_or("an approval of project code has no list `words` of texts")?,
                bound: parse_bound(table)?,
            }),
            "tools" => ApprovalKind::Tools {
                server: table.get("server").and_then(Value::as_str).map(str::to_owned),
                names: texts(table, "tools").ok_or("an approval of tools has no list `tools` of texts")?,
            },
            "directory" => ApprovalKind::Directory { path: absolute_path(text("directory")?)? },
            "reads" => ApprovalKind::Reads { path: absolute_path(text("directory")?)? },
            // Kind that a later version of zk wrote.
            _ => return Ok(None),
        };
        Ok(Some(Self { kind, project: absolute_path(text("project")?)?, created: text("created")? }))
    }

    fn to_table(&self) -> io::Result<Table> {
        let utf8 = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| {
                io::Error::new(ErrorKind::InvalidInput, format!("{} is not UTF-8", path.display()))
            })
        };
        let mut table = Table::new();
        let list = |texts: &[String]| Value::Array(texts.iter().cloned().map(Value::String).collect());
        let (kind, key, value) = match &self.kind {
            ApprovalKind::Exact { command } => ("exact", "command", Value::String(command.clone())),
            ApprovalKind::Prefix { words } => ("prefix", "words", list(words)),
            ApprovalKind::Directory { path } => ("directory", "directory", Value::String(utf8(path)?)),
            ApprovalKind::Reads { path } => ("reads", "directory", Value::String(utf8(path)?)),
            ApprovalKind::Code(code) => {
                if let Some(bound) = &code.bound {
                    let mut manifests = Table::new();
                    for Manifest { path, hash } in &bound.manifests {
                        manifests.insert(utf8(path)?, Value::String(hash.clone().unwrap_or_default()));
                    }
                    table.insert("directory".to_owned(), Value::String(utf8(&bound.directory)?));
                    table.insert("manifests".to_owned(), Value::Table(manifests));
                }
                ("project-code", "words", list(&code.words))
            }
            ApprovalKind::Tools { server, names } => {
                if let Some(server) = server {
                    table.insert("server".to_owned(), Value::String(server.clone()));
                }
                ("tools", "tools", list(names))
            }
        };
        table.insert("kind".to_owned(), Value::String(kind.to_owned()));
        table.insert(key.to_owned(), value);
        table.insert("project".to_owned(), Value::String(utf8(&self.project)?));
        table.insert("created".to_owned(), Value::String(self.created.clone()));
        Ok(table)
    }
}

/// Texts of a list in the file; `None` if the list is empty or has anything else in it.
fn texts(table: &Table, key: &str) -> Option<Vec<String>> {
    let list = table.get(key)?.as_array().filter(|list| !list.is_empty())?;
    list.iter().map(|item| Some(item.as_str()?.to_owned())).collect()
}

/// Directory and manifests of an approval outside of a sandbox; `None` for one inside.
fn parse_bound(table: &Table) -> Result<Option<Bound>, String> {
    let (Some(directory), Some(manifests)) = (table.get("directory"), table.get("manifests")) else {
        return match (table.get("directory"), table.get("manifests")) {
            (None, None) => Ok(None),
            _ => Err("an approval of project code has one of `directory` and `manifests` alone".to_owned()),
        };
    };
    let wrong = || "an approval of project code has no table `manifests` of hashes".to_owned();
    let manifests = manifests.as_table().filter(|all| !all.is_empty()).ok_or_else(wrong)?;
    let manifests = manifests.iter().map(|(path, hash)| {
        let hash = hash.as_str().ok_or_else(wrong)?;
        let hash = (!hash.is_empty()).then(|| hash.to_owned());
        Ok(Manifest { path: absolute_path(path.clone())?, hash })
    });
    let directory = absolute_path(directory.as_str().ok_or("`directory` is no text")?.to_owned())?;
    Ok(Some(Bound { directory, manifests: manifests.collect::<Result<_, String>>()? }))
}

fn absolute_path(text: String) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err(format!("`{}` is not absolute", path.display())) }
}

/// Failure to read or store approvals.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// The file exists and is unusable: it approves nothing and is not overwritten.
    #[error("the approvals in {} are not usable ({why}); nothing in them counts until the file is repaired or removed", path.display())]
    Unusable {
        /// Path of the file.
        path: PathBuf,
        /// Reason why the file is unusable.
        why: String,
    },
    /// The file cannot be read or written.
    #[error("cannot write the approvals in {}: {source}", path.display())]
    Io {
        /// Path of the file.
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
        let list = table.entry(LIST_KEY).or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(list) = list else { return Err(self.unusable(format!("`{LIST_KEY}` is no list"))) };
        change(list, known).map_err(failed)?;
        let text = toml::to_string_pretty(&table).map_err(|error| failed(io::Error::other(error)))?;
        self.files.replace(&self.path, text.as_bytes()).map_err(|error| failed(error.into_io()))
    }
}

/// Parses the approvals of a file, in order; `None` is a kind of a later version.
fn approvals(table: &Table) -> Result<Vec<Option<Approval>>, String> {
    let Some(list) = table.get(LIST_KEY) else { return Ok(Vec::new()) };
    let Some(list) = list.as_array() else { return Err(format!("`{LIST_KEY}` is no list")) };
    list.iter()
        .map(|item| {
            item.as_table().ok_or_else(|| "an approval is no table".to_owned()).and_then(Approval::parse)
        })
        .collect()
}

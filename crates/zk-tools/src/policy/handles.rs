use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use zk_core::events::ToolPrepare;
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Plugin, Reach, Scope, Stage};

use crate::text::size;
use crate::{OutputDir, limits};

/// Prefix of every handle.
pub(super) const PREFIX: &str = "output:";

/// Arguments that name a file or a place, and get the path of an output instead of its text.
const PLACES: [&str; 16] = [
    "path",
    "paths",
    "file",
    "files",
    "file_path",
    "filepath",
    "filename",
    "handle",
    "dir",
    "directory",
    "cwd",
    "source",
    "input_file",
    "uri",
    "command",
    "cmd",
];

/// Resolves handles of spilled outputs, `output:NAME`, in the arguments of every tool. A path argument
/// becomes the path of the file; inside a longer text, such as a command, the path is inserted; any other
/// argument becomes the whole text. Judges and persons see the resolved arguments. A copied session has its
/// own copies of these files: paths to files of the original session are replaced by theirs.
///
/// ```
/// use zk_core::kernel::Bus;
/// use zk_tools::OutputHandles;
///
/// Bus::new().install(&OutputHandles).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputHandles;

impl Plugin for OutputHandles {
    fn name(&self) -> &'static str {
        "output-handles"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let at = HookOptions { stage: Stage::Early, reach: Some(Reach::Descendants), time_limit: None };
        scope.handle_at::<ToolPrepare, _>(at, Arc::new(*self));
        Ok(())
    }
}

impl Handler<ToolPrepare> for OutputHandles {
    async fn call(&self, prepare: &ToolPrepare, cx: &Cx) -> Answer<ToolPrepare> {
        let Some(dir) = cx.service::<OutputDir>() else { return Ok(None) };
        let parent = dir.0.parent().and_then(Path::to_str).map(|parent| format!("{parent}/"));
        if !mentions(&prepare.args, PREFIX) && !parent.is_some_and(|parent| mentions(&prepare.args, &parent))
        {
            return Ok(None);
        }
        let (dir, mut args) = (dir.0.clone(), prepare.args.clone());
        let replaced = tokio::task::spawn_blocking(move || {
            let moved = redirect_to_own(&mut args, "", &dir);
            let changed = replace(&mut args, "", &dir)?;
            Ok::<_, String>((moved || changed).then_some(args))
        });
        Ok(replaced.await??)
    }
}

fn mentions(value: &Value, what: &str) -> bool {
    match value {
        Value::String(text) => text.contains(what),
        Value::Array(all) => all.iter().any(|value| mentions(value, what)),
        Value::Object(all) => all.values().any(|value| mentions(value, what)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Replaces paths to outputs of the original session by this session's copies; `key` is the argument's name.
/// Returns whether there was any.
fn redirect_to_own(value: &mut Value, key: &str, dir: &Path) -> bool {
    match value {
        Value::String(text) if PLACES.contains(&key) => {
            let found = dir.canonicalize().ok().and_then(|dir| own_paths(text, &dir));
            let is_one = found.is_some();
            if let Some(found) = found {
                *text = found;
            }
            is_one
        }
        Value::Array(all) => {
            all.iter_mut().map(|one| redirect_to_own(one, key, dir)).filter(|moved| *moved).count() > 0
        }
        Value::Object(all) => {
            all.iter_mut().map(|(key, one)| redirect_to_own(one, key, dir)).filter(|moved| *moved).count() > 0
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Replaces paths to files in sibling directories by the paths of the same files in the canonical `dir`;
/// `None` without such paths.
fn own_paths(text: &str, dir: &Path) -> Option<String> {
    let all = dir.parent()?;
    let root = format!("{}/", all.to_str()?);
    let (mut out, mut rest, mut any) = (String::with_capacity(text.len()), text, false);
    while let Some((before, after)) = rest.split_once(&root) {
        out.push_str(before);
        let other = after.get(..name_length(after)).unwrap_or_default();
        let name = after.get(other.len()..).and_then(|after| after.strip_prefix('/')).unwrap_or_default();
        let name = name.get(..name_length(name)).unwrap_or_default().trim_end_matches('.');
        let behind = after.get(other.len() + 1 + name.len()..).unwrap_or_default();
        let is_whole =
            is_edge(out.chars().next_back()) && is_edge(behind.trim_start_matches('.').chars().next());
        let own = output_file(name, dir).filter(|own| {
            is_whole
                && !other.is_empty()
                && !other.starts_with('.')
                && is_copy(own, &all.join(other).join(name))
        });
        match own {
            Some(path) => {
                any = true;
                out.push_str(&path.display().to_string());
                rest = behind;
            }
            None => {
                out.push_str(&root);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    any.then_some(out)
}

/// Whether a path can start or end next to this character.
fn is_edge(beside: Option<char>) -> bool {
    beside.is_none_or(|c| c.is_whitespace() || "'\"`=:,;()<>|&".contains(c))
}

/// Whether `own` is the copy of another file: a hard link, or an equal file if links are impossible.
fn is_copy(own: &Path, other: &Path) -> bool {
    let Ok(other) = other.symlink_metadata() else { return true };
    own.symlink_metadata().is_ok_and(|own| {
        let is_same_file = (own.dev(), own.ino()) == (other.dev(), other.ino());
        is_same_file || (own.dev() != other.dev() && own.len() == other.len())
    })
}

/// Resolves handles in an argument named `key`. Returns whether there was any.
fn replace(value: &mut Value, key: &str, dir: &Path) -> Result<bool, String> {
    match value {
        Value::String(text) => {
            let found = match file_of_handle(text, dir) {
                Some(path) if PLACES.contains(&key) => Some(path.display().to_string()),
                Some(path) => Some(read_output(&path)?),
                None => with_paths(text, dir),
            };
            let is_one = found.is_some();
            if let Some(found) = found {
                *text = found;
            }
            Ok(is_one)
        }
        Value::Array(all) => all.iter_mut().try_fold(false, |any, one| Ok(replace(one, key, dir)? || any)),
        Value::Object(all) => {
            all.iter_mut().try_fold(false, |any, (key, one)| Ok(replace(one, key, dir)? || any))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(false),
    }
}

/// File of an output, if the text is exactly its handle.
fn file_of_handle(text: &str, dir: &Path) -> Option<PathBuf> {
    let name = text.trim().strip_prefix(PREFIX)?;
    (name.len() == name_length(name)).then(|| output_file(name, dir)).flatten()
}

/// Text with each handle replaced by the path of its file; `None` without a handle.
fn with_paths(text: &str, dir: &Path) -> Option<String> {
    let (mut out, mut rest, mut any) = (String::with_capacity(text.len()), text, false);
    while let Some((before, after)) = rest.split_once(PREFIX) {
        let name = after.get(..name_length(after)).unwrap_or_default().trim_end_matches('.');
        let path = output_file(name, dir);
        out.push_str(before);
        match path {
            Some(path) => {
                any = true;
                out.push_str(&path.display().to_string());
            }
            None => {
                out.push_str(PREFIX);
                out.push_str(name);
            }
        }
        rest = after.get(name.len()..).unwrap_or_default();
    }
    out.push_str(rest);
    any.then_some(out)
}

/// Returns the length of the name at the beginning of a text, in bytes.
fn name_length(text: &str) -> usize {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.find(|c| !is_of_name(c)).unwrap_or(text.len())
}

/// Output file of this name in `dir`; `None` if there is no regular file of that name.
fn output_file(name: &str, dir: &Path) -> Option<PathBuf> {
    if name.is_empty() || name.starts_with('.') {
        return None;
    }
    let path = dir.canonicalize().ok()?.join(name);
    path.symlink_metadata().is_ok_and(|found| found.is_file()).then_some(path)
}

fn read_output(path: &Path) -> Result<String, String> {
    let fail = |why: String| format!("the output {} cannot be given as an argument: {why}", path.display());
    let file = File::open(path).map_err(|error| fail(error.to_string()))?;
    let most = limits::RESULT_BYTES as u64;
    let length = file.metadata().map_err(|error| fail(error.to_string()))?.len();
    if length > most {
        let (length, most) = (size(length), size(most));
        return Err(fail(format!(
            "it has {length}, an argument may have {most}; give a part of it, or its path"
        )));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(|error| fail(error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

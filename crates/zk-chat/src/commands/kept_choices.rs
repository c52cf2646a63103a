//! Model and reasoning level that a person chose in a directory, kept for the next start there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use zk_core::model::{ModelRef, ThinkingLevel};
use zk_core::service::{StateFileError, StateFiles};

/// Version of the file's format.
const FILE_VERSION: u32 = 1;

/// Maximum number of directories in the file, beyond which the oldest choice is dropped.
const MAX_DIRECTORIES: usize = 1_000;

/// Size limit of the file, in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Model and thinking level that a person chose in one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptChoice {
    /// Model, by `/model` or `/provider`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Reasoning level, by `/thinking` or with the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ThinkingLevel>,
}

/// File of choices by directory, private to the person. Every function blocks on disk access.
///
/// ```
/// use std::sync::Arc;
/// use zk_chat::{KeptChoice, KeptChoices};
/// use zk_core::model::{ModelRef, ThinkingLevel};
/// use zk_exec::LocalStateFiles;
///
/// let state = tempfile::tempdir()?;
/// let kept = KeptChoices::new(state.path().join("choices.json"), Arc::new(LocalStateFiles::default()));
/// let model = Some(ModelRef::new("ollama", "qwen3"));
/// kept.keep("/project".as_ref(), &KeptChoice { model: model.clone(), thinking: None })?;
/// kept.keep("/project".as_ref(), &KeptChoice { model: None, thinking: Some(ThinkingLevel::Low) })?;
/// let here = kept.read("/project".as_ref())?.unwrap();
/// assert_eq!((here.model, here.thinking), (model, Some(ThinkingLevel::Low)));
/// assert_eq!(kept.read("/elsewhere".as_ref())?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeptChoices {
    path: PathBuf,
    files: Arc<dyn StateFiles>,
}

/// Content of the file: choices by directory.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    version: u32,
    directories: BTreeMap<String, Row>,
}

/// Stored model choice of one directory, with the time of the choice.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    #[serde(flatten)]
    choice: KeptChoice,
    time_ms: u64,
}

impl KeptChoices {
    /// Creates the choices of the file at `path`.
    #[must_use]
    pub fn new(path: PathBuf, files: Arc<dyn StateFiles>) -> Self {
        Self { path, files }
    }

    /// Returns the choice in a directory, if there is one.
    ///
    /// # Errors
    /// [`StateFileError`] when the file cannot be read or understood.
    pub fn read(&self, directory: &Path) -> Result<Option<KeptChoice>, StateFileError> {
        let mut content = self.read_content()?;
        Ok(content.directories.remove(&key(directory)).map(|row| row.choice))
    }

    /// Keeps a choice in a directory. A part that is `None` stays as it was.
    ///
    /// # Errors
    /// [`StateFileError`] when the file cannot be understood or written; it is unchanged then.
    pub fn keep(&self, directory: &Path, choice: &KeptChoice) -> Result<(), StateFileError> {
        let _lock = self.files.lock(&self.path)?;
        let mut content = self.read_content()?;
        let before = content.directories.remove(&key(directory)).map(|row| row.choice).unwrap_or_default();
        let choice = KeptChoice {
            model: choice.model.clone().or(before.model),
            thinking: choice.thinking.or(before.thinking),
        };
        content.directories.insert(key(directory), Row { choice, time_ms: now_ms() });
        while content.directories.len() > MAX_DIRECTORIES {
            let oldest = content.directories.iter().min_by_key(|(_, row)| row.time_ms);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { break };
            content.directories.remove(&oldest);
        }
        content.version = FILE_VERSION;
        let bytes =
            serde_json::to_vec_pretty(&content).map_err(|error| self.unusable_error(error.to_string()))?;
        self.files.replace(&self.path, &bytes)
    }

    fn read_content(&self) -> Result<Content, StateFileError> {
        let Some(bytes) = self.files.read(&self.path, MAX_FILE_BYTES)? else {
            return Ok(Content { version: FILE_VERSION, ..Content::default() });
        };
        let content: Content =
            serde_json::from_slice(&bytes).map_err(|error| self.unusable_error(error.to_string()))?;
        match content.version {
            FILE_VERSION => Ok(content),
            newer => Err(self.unusable_error(format!("it has version {newer}, of another zk"))),
        }
    }

    fn unusable_error(&self, why: String) -> StateFileError {
        StateFileError::Unusable { path: self.path.clone(), why }
    }
}

fn key(directory: &Path) -> String {
    directory.to_string_lossy().into_owned()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use zk_exec::LocalStateFiles;

    use super::*;

    #[test]
    fn the_oldest_directory_is_dropped_and_the_file_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/choices.json");
        let kept = KeptChoices::new(path.clone(), Arc::new(LocalStateFiles::default()));
        let choice = KeptChoice { model: None, thinking: Some(ThinkingLevel::High) };
        let row = |time_ms| Row { choice: choice.clone(), time_ms };
        let directories = (0..MAX_DIRECTORIES).map(|at| (format!("/{at}"), row(at as u64 + 1))).collect();
        let content = Content { version: FILE_VERSION, directories };
        kept.keep("/first".as_ref(), &choice).unwrap();
        kept.files.replace(&path, &serde_json::to_vec(&content).unwrap()).unwrap();
        kept.keep("/new".as_ref(), &choice).unwrap();
        assert_eq!(kept.read("/0".as_ref()).unwrap(), None);
        assert_eq!(kept.read("/1".as_ref()).unwrap(), Some(choice.clone()));
        assert_eq!(kept.read("/new".as_ref()).unwrap(), Some(choice));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_reported_and_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("choices.json");
        let kept = KeptChoices::new(path.clone(), Arc::new(LocalStateFiles::default()));
        for text in ["garbage", "{}", r#"{"version": 9, "directories": {}}"#] {
            kept.files.replace(&path, text.as_bytes()).unwrap();
            assert!(kept.read("/a".as_ref()).is_err(), "{text}");
            assert!(kept.keep("/a".as_ref(), &KeptChoice::default()).is_err(), "{text}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use secrecy::zeroize::Zeroizing;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, ExecError, ExecRequest, Exit, OutputStream};

use crate::Secret;

/// Time limit of a command that prints a key.
const LIMIT: Duration = Duration::from_secs(10);
/// Largest output of a command that prints a key, in bytes.
const MAX_KEY_BYTES: usize = 64 << 10;

/// Source of an API key, as written in settings.
///
/// ```
/// use zk_auth::KeySource;
///
/// assert!(matches!(KeySource::parse("env:MY_KEY"), KeySource::Env(name) if name == "MY_KEY"));
/// assert!(matches!(KeySource::parse("!pass show llm/key"), KeySource::Command(_)));
/// assert!(matches!(KeySource::parse("sk-test"), KeySource::Literal(_)));
/// ```
#[derive(Clone)]
pub enum KeySource {
    /// Literal key.
    Literal(Secret),
    /// Environment variable.
    Env(String),
    /// Command that prints the key, such as a password manager's.
    Command(String),
}

impl KeySource {
    /// Parses `env:NAME` and `!command`; any other text is a literal key.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if let Some(command) = text.strip_prefix('!') {
            Self::Command(command.trim().to_owned())
        } else if let Some(name) = text.strip_prefix("env:") {
            Self::Env(name.trim().to_owned())
        } else {
            Self::Literal(text.into())
        }
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(_) => f.write_str("Literal(…)"),
            Self::Env(name) => f.debug_tuple("Env").field(name).finish(),
            Self::Command(command) => f.debug_tuple("Command").field(&program(command)).finish(),
        }
    }
}

/// Reason why a [`KeySource`] gave no key. Only the first word of a command is named, since the rest may
/// contain a secret.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The variable is unset or empty.
    #[error("the key is to come from the variable `{name}`, which is not set: export it")]
    Unset {
        /// Name of the variable.
        name: String,
    },
    /// There is no service that runs commands.
    #[error("the key is to come from the command `{program} …`, but this host runs no commands")]
    NoExec {
        /// First word of the command.
        program: String,
    },
    /// The command could not be started.
    #[error("the key command `{program} …` did not run: {source}")]
    Exec {
        /// First word of the command.
        program: String,
        /// Cause of the failure.
        source: ExecError,
    },
    /// The command failed.
    #[error("the key command `{program} …` {how}: run it in a terminal to see why")]
    Failed {
        /// First word of the command.
        program: String,
        /// Exit of the command in words, such as its exit code.
        how: String,
    },
    /// The command's output is no key.
    #[error("the key command `{program} …` printed {what}: it must print the key and nothing else")]
    Output {
        /// First word of the command.
        program: String,
        /// Fault in words, without the output itself.
        what: &'static str,
    },
}

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Resolves key sources; runs each command once and caches its output.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use tokio_util::sync::CancellationToken;
/// use zk_auth::{KeyRing, KeySource};
///
/// let ring = KeyRing::new(|name| (name == "MY_KEY").then(|| "sk-test".to_owned()));
/// assert!(ring.key(&KeySource::parse("env:MY_KEY"), &CancellationToken::new()).await.is_ok());
/// # });
/// ```
pub struct KeyRing {
    lookup: Box<Lookup>,
    exec: Option<(Arc<dyn Exec>, PathBuf)>,
    /// Output of each command. Concurrent callers wait for the same run.
    printed: Mutex<BTreeMap<String, Arc<OnceCell<Secret>>>>,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("runs_commands", &self.exec.is_some()).finish_non_exhaustive()
    }
}

impl KeyRing {
    /// Key ring that looks up variables with `lookup` and cannot run commands.
    #[must_use]
    pub fn new(lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { lookup: Box::new(lookup), exec: None, printed: Mutex::default() }
    }

    /// Runs commands with `exec` in the directory `cwd`.
    #[must_use]
    pub fn running(mut self, exec: Arc<dyn Exec>, cwd: impl Into<PathBuf>) -> Self {
        self.exec = Some((exec, cwd.into()));
        self
    }

    /// Resolves a source. Commands have a time limit of 10 s; failed ones run again at the next call.
    ///
    /// # Errors
    /// [`KeyError`] when there is no key.
    pub async fn key(&self, source: &KeySource, stop: &CancellationToken) -> Result<Secret, KeyError> {
        match source {
            KeySource::Literal(key) => Ok(key.clone()),
            KeySource::Env(name) => (self.lookup)(name)
                .map(Zeroizing::new)
                .filter(|value| !value.trim().is_empty())
                .map(|value| Secret::from(value.trim()))
                .ok_or_else(|| KeyError::Unset { name: name.clone() }),
            KeySource::Command(command) => {
                let cell = {
                    let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
                    printed.entry(command.clone()).or_default().clone()
                };
                cell.get_or_try_init(|| self.run_command(command, stop)).await.cloned()
            }
        }
    }

    async fn run_command(&self, command: &str, stop: &CancellationToken) -> Result<Secret, KeyError> {
        let program = || program(command);
        let Some((exec, cwd)) = &self.exec else { return Err(KeyError::NoExec { program: program() }) };
        let mut request = ExecRequest::shell(command, cwd.clone());
        request.timeout = Some(LIMIT);
        // Allocated in advance: a growing buffer would leave copies of the secret in memory.
        let mut output = Zeroizing::new(Vec::with_capacity(4 << 10));
        let mut sink = |stream: OutputStream, bytes: &[u8]| {
            if stream == OutputStream::Stdout && output.len() <= MAX_KEY_BYTES {
                output.extend_from_slice(bytes);
            }
        };
        let outcome = exec
            .run(request, &mut sink, stop)
            .await
            .map_err(|source| KeyError::Exec { program: program(), source })?;
        let failed = |how: String| Err(KeyError::Failed { program: program(), how });
        match outcome.exit {
            Exit::Code(0) => {}
            Exit::Code(code) => return failed(format!("ended with exit code {code}")),
            Exit::Signal(signal) => return failed(format!("was ended by signal {signal}")),
            Exit::TimedOut => return failed(format!("took longer than {} s", LIMIT.as_secs())),
            Exit::Stopped => return failed("was stopped".to_owned()),
        }
        let wrong = |what| KeyError::Output { program: program(), what };
        if output.len() > MAX_KEY_BYTES {
            return Err(wrong("far more than a key"));
        }
        let text = std::str::from_utf8(&output).map_err(|_| wrong("bytes that are no text"))?.trim();
        if text.is_empty() {
            return Err(wrong("nothing"));
        }
        if text.contains(['\n', '\r']) {
            return Err(wrong("several lines"));
        }
        Ok(text.into())
    }
}

fn program(command: &str) -> String {
    command.split_whitespace().next().unwrap_or_default().to_owned()
}

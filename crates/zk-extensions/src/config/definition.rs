use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::runner::{RunnerError, check_runner};

/// Longest name, in characters.
const MAX_NAME_CHARS: usize = 32;
/// Longest time limit, in milliseconds.
const MAX_LIMIT_MS: u64 = 3_600_000;

/// One entry of `[[extensions]]`.
///
/// ```
/// use serde_json::json;
/// use zk_extensions::{ExtensionConfig, ExtensionOrigin};
///
/// let list = json!([{"name": "notes", "command": ["python3", "notes.py"]}]);
/// let extensions = ExtensionConfig::read_all(&list, &ExtensionOrigin::person("settings.toml"))?;
/// assert_eq!(extensions[0].name, "notes");
/// # Ok::<(), zk_extensions::ExtensionConfigError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct ExtensionConfig {
    /// Name, which is unique among all extensions.
    pub name: String,
    /// Program and its arguments.
    pub command: Vec<String>,
    /// Variables of the program, in addition to those of every program.
    pub env: BTreeMap<String, String>,
    /// Settings of the extension itself.
    pub settings: Map<String, Value>,
    /// Whether the extension is started.
    pub enabled: bool,
    /// Whether the extension may guard calls. If so, calls are refused while it cannot be asked.
    pub guards: bool,
    /// Time limits.
    pub limits: ExtensionLimits,
    /// File that names it.
    pub origin: ExtensionOrigin,
}

/// Time limits of one extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtensionLimits {
    /// Time from the start to the answer to `hello`.
    pub start: Duration,
    /// Time for an answer about an event, a section, a context line or a completion.
    pub answer: Duration,
    /// Time for the result of a tool or command.
    pub call: Duration,
}

/// File that names an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionOrigin {
    /// Path of the file, for messages.
    pub place: String,
    /// Whether the file belongs to a project. Such an extension is approved by its exact bytes, runs in the
    /// sandbox, and may neither declare effects nor answer for the person.
    pub is_project: bool,
}

impl ExtensionOrigin {
    /// File of the person.
    pub fn person(place: impl Into<String>) -> Self {
        Self { place: place.into(), is_project: false }
    }

    /// File of a project.
    pub fn project(place: impl Into<String>) -> Self {
        Self { place: place.into(), is_project: true }
    }
}

/// Definition of an extension that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExtensionConfigError {
    /// The list has another shape.
    #[error("`extensions`: {0}; an entry is `[[extensions]]` with `name` and `command = [\"PROGRAM\", …]`")]
    Shape(String),
    /// A name cannot be used.
    #[error("extension `{0}`: a name has 1 to 32 of the characters a-z, 0-9, `-` and `_`")]
    Name(String),
    /// Two extensions of one file have the same name.
    #[error("extension `{0}` stands there twice")]
    Twice(String),
    /// There is no program.
    #[error(
        "extension `{0}` has no command; name its program, such as `command = [\"python3\", \"notes.py\"]`"
    )]
    NoCommand(String),
    /// A time limit is out of range.
    #[error("extension `{name}`: `{key}` is 1 to 3600000 milliseconds")]
    Limit {
        /// Name of the extension.
        name: String,
        /// Key of the limit.
        key: &'static str,
    },
    /// The command runs a package of a registry, whose content is unknown.
    #[error("extension `{name}`: {source}")]
    Runner {
        /// Name of the extension.
        name: String,
        /// Reason, with the runner and its package.
        source: RunnerError,
    },
}

/// Definition as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    settings: Map<String, Value>,
    #[serde(default = "yes")]
    enabled: bool,
    #[serde(default = "yes")]
    guards: bool,
    #[serde(default)]
    timeout: Option<u64>,
    #[serde(default)]
    call_timeout: Option<u64>,
    #[serde(default)]
    start_timeout: Option<u64>,
}

fn yes() -> bool {
    true
}

impl fmt::Debug for ExtensionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of variables and settings are omitted, since they may be secret.
        f.debug_struct("ExtensionConfig")
            .field("name", &self.name)
            .field("command", &self.command)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl ExtensionConfig {
    /// Default limits. Answers are due before a gate's limit of 30 s, so that a refusal can name the
    /// extension.
    pub const LIMITS: ExtensionLimits = ExtensionLimits {
        start: Duration::from_secs(10),
        answer: Duration::from_secs(10),
        call: Duration::from_secs(600),
    };

    /// Extension of an application that embeds zk, with the default limits.
    pub fn new<W: Into<String>>(name: impl Into<String>, command: impl IntoIterator<Item = W>) -> Self {
        Self {
            name: name.into(),
            command: command.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            settings: Map::new(),
            enabled: true,
            guards: true,
            limits: Self::LIMITS,
            origin: ExtensionOrigin::person("the application"),
        }
    }

    /// Reads the list `extensions` of one file.
    ///
    /// # Errors
    /// [`ExtensionConfigError`]: a guard that is not understood must not be left out, so one wrong entry fails all.
    pub fn read_all(list: &Value, origin: &ExtensionOrigin) -> Result<Vec<Self>, ExtensionConfigError> {
        let entries =
            list.as_array().ok_or_else(|| ExtensionConfigError::Shape("it is no list".to_owned()))?;
        let mut read: Vec<Self> = Vec::new();
        for entry in entries {
            let extension = Self::read(entry, origin)?;
            if read.iter().any(|one| one.name == extension.name) {
                return Err(ExtensionConfigError::Twice(extension.name));
            }
            read.push(extension);
        }
        Ok(read)
    }

    fn read(entry: &Value, origin: &ExtensionOrigin) -> Result<Self, ExtensionConfigError> {
        let written: Written = serde_json::from_value(entry.clone())
            .map_err(|error| ExtensionConfigError::Shape(error.to_string()))?;
        let name = written.name;
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || !name.chars().all(is_plain) {
            return Err(ExtensionConfigError::Name(name));
        }
        if written.command.first().is_none_or(String::is_empty) {
            return Err(ExtensionConfigError::NoCommand(name));
        }
        if let Err(source) = check_runner(&written.command, origin.is_project) {
            return Err(ExtensionConfigError::Runner { name, source });
        }
        let limit = |key, given: Option<u64>, usual: Duration| match given {
            None => Ok(usual),
            Some(ms) if (1..=MAX_LIMIT_MS).contains(&ms) => Ok(Duration::from_millis(ms)),
            Some(_) => Err(ExtensionConfigError::Limit { name: name.clone(), key }),
        };
        let limits = ExtensionLimits {
            start: limit("start_timeout", written.start_timeout, Self::LIMITS.start)?,
            answer: limit("timeout", written.timeout, Self::LIMITS.answer)?,
            call: limit("call_timeout", written.call_timeout, Self::LIMITS.call)?,
        };
        Ok(Self {
            name,
            command: written.command,
            env: written.env,
            settings: written.settings,
            enabled: written.enabled,
            guards: written.guards,
            limits,
            origin: origin.clone(),
        })
    }

    /// Program and arguments in one line, for people.
    #[must_use]
    pub fn command_line(&self) -> String {
        self.command.join(" ")
    }

    /// Name of the extension as the owner of its registrations and entries.
    #[must_use]
    pub fn source(&self) -> String {
        format!("extension:{}", self.name)
    }

    /// Everything that a person approves of the definition, in one order for equal definitions.
    #[must_use]
    pub fn definition(&self) -> Vec<u8> {
        let Self { name, command, env, settings, enabled, guards, limits, origin: _ } = self;
        let limits = [limits.start, limits.answer, limits.call].map(|limit| limit.as_millis() as u64);
        let value = json!({
            "name": name, "command": command, "env": env, "settings": settings,
            "enabled": enabled, "guards": guards, "limits": limits,
        });
        value.to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &Value) -> Result<Vec<ExtensionConfig>, String> {
        let origin = ExtensionOrigin::person("settings.toml");
        ExtensionConfig::read_all(list, &origin).map_err(|error| error.to_string())
    }

    #[test]
    fn an_extension_has_a_name_and_a_command_and_no_key_that_is_not_known() {
        for (wrong, word) in [
            (json!({}), "no list"),
            (json!([{"command": ["x"]}]), "missing field `name`"),
            (json!([{"name": "A b", "command": ["x"]}]), "1 to 32"),
            (json!([{"name": "a"}]), "has no command"),
            (json!([{"name": "a", "command": [""]}]), "has no command"),
            (json!([{"name": "a", "command": ["x"], "gaurds": false}]), "unknown field `gaurds`"),
            (json!([{"name": "a", "command": ["x"]}, {"name": "a", "command": ["y"]}]), "twice"),
            (json!([{"name": "a", "command": ["x"], "timeout": 0}]), "`timeout` is 1 to"),
            (json!([{"name": "a", "command": ["npx", "some-extension"]}]), "pinned"),
        ] {
            let error = read(&wrong).unwrap_err();
            assert!(error.contains(word), "{wrong}: {error}");
        }
    }

    #[test]
    fn limits_are_read_in_milliseconds() {
        let list =
            json!([{"name": "a", "command": ["x"], "timeout": 20, "call_timeout": 30, "start_timeout": 40}]);
        let limits = read(&list).unwrap()[0].limits;
        assert_eq!([limits.answer, limits.call, limits.start].map(|limit| limit.as_millis()), [20, 30, 40]);
    }

    #[test]
    fn values_of_variables_are_in_no_debug_text() {
        let list =
            json!([{"name": "a", "command": ["x"], "env": {"KEY": "geheim"}, "settings": {"k": "geheim"}}]);
        assert!(!format!("{:?}", read(&list).unwrap()).contains("geheim"));
    }
}

use std::collections::BTreeMap;
use std::fmt;

use zk_core::service::BUILT_IN_BACKEND;

use crate::pinned::check_pinned;
use crate::settings::BackendSettings;

/// Checked definition of a backend that speaks the Agent Client Protocol.
#[derive(Clone, PartialEq, Eq)]
pub struct BackendDefinition {
    /// Name of the backend.
    pub name: String,
    /// Program of the agent.
    pub program: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Variables of the agent's process.
    pub env: BTreeMap<String, String>,
    /// Hosts that the agent reaches from its sandbox.
    pub hosts: Vec<String>,
    /// Whether the agent runs in the sandbox, where there is one.
    pub is_sandboxed: bool,
}

/// Reason why a backend of the settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[backends.{name}] is not used: {why}")]
pub struct BackendError {
    /// Name of the backend.
    pub name: String,
    /// Reason why the definition is invalid, with the correct syntax.
    pub why: String,
}

impl fmt::Debug for BackendDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Variables may be secret.
        f.debug_struct("BackendDefinition")
            .field("name", &self.name)
            .field("program", &self.program)
            .field("args", &self.args)
            .finish_non_exhaustive()
    }
}

impl BackendDefinition {
    /// Checks `[backends.NAME]` of the settings; `lookup` gives the variables that its values name as `${NAME}`.
    ///
    /// ```
    /// use zk_backends::BackendDefinition;
    /// use zk_backends::settings::BackendSettings;
    ///
    /// let settings = |words: &[&str]| BackendSettings {
    ///     acp: words.iter().map(ToString::to_string).collect(),
    ///     ..BackendSettings::default()
    /// };
    /// let read = |words: &[&str]| BackendDefinition::read("codex", &settings(words), &|_| None);
    /// assert!(read(&["npx", "-y", "codex-acp@1.2.3"]).is_ok());
    /// assert!(read(&["npx", "-y", "codex-acp"]).unwrap_err().to_string().contains("version"));
    /// ```
    ///
    /// # Errors
    /// [`BackendError`].
    pub fn read(
        name: &str,
        settings: &BackendSettings,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, BackendError> {
        let wrong = |why: &str| BackendError { name: name.to_owned(), why: why.to_owned() };
        let is_named =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !is_named {
            return Err(wrong("its name may have letters, digits, `-` and `_`"));
        }
        if name == BUILT_IN_BACKEND {
            return Err(wrong("`zk` is the built-in agent; choose another name"));
        }
        let Some((program, args)) =
            settings.acp.split_first().filter(|(program, _)| !program.trim().is_empty())
        else {
            return Err(wrong("it needs a program: acp = [\"PROGRAM\", \"ARGUMENT\"]"));
        };
        check_pinned(program, args).map_err(|why| wrong(&why))?;
        let expanded = |value: &String| expand(value, lookup);
        Ok(Self {
            name: name.to_owned(),
            program: program.clone(),
            args: args.to_vec(),
            env: settings.env.iter().map(|(name, value)| (name.clone(), expanded(value))).collect(),
            hosts: settings.hosts.clone(),
            is_sandboxed: settings.sandbox.unwrap_or(true),
        })
    }

    /// Checks all of `[backends]`. Returns the valid definitions, and the errors of the others.
    pub fn read_all(
        settings: &BTreeMap<String, BackendSettings>,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> (Vec<Self>, Vec<BackendError>) {
        let (mut definitions, mut wrong) = (Vec::new(), Vec::new());
        for (name, settings) in settings {
            match Self::read(name, settings, lookup) {
                Ok(definition) => definitions.push(definition),
                Err(error) => wrong.push(error),
            }
        }
        (definitions, wrong)
    }

    /// Returns the command line, for a person.
    #[must_use]
    pub fn command_line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Returns the values of variables whose names suggest a secret.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let words = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "AUTH"];
        let is_secret = move |name: &str| words.iter().any(|word| name.to_ascii_uppercase().contains(word));
        self.env.iter().filter(move |(name, _)| is_secret(name)).map(|(_, value)| value.as_str())
    }
}

/// Replaces each `${NAME}` by the variable; one that is not set stays as written.
fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once("${") {
        let Some((name, after)) = behind.split_once('}') else { break };
        done.push_str(before);
        match lookup(name) {
            Some(value) => done.push_str(&value),
            None => done.push_str(&format!("${{{name}}}")),
        }
        rest = after;
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_names_a_program_and_its_values_are_expanded() {
        let settings = BackendSettings {
            acp: vec!["agent".to_owned(), "${X}".to_owned()],
            env: BTreeMap::from([("API_KEY".to_owned(), "a${X}b${Y}".to_owned())]),
            ..BackendSettings::default()
        };
        let lookup = |name: &str| (name == "X").then(|| "secret".to_owned());
        let read = BackendDefinition::read("one", &settings, &lookup).unwrap();
        assert_eq!(read.env.get("API_KEY").map(String::as_str), Some("asecretb${Y}"));
        assert_eq!((read.command_line().as_str(), read.is_sandboxed), ("agent ${X}", true));
        assert!(!format!("{read:?}").contains("secret"));
        assert_eq!(read.secrets().collect::<Vec<_>>(), ["asecretb${Y}"]);
    }

    #[test]
    fn a_definition_that_cannot_be_used_says_what_to_write() {
        let settings = |acp: &[&str]| BackendSettings {
            acp: acp.iter().map(ToString::to_string).collect(),
            ..BackendSettings::default()
        };
        for (name, acp, part) in [
            ("zk", &["a"][..], "built-in"),
            ("a b", &["a"], "letters"),
            ("a", &[], "acp = ["),
            ("a", &[" "], "acp = ["),
        ] {
            let error = BackendDefinition::read(name, &settings(acp), &|_| None).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}

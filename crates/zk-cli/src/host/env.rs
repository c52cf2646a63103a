use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use zk_tui::TerminalEnv;

/// Words in the names of variables that hold secrets.
const SECRET_WORDS: [&str; 6] = ["API_KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];

/// Whether a variable's name suggests a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let has_headers = name.starts_with("OTEL_EXPORTER_OTLP_") && name.ends_with("HEADERS");
    has_headers || SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Environment of the program, read once.
#[derive(Clone, Default)]
pub(crate) struct Env(Arc<Vars>);

#[derive(Default)]
struct Vars {
    plain: BTreeMap<OsString, OsString>,
    /// Variables whose names suggest a secret. Their memory is cleared on drop.
    secret: BTreeMap<String, SecretString>,
}

impl Env {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub(crate) fn read() -> Self {
        std::env::vars_os().collect()
    }

    /// Returns a variable that is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        let secret = || Some(OsStr::new(self.0.secret.get(name)?.expose_secret()));
        let found = self.0.plain.get(OsStr::new(name)).map(OsString::as_os_str).or_else(secret);
        found.filter(|value| !value.is_empty())
    }

    /// Value of an environment variable, if it is not empty and is valid Unicode.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.to_str()
    }

    /// Returns a variable with an absolute path; the XDG specification ignores relative ones.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Returns the variables about the terminal.
    pub(crate) fn terminal(&self) -> TerminalEnv {
        TerminalEnv::new(|name| self.get(name).map(OsStr::to_owned))
    }

    /// Returns the values of variables whose names suggest a secret.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.secret.values().map(SecretString::expose_secret)
    }

    /// Returns all variables except secrets, from which an allow-list selects those for commands.
    pub(crate) fn without_secrets(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.0.plain.iter()
    }

    /// Directory for sockets of this user.
    pub(crate) fn runtime_dir(&self) -> PathBuf {
        self.path("XDG_RUNTIME_DIR").filter(|dir| dir.is_dir()).unwrap_or_else(|| "/tmp".into())
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Env {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(given: T) -> Self {
        let mut vars = Vars::default();
        for (name, value) in given {
            let (name, value) = (name.into(), value.into());
            match (name.to_str().filter(|name| is_secret(name)), value.into_string()) {
                (Some(name), Ok(value)) => _ = vars.secret.insert(name.to_owned(), value.into()),
                // A value that is not Unicode is no key.
                (_, Ok(value)) => _ = vars.plain.insert(name, value.into()),
                (_, Err(value)) => _ = vars.plain.insert(name, value),
            }
        }
        Self(Arc::new(vars))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_whose_name_says_that_it_is_secret_is_kept_apart_and_found_by_its_name() {
        let env = Env::from_iter([
            ("PATH", "/bin"),
            ("LAB_API_KEY", "k-1"),
            ("lab_token", "k-2"),
            ("EMPTY_SECRET", ""),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=k-3"),
        ]);
        assert_eq!(
            (env.text("PATH"), env.text("LAB_API_KEY"), env.text("lab_token")),
            (Some("/bin"), Some("k-1"), Some("k-2"))
        );
        assert_eq!((env.text("EMPTY_SECRET"), env.text("NONE")), (None, None));
        assert_eq!(env.secrets().collect::<Vec<_>>(), ["", "k-1", "a=k-3", "k-2"]);
        assert_eq!(env.without_secrets().map(|(name, _)| name).collect::<Vec<_>>(), ["PATH"]);
    }
}

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Words in the names of variables that hold secrets.
const SECRET_WORDS: [&str; 6] = ["API_KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];

/// The environment the program was started with, read once and passed on.
#[derive(Clone, Default)]
pub(crate) struct Env(BTreeMap<OsString, OsString>);

impl Env {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub(crate) fn read() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// A variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A variable that is set, not empty and Unicode.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.to_str()
    }

    /// A variable that holds an absolute path: what the XDG rules ask for.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// The values of variables whose names say that they are secret.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let named = |name: &str| SECRET_WORDS.iter().any(|word| name.to_ascii_uppercase().contains(word));
        let vars = self.0.iter().filter(move |(name, _)| name.to_str().is_some_and(named));
        vars.filter_map(|(_, value)| value.to_str())
    }

    /// Everything, for the allow-list of what commands may see.
    pub(crate) fn all(&self) -> &BTreeMap<OsString, OsString> {
        &self.0
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Env {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(vars: T) -> Self {
        Self(vars.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

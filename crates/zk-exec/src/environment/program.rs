use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

/// Words in the names of variables that hold secrets.
const SECRET_WORDS: [&str; 6] = ["API_KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];

/// Whether a variable's name suggests a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let has_headers = name.starts_with("OTEL_EXPORTER_OTLP_") && name.ends_with("HEADERS");
    has_headers || SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Environment of the program, as the program read it once, with the secrets apart.
///
/// ```
/// let env = zk_exec::ProgramEnv::from_iter([("PATH", "/bin"), ("LAB_API_KEY", "k-1")]);
/// assert_eq!(env.text("LAB_API_KEY"), Some("k-1"));
/// assert!(env.without_secrets().all(|(name, _)| name != "LAB_API_KEY"));
/// ```
#[derive(Clone, Default)]
pub struct ProgramEnv(Arc<Vars>);

impl fmt::Debug for ProgramEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProgramEnv").field(&self.0.plain.keys()).finish()
    }
}

#[derive(Default)]
struct Vars {
    plain: BTreeMap<OsString, OsString>,
    /// Variables whose names suggest a secret. Their memory is cleared on drop.
    secret: BTreeMap<String, SecretString>,
}

impl ProgramEnv {
    /// Returns a variable that is not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let secret = || Some(OsStr::new(self.0.secret.get(name)?.expose_secret()));
        let found = self.0.plain.get(OsStr::new(name)).map(OsString::as_os_str).or_else(secret);
        found.filter(|value| !value.is_empty())
    }

    /// Value of an environment variable, if it is not empty and is valid Unicode.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.to_str()
    }

    /// Returns a variable with an absolute path; the XDG specification ignores relative ones.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Returns the values of variables whose names suggest a secret.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.secret.values().map(SecretString::expose_secret)
    }

    /// Returns all variables except secrets, from which an allow-list selects those for commands.
    pub fn without_secrets(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.0.plain.iter()
    }

    /// Directory for sockets of this user.
    #[must_use]
    pub fn runtime_dir(&self) -> PathBuf {
        self.path("XDG_RUNTIME_DIR").filter(|dir| dir.is_dir()).unwrap_or_else(|| "/tmp".into())
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for ProgramEnv {
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
        let env = ProgramEnv::from_iter([
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

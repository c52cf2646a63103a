use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Names passed on as they are. Where programs and their toolchains live, how text is shown: nothing that
/// holds a secret, and nothing that makes a program load or run something (`LD_*`, `BASH_ENV`, `GIT_*`,
/// `PAGER` …).
const PASSED_ON: &[&str] = &[
    "CARGO_HOME",
    "COLORTERM",
    "GOPATH",
    "GOROOT",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NVM_DIR",
    "PATH",
    "PYENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The variables every child process sees: what the host's environment has of an allow-list, and what the
/// host grants beside it.
///
/// ```
/// use zk_exec::Environment;
///
/// let env = Environment::filtered([("PATH", "/bin"), ("ANTHROPIC_API_KEY", "sk-…"), ("LC_ALL", "C")]);
/// let names: Vec<_> = env.vars().map(|(name, _)| name.to_str().unwrap()).collect();
/// assert_eq!(names, ["LC_ALL", "PATH"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    vars: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// What of `parent`, normally the host's own environment, children may see.
    pub fn filtered<K, V>(parent: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let mut vars: BTreeMap<OsString, OsString> = parent
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .filter(|(name, _)| is_passed_on(name))
            .collect();
        vars.entry("PATH".into()).or_insert_with(|| DEFAULT_PATH.into());
        Self { vars }
    }

    /// Also this variable, for every child.
    #[must_use]
    pub fn grant(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.vars.insert(name.into(), value.into());
        self
    }

    /// The variables, by name.
    pub fn vars(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.vars.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

fn is_passed_on(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| PASSED_ON.contains(&name) || name.starts_with("LC_"))
}

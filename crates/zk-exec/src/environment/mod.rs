mod program;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

pub use program::ProgramEnv;

/// Variables that every child gets unchanged: search paths, locations of toolchains, locale and display
/// settings. Variables that hold secrets, or that make a program load or run code (`LD_*`, `BASH_ENV`,
/// `GIT_*`, `PAGER` …), are left out.
const PASSED_ON: &[&str] = &[
    "CARGO_HOME",
    "COLORTERM",
    "GOPATH",
    "GOROOT",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LC_ADDRESS",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TELEPHONE",
    "LC_TIME",
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

/// Variables with addresses of package registries, passed on unless an address may contain a password or a
/// token.
const REGISTRIES: &[&str] = &[
    "GOPROXY",
    "GOSUMDB",
    "NPM_CONFIG_REGISTRY",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_INDEX",
    "UV_INDEX_URL",
    "npm_config_registry",
];

/// Length, in letters and digits, from which a path segment may be a token.
const MIN_TOKEN_CHARS: usize = 20;
/// Digits from which a path segment with dashes may be a token; version names have fewer.
const MIN_TOKEN_DIGITS: usize = 3;

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables that every child process gets: an allow-listed part of the host's environment, and variables
/// that the host grants.
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
    /// Keeps the variables of `parent`, normally the host's own environment, that are on the allow-list.
    pub fn filtered<K, V>(parent: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let mut vars: BTreeMap<OsString, OsString> = parent
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .filter(|(name, value)| is_passed_on(name, value))
            .collect();
        let path = absolute_entries(vars.get(OsStr::new("PATH")).map_or(OsStr::new(""), OsString::as_os_str));
        vars.insert("PATH".into(), path);
        Self { vars }
    }

    /// Keeps all variables of `parent`, secrets too: for
    /// [`ProcessExec::inheriting`](crate::ProcessExec::inheriting).
    pub fn whole<K, V>(parent: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        Self { vars: parent.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }

    /// Sets this variable for every child.
    #[must_use]
    pub fn grant(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.vars.insert(name.into(), value.into());
        self
    }

    /// Removes this variable.
    #[must_use]
    pub fn without(mut self, name: impl AsRef<OsStr>) -> Self {
        self.vars.remove(name.as_ref());
        self
    }

    /// Iterates over the variables, sorted by name.
    pub fn vars(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.vars.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

/// Keeps the absolute entries of a `PATH`; without any, returns the system's default directories. An empty
/// entry, `.` and other relative entries would run programs of the project instead of the system's.
fn absolute_entries(path: &OsStr) -> OsString {
    let entries = std::env::split_paths(path).filter(|entry| entry.is_absolute());
    match std::env::join_paths(entries) {
        Ok(path) if !path.is_empty() => path,
        Ok(_) | Err(_) => DEFAULT_PATH.into(),
    }
}

fn is_passed_on(name: &OsStr, value: &OsStr) -> bool {
    let is_open = || value.to_str().is_some_and(holds_no_secret);
    name.to_str().is_some_and(|name| PASSED_ON.contains(&name) || (REGISTRIES.contains(&name) && is_open()))
}

/// Whether registry addresses, separated by blanks, commas or bars, consist of scheme, host, port and a path
/// without anything that looks like a token.
pub(crate) fn holds_no_secret(addresses: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-._~+/".contains(char);
    let is_open = |address: &str| match address.split_once("://") {
        Some((_, place)) => {
            let (_, path) = place.split_once('/').unwrap_or((place, ""));
            path.chars().all(is_plain) && !path.split('/').any(may_be_token)
        }
        // A word such as `direct`, or a directory.
        None => true,
    };
    !addresses.contains(['@', '?', '#']) && addresses.split([' ', '\t', '\n', ',', '|']).all(is_open)
}

fn may_be_token(part: &str) -> bool {
    let count = |is_one: fn(&char) -> bool| part.chars().filter(is_one).count();
    let is_long = |text: &str| text.len() >= MIN_TOKEN_CHARS;
    let is_in_one = || part.split(|char: char| !char.is_ascii_alphanumeric()).any(is_long);
    count(char::is_ascii_alphanumeric) >= MIN_TOKEN_CHARS
        && (is_in_one() || count(char::is_ascii_digit) >= MIN_TOKEN_DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars<const N: usize>(parent: [(&str, &str); N]) -> Vec<(String, String)> {
        let environment = Environment::filtered(parent);
        let text = |value: &OsStr| value.to_str().unwrap().to_owned();
        environment.vars().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn programs_are_looked_up_in_absolute_places_only() {
        let path = |value: &str| vars([("PATH", value)])[0].1.clone();
        assert_eq!(path(".:/usr/bin::bin:/bin:./x"), "/usr/bin:/bin");
        assert_eq!(path("."), DEFAULT_PATH);
        assert_eq!(path(""), DEFAULT_PATH);
    }

    #[test]
    fn only_the_locale_variables_that_exist_are_passed_on() {
        let found = vars([("LC_ALL", "C"), ("LC_SECRET", "x"), ("LC_PAPER", "a4"), ("PATH", "/bin")]);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["LC_ALL", "LC_PAPER", "PATH"]);
    }

    #[test]
    fn registries_are_passed_on_without_passwords_and_tokens() {
        for (name, value, is_passed_on) in [
            ("PIP_INDEX_URL", "https://pip.corp/simple", true),
            (
                "PIP_INDEX_URL",
                "https://pip.corp:8443/artifactory/api/pypi/python-virtual-remote-3/simple/",
                true,
            ),
            ("PIP_EXTRA_INDEX_URL", "https://a.corp/simple http://10.0.0.7:3141", true),
            ("UV_INDEX", "own=https://a.corp/simple", true),
            ("GOPROXY", "https://go.corp|https://proxy.golang.org,direct", true),
            ("GOSUMDB", "sum.corp+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8", true),
            ("PIP_FIND_LINKS", "/srv/wheels", true),
            ("GOPROXY", "https://me:secret@go.corp", false),
            ("PIP_INDEX_URL", "https://pip.corp/simple?token=x", false),
            ("PIP_INDEX_URL", "https://pip.corp?token=x", false),
            ("PIP_INDEX_URL", "https://pip.corp/simple;token=x", false),
            ("PIP_INDEX_URL", "https://pip.corp/%73imple", false),
            ("PIP_INDEX_URL", "https://pip.corp/4fTq8vZ1kLm3Xw9RbN2c/me/", false),
            ("PIP_INDEX_URL", "https://pip.corp/abcdefghijklmnopqrst/", false),
            ("NPM_CONFIG_REGISTRY", "https://npm.corp/F/x/auth/11b5e3f0-0f0c-4a52-9a0e-8a7b6c5d4e3f/", false),
            ("PIP_EXTRA_INDEX_URL", "https://a.corp https://b.corp/4fTq8vZ1kLm3Xw9RbN2c", false),
            ("GOPROXY", "direct,https://b.corp/4fTq8vZ1kLm3Xw9RbN2c", false),
        ] {
            let found = vars([(name, value), ("PATH", "/bin")]);
            assert_eq!(found.iter().any(|(found, _)| found == name), is_passed_on, "{name}={value}");
        }
    }
}

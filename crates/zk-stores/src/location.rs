use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use zk_core::model::public_parts;

/// Place of a store as a person writes it.
///
/// ```
/// use zk_stores::StoreLocation;
///
/// assert_eq!("sqlite".parse(), Ok(StoreLocation::Sqlite));
/// assert_eq!("files:/srv/zk".parse(), Ok(StoreLocation::Files("/srv/zk".into())));
/// assert!("http://127.0.0.1:7070".parse::<StoreLocation>().is_ok());
/// assert!("ftp://x".parse::<StoreLocation>().is_err());
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub enum StoreLocation {
    /// SQLite files in the person's directory for sessions.
    #[default]
    Sqlite,
    /// The memory of this process.
    Memory,
    /// Files in a directory.
    Files(PathBuf),
    /// A server of sessions.
    Remote(String),
    /// A PostgreSQL database; its address may contain a password.
    Postgres(String),
}

/// Error of a text that names no store.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown session store `{0}`: use `sqlite`, `memory`, `files:PATH`, `http://HOST:PORT` or `postgres://…`"
)]
pub struct LocationError(String);

impl StoreLocation {
    /// Forms of a place, as a person reads them.
    pub const CHOICES: &str = "`sqlite`, `memory`, `files:PATH`, `http://127.0.0.1:PORT` or `postgres://…`";
    /// Regular expression of places.
    pub const PATTERN: &str = "^(sqlite|memory|files:.+|https?://.+|postgres(ql)?://.*)$";
}

impl FromStr for StoreLocation {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        match text.split_once(':') {
            None if text == "sqlite" => Ok(Self::Sqlite),
            None if text == "memory" => Ok(Self::Memory),
            Some(("files", path)) if !path.is_empty() => Ok(Self::Files(path.into())),
            Some(("http" | "https", rest)) if rest.len() > 2 && rest.starts_with("//") => {
                Ok(Self::Remote(text.to_owned()))
            }
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Ok(Self::Postgres(text.to_owned()))
            }
            // The rest of an address may contain a password.
            Some((scheme, _)) => Err(LocationError(format!("{scheme}:…"))),
            None => Err(LocationError(text.to_owned())),
        }
    }
}

impl fmt::Display for StoreLocation {
    /// Writes the place without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite => f.write_str("sqlite"),
            Self::Memory => f.write_str("memory"),
            Self::Files(path) => write!(f, "files:{}", path.display()),
            Self::Remote(address) | Self::Postgres(address) => f.write_str(&public_parts(address)),
        }
    }
}

impl fmt::Debug for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreLocation({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (text, shown) in [
            ("postgres://zk:secret@db/zk?password=secret", "postgres://db/zk"),
            ("postgres://zk:se/secret?@db/zk", "postgres://…"),
            ("postgres://zk:x@secret@db/zk", "postgres://…"),
            ("postgres://db/zk?password=x@secret", "postgres://…"),
            ("postgres:///zk?host=/run", "postgres:///zk"),
            ("https://u:secret@host:1/", "https://host:1/"),
        ] {
            let location: StoreLocation = text.parse().unwrap();
            assert_eq!(location.to_string(), shown);
            assert!(!format!("{location:?}").contains("secret"));
        }
        let error = "mysql://u:secret@h".parse::<StoreLocation>().unwrap_err().to_string();
        assert!(error.contains("mysql:…") && !error.contains("secret"), "{error}");
    }
}

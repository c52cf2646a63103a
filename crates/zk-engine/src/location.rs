use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use zk_core::model::public_parts;
use zk_core::service::{Engine, EngineError};

/// Place of an engine as a person writes it.
///
/// ```
/// use zk_engine::EngineLocation;
///
/// assert_eq!("local".parse(), Ok(EngineLocation::Local));
/// let far: EngineLocation = "postgres://zk:secret@db/zk".parse().unwrap();
/// assert_eq!((far.scheme(), far.to_string()), (Some("postgres"), "postgres://db/zk".to_owned()));
/// assert!("nonsense".parse::<EngineLocation>().is_err());
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub enum EngineLocation {
    /// The engine of this machine.
    #[default]
    Local,
    /// An engine of another kind; its address may contain a password.
    Remote(String),
}

/// Error of a text that names no engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown engine `{0}`: use `local`, `postgres://…` or `temporal://…`")]
pub struct EngineLocationError(String);

impl EngineLocation {
    /// Forms of a place, as a person reads them.
    pub const CHOICES: &str = "`local`, `postgres://…` or `temporal://…`";

    /// Regular expression of places.
    pub const PATTERN: &str = "^(local|(postgres|postgresql|temporal)://.*)$";

    /// Returns the scheme of the address; `None` for the engine of this machine.
    #[must_use]
    pub fn scheme(&self) -> Option<&str> {
        match self {
            Self::Local => None,
            Self::Remote(address) => address.split_once(':').map(|(scheme, _)| scheme),
        }
    }
}

impl FromStr for EngineLocation {
    type Err = EngineLocationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        match text.split_once(':') {
            None if text == "local" => Ok(Self::Local),
            Some(("postgres" | "postgresql" | "temporal", rest)) if rest.starts_with("//") => {
                Ok(Self::Remote(text.to_owned()))
            }
            // The rest of an address may contain a password.
            Some((scheme, _)) => Err(EngineLocationError(format!("{scheme}:…"))),
            None => Err(EngineLocationError(text.to_owned())),
        }
    }
}

impl fmt::Display for EngineLocation {
    /// Writes the place without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Remote(address) => f.write_str(&public_parts(address)),
        }
    }
}

impl fmt::Debug for EngineLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineLocation({self})")
    }
}

/// Kind of engine beyond this machine, which a program adds to zk by the schemes of its addresses.
#[async_trait]
pub trait EngineKind: Send + Sync {
    /// Returns the schemes of the addresses that this kind opens, such as `postgres`.
    fn schemes(&self) -> &'static [&'static str];

    /// Opens the engine at an address. Nothing is connected yet.
    ///
    /// # Errors
    /// When the address is not valid.
    fn open(&self, address: &str) -> Result<Arc<dyn Engine>, EngineError>;

    /// Prepares the server at an address for its first worker, and returns a sentence about what was done. A prepared server
    /// stays as it is.
    ///
    /// # Errors
    /// When the server cannot be used, or has been prepared for another version.
    async fn set_up(&self, address: &str) -> Result<String, EngineError>;
}

/// Engine that the settings of a program chose; the one of this machine until then. Clones share the choice.
#[derive(Clone, Default)]
pub struct ChosenEngine(Arc<OnceLock<Chosen>>);

struct Chosen {
    location: EngineLocation,
    /// Kind of the location; `None` for the engine of this machine, and for a kind that the program does not have.
    kind: Option<Arc<dyn EngineKind>>,
}

impl fmt::Debug for ChosenEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChosenEngine").field("location", self.location()).finish()
    }
}

impl ChosenEngine {
    /// Chooses the engine at `location`, of one of these kinds. The first choice counts.
    pub fn choose(&self, location: EngineLocation, kinds: &[Arc<dyn EngineKind>]) {
        self.0.get_or_init(|| {
            let has_scheme = |kind: &&Arc<dyn EngineKind>| {
                location.scheme().is_some_and(|scheme| kind.schemes().contains(&scheme))
            };
            let kind = kinds.iter().find(has_scheme).cloned();
            Chosen { location, kind }
        });
    }

    /// Returns the place of the chosen engine.
    #[must_use]
    pub fn location(&self) -> &EngineLocation {
        self.0.get().map_or(&EngineLocation::Local, |chosen| &chosen.location)
    }

    /// Whether the program has the kind of the chosen engine.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.0.get().is_none_or(|chosen| chosen.location == EngineLocation::Local || chosen.kind.is_some())
    }

    /// Returns the address of an engine beyond this machine and its kind; `None` for the engine of this machine.
    ///
    /// # Errors
    /// When the program does not have the kind.
    pub fn remote(&self) -> Result<Option<(&str, &dyn EngineKind)>, EngineError> {
        match self.0.get() {
            None | Some(Chosen { location: EngineLocation::Local, .. }) => Ok(None),
            Some(Chosen { location: EngineLocation::Remote(address), kind: Some(kind) }) => {
                Ok(Some((address, &**kind)))
            }
            Some(Chosen { location, kind: None }) => Err(EngineError::Failed {
                doing: "use the engine of the settings",
                why: format!("this program has no engine for {location}"),
            }),
        }
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
            ("postgresql:///zk?host=/run", "postgresql:///zk"),
            ("temporal://u:secret@host:7233/space", "temporal://host:7233/space"),
        ] {
            let location: EngineLocation = text.parse().unwrap();
            assert_eq!(location.to_string(), shown);
            assert!(!format!("{location:?}").contains("secret"));
        }
        let error = "mysql://u:secret@h".parse::<EngineLocation>().unwrap_err().to_string();
        assert!(error.contains("mysql:…") && !error.contains("secret"), "{error}");
    }
}

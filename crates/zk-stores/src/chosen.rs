use std::fmt;
use std::sync::{Arc, OnceLock};

use zk_core::service::SessionStore;

use crate::{RefusedStore, StoreLocation};

/// Store that the settings or the program chose; SQLite files until then. Clones share the choice.
#[derive(Clone, Default)]
pub struct ChosenStore(Arc<OnceLock<Chosen>>);

struct Chosen {
    /// Name of the store in messages; `None` for SQLite files.
    name: Option<String>,
    /// Chosen store; `None` for SQLite files.
    store: Option<Arc<dyn SessionStore>>,
}

impl fmt::Debug for ChosenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChosenStore").field("name", &self.name()).finish()
    }
}

impl ChosenStore {
    /// Chooses the store: the one that is `set`, which `open` opens, else the `given` one of the program. The first choice
    /// counts. A store that cannot be used refuses each operation with the reason.
    pub fn choose(
        &self,
        set: Option<&str>,
        given: Option<Arc<dyn SessionStore>>,
        open: impl FnOnce(&StoreLocation) -> Result<Option<Arc<dyn SessionStore>>, String>,
    ) {
        self.0.get_or_init(|| match (set, given) {
            (None, Some(store)) => Chosen { name: Some("of this program".to_owned()), store: Some(store) },
            (None, None) => Chosen { name: None, store: None },
            (Some(text), _) => match text.parse::<StoreLocation>() {
                Err(error) => unusable_store("unknown".to_owned(), error.to_string()),
                Ok(StoreLocation::Sqlite) => Chosen { name: None, store: None },
                Ok(location) => match open(&location) {
                    Ok(store) => Chosen { name: Some(location.to_string()), store },
                    Err(why) => unusable_store(location.to_string(), why),
                },
            },
        });
    }

    /// Returns the chosen store; `None` for the SQLite files of this user.
    #[must_use]
    pub fn chosen(&self) -> Option<Arc<dyn SessionStore>> {
        self.0.get()?.store.clone()
    }

    /// Returns the name of the store in messages; `None` for SQLite files.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.get()?.name.as_deref()
    }
}

fn unusable_store(name: String, why: String) -> Chosen {
    Chosen { name: Some(name), store: Some(Arc::new(RefusedStore::new(why))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_choice_counts() {
        let store = ChosenStore::default();
        let shared = store.clone();
        assert!(store.chosen().is_none() && store.name().is_none());
        store.choose(Some("files:/srv/zk"), None, |_| Err("not mounted".to_owned()));
        assert_eq!(shared.name(), Some("files:/srv/zk"));
        store.choose(Some("sqlite"), None, |_| Ok(None));
        assert!(shared.chosen().is_some());
    }
}

//! The store of this user's sessions, as it was chosen at the start.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use zk_auth::Http;
use zk_core::service::{SessionStore, StateFiles};
use zk_exec::LocalStateFiles;
use zk_exec::settings::at_home;
use zk_session::SharedStore;
use zk_stores::{RefusedStore, StoreLocation, StoreOpening};

use crate::app::Machine;
use crate::settings::ProgramSettings;

/// Name of the file with the token of `zk serve-sessions`, in the directory of tokens.
pub(crate) const TOKEN_FILE: &str = "sessions-token";

/// Size limit of a token file, in bytes.
const MAX_TOKEN_FILE_BYTES: usize = 4096;

/// Store of the sessions, once the settings or a team's program chose one; SQLite files until then.
#[derive(Clone, Default)]
pub(crate) struct SessionStores(Arc<OnceLock<Chosen>>);

struct Chosen {
    /// Name of the store in messages; `None` for SQLite files.
    name: Option<String>,
    /// Chosen store; `None` for SQLite files.
    store: Option<SharedStore>,
}

impl fmt::Debug for SessionStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStores").field("name", &self.name()).finish()
    }
}

impl SessionStores {
    /// Chooses the store of the settings, or else that of a team's program. Only the first choice counts.
    pub(crate) fn choose(
        &self,
        program: &ProgramSettings,
        machine: &Machine,
        given: Option<Arc<dyn SessionStore>>,
    ) {
        self.0.get_or_init(|| match (&program.session_store, given) {
            (None, Some(store)) => {
                Chosen { name: Some("of this program".to_owned()), store: Some(SharedStore::new(store)) }
            }
            (None, None) => Chosen { name: None, store: None },
            (Some(text), _) => match text.parse::<StoreLocation>() {
                Err(error) => unusable_store("unknown".to_owned(), error.to_string()),
                Ok(StoreLocation::Sqlite) => Chosen { name: None, store: None },
                Ok(location) => {
                    if let StoreLocation::Postgres(address) = &location {
                        machine.redactor.learn(address);
                    }
                    match open(&location, program, machine) {
                        Ok(store) => {
                            Chosen { name: Some(location.to_string()), store: store.map(SharedStore::new) }
                        }
                        Err(why) => unusable_store(location.to_string(), why),
                    }
                }
            },
        });
    }

    /// Returns the chosen store; `None` for the SQLite files of this user.
    pub(crate) fn chosen(&self) -> Option<SharedStore> {
        self.0.get()?.store.clone()
    }

    /// Returns the name of the store in messages; `None` for SQLite files.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.get()?.name.as_deref()
    }
}

fn unusable_store(name: String, why: String) -> Chosen {
    Chosen { name: Some(name), store: Some(SharedStore::new(Arc::new(RefusedStore::new(why)))) }
}

fn open(
    location: &StoreLocation,
    program: &ProgramSettings,
    machine: &Machine,
) -> Result<Option<Arc<dyn SessionStore>>, String> {
    let home = machine.env.path("HOME");
    let (location, token) = match location {
        StoreLocation::Files(path) => {
            let path = path.to_str().and_then(|path| at_home(path, home.as_deref())).unwrap_or_default();
            (&StoreLocation::Files(path), None)
        }
        StoreLocation::Remote(_) => (location, token(program, machine, home.as_deref())?),
        StoreLocation::Sqlite | StoreLocation::Memory | StoreLocation::Postgres(_) => (location, None),
    };
    token.iter().for_each(|token| machine.redactor.learn(token));
    let files = Arc::new(LocalStateFiles::new(machine.host_files.clone()));
    location.open(StoreOpening { files, http: Http::new(), token }).map_err(|error| error.to_string())
}

/// Token for the server of sessions: from the environment, the named file, or the file of this user's own server.
fn token(
    program: &ProgramSettings,
    machine: &Machine,
    home: Option<&Path>,
) -> Result<Option<String>, String> {
    if let Some(token) = machine.env.text("ZK_SESSION_TOKEN") {
        return Ok(Some(token.trim().to_owned()));
    }
    let named = program.session_token_file.as_deref().and_then(|path| at_home(path, home));
    let Some(path) = named.clone().or_else(|| Some(machine.dirs.access()?.join(TOKEN_FILE))) else {
        return Ok(None);
    };
    let files = LocalStateFiles::new(machine.host_files.clone());
    match files.read(&path, MAX_TOKEN_FILE_BYTES).map_err(|error| error.to_string())? {
        Some(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
        None if named.is_some() => {
            Err(format!("there is no token in {}: the file is missing", path.display()))
        }
        None => Ok(None),
    }
}

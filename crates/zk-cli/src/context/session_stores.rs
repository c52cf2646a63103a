//! The store of this user's sessions, as it was chosen at the start.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use zk_auth::Http;
use zk_core::model::SessionId;
use zk_core::service::{
    NewSession, OpenSession, SessionFilter, SessionInfo, SessionSnapshot, SessionStore, StateFiles,
    StoreError,
};
use zk_exec::LocalStateFiles;
use zk_exec::settings::at_home;
use zk_session::{MemoryStore, SharedStore};
use zk_stores::{DirMap, FileMapStore, RemoteStore, StoreLocation};

use crate::app::Machine;
use crate::settings::ProgramSettings;

/// Name of the file with the token of `zk serve-sessions`, in the directory of tokens.
pub(crate) const TOKEN_FILE: &str = "sessions-token";

/// Most bytes of a file with a token.
const MAX_TOKEN_FILE_BYTES: usize = 4096;

/// The store that the settings or a team's program chose; SQLite files until then.
#[derive(Clone, Default)]
pub(crate) struct SessionStores(Arc<OnceLock<Chosen>>);

struct Chosen {
    /// The store for a person; `None` for SQLite files.
    name: Option<String>,
    /// `None` for SQLite files.
    store: Option<SharedStore>,
}

impl fmt::Debug for SessionStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStores").field("name", &self.name()).finish()
    }
}

impl SessionStores {
    /// Chooses the store: the one of the settings, else the one of a team's program. The first choice counts.
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
                Err(error) => broken("unknown".to_owned(), error.to_string()),
                Ok(StoreLocation::Sqlite) => Chosen { name: None, store: None },
                Ok(location) => {
                    if let StoreLocation::Postgres(address) = &location {
                        machine.redactor.learn(address);
                    }
                    match open(&location, program, machine) {
                        Ok(store) => {
                            Chosen { name: Some(location.to_string()), store: Some(SharedStore::new(store)) }
                        }
                        Err(why) => broken(location.to_string(), why),
                    }
                }
            },
        });
    }

    /// The store; `None` for the SQLite files of this user.
    pub(crate) fn chosen(&self) -> Option<SharedStore> {
        self.0.get()?.store.clone()
    }

    /// The store for a person; `None` for SQLite files.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.get()?.name.as_deref()
    }
}

fn broken(name: String, why: String) -> Chosen {
    Chosen { name: Some(name), store: Some(SharedStore::new(Arc::new(BrokenStore(why)))) }
}

/// Store that cannot be used as it is set: whoever needs it is told why.
struct BrokenStore(String);

impl BrokenStore {
    fn refuse<T>(&self) -> Result<T, StoreError> {
        Err(StoreError::Refused(self.0.clone()))
    }
}

#[async_trait]
impl SessionStore for BrokenStore {
    async fn create(&self, _: NewSession) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.refuse()
    }

    async fn open(&self, _: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.refuse()
    }

    async fn read(&self, _: &SessionId) -> Result<SessionSnapshot, StoreError> {
        self.refuse()
    }

    async fn list(&self, _: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        self.refuse()
    }

    async fn delete(&self, _: &SessionId) -> Result<(), StoreError> {
        self.refuse()
    }
}

fn open(
    location: &StoreLocation,
    program: &ProgramSettings,
    machine: &Machine,
) -> Result<Arc<dyn SessionStore>, String> {
    let home = machine.env.path("HOME");
    match location {
        StoreLocation::Sqlite | StoreLocation::Memory => Ok(Arc::new(MemoryStore::new())),
        StoreLocation::Files(path) => {
            let path = path.to_str().and_then(|path| at_home(path, home.as_deref()));
            let path = path.filter(|path| path.is_absolute());
            let path = path.ok_or("the path of `files:PATH` begins with / or ~/")?;
            let files = Arc::new(LocalStateFiles::new(machine.host_files.clone()));
            Ok(Arc::new(FileMapStore::new(Arc::new(DirMap::new(path, files)))))
        }
        StoreLocation::Remote(address) => {
            let token = token(program, machine, home.as_deref())?;
            token.iter().for_each(|token| machine.redactor.learn(token));
            let store = RemoteStore::new(address, token, Http::new()).map_err(|error| error.to_string())?;
            Ok(Arc::new(store))
        }
        #[cfg(feature = "postgres")]
        StoreLocation::Postgres(address) => {
            let store = zk_stores::PostgresStore::new(address).map_err(|error| error.to_string())?;
            Ok(Arc::new(store))
        }
        #[cfg(not(feature = "postgres"))]
        StoreLocation::Postgres(_) => {
            Err("this zk is built without PostgreSQL; build it with `--features postgres`".to_owned())
        }
    }
}

/// Token of the server of sessions: of the environment, of the named file, or of the server of this user.
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

//! The store of this user's sessions, as it was chosen at the start.

use std::path::Path;
use std::sync::Arc;

use zk_auth::Http;
use zk_core::service::{SessionStore, StateFiles};
use zk_exec::LocalStateFiles;
use zk_exec::settings::at_home;
use zk_stores::{StoreLocation, StoreOpening};

use crate::app::Machine;
use crate::settings::ProgramSettings;

/// Name of the file with the token of `zk serve-sessions`, in the directory of tokens.
pub(crate) const TOKEN_FILE: &str = "sessions-token";

/// Size limit of a token file, in bytes.
const MAX_TOKEN_FILE_BYTES: usize = 4096;

/// Opens the store that the settings name; `None` for SQLite files.
pub(super) fn open(
    location: &StoreLocation,
    program: &ProgramSettings,
    machine: &Machine,
) -> Result<Option<Arc<dyn SessionStore>>, String> {
    let home = machine.env.path("HOME");
    if let StoreLocation::Postgres(address) = location {
        machine.redactor.learn(address);
    }
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

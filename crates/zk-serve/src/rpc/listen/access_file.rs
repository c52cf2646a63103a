use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zk_core::service::{StateFileError, StateFiles};

use super::super::token::RpcTokens;
use super::super::wire::attach::Role;

/// Content of the private file that tells programs of this user how to connect.
#[derive(Debug, Serialize, Deserialize)]
struct Access {
    pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    socket: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    websocket: Option<String>,
    driver_token: String,
    approver_token: String,
}

/// Private file with the tokens of a running server. Dropping this removes the file.
#[derive(Debug)]
pub struct RpcAccessFile(PathBuf);

impl RpcAccessFile {
    /// Writes `rpc-PID.json` into a directory that tools and commands cannot read.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(
        files: &dyn StateFiles,
        dir: &Path,
        tokens: &RpcTokens,
        socket: Option<&Path>,
        websocket: Option<&str>,
    ) -> Result<Self, StateFileError> {
        let pid = std::process::id();
        let access = Access {
            pid,
            socket: socket.map(Path::to_path_buf),
            websocket: websocket.map(ToOwned::to_owned),
            driver_token: tokens.reveal(Role::Driver).to_owned(),
            approver_token: tokens.reveal(Role::Approver).to_owned(),
        };
        let path = dir.join(format!("rpc-{pid}.json"));
        // Plain data with texts as keys.
        files.replace(&path, &serde_json::to_vec_pretty(&access).unwrap_or_default())?;
        Ok(Self(path))
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RpcAccessFile {
    fn drop(&mut self) {
        // The file may be gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}

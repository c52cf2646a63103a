use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use zk_core::service::{HostFiles, visible_line};

use super::scripts::Scripts;
use crate::config::server_config::ServerConfig;

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Approved versions of the scripts of a project's servers. The scripts may have been changed, for example by
/// the model, before a server is restarted.
pub struct ApprovedScripts {
    approved: BTreeMap<String, Scripts>,
    /// Servers as written, by name; variables are expanded again for each check.
    written: BTreeMap<String, ServerConfig>,
    project: PathBuf,
    lookup: Box<Lookup>,
    files: Arc<dyn HostFiles>,
}

impl ApprovedScripts {
    /// Takes the scripts of `servers` that were approved, by the identity of each server.
    pub fn new(
        approved: BTreeMap<String, Scripts>,
        servers: &[ServerConfig],
        project: PathBuf,
        lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        files: Arc<dyn HostFiles>,
    ) -> Self {
        let written = servers.iter().map(|server| (server.name.clone(), server.clone())).collect();
        Self { approved, written, project, lookup: Box::new(lookup), files }
    }

    /// Checks that the scripts of a server are still the approved ones.
    ///
    /// # Errors
    /// A message that names the changed script.
    pub fn check(&self, server: &ServerConfig) -> Result<(), String> {
        let (Some(then), Some(server)) =
            (self.approved.get(server.identity()), self.written.get(&server.name))
        else {
            return Ok(());
        };
        let now = Scripts::of(server, &self.project, &*self.lookup, &*self.files);
        match now.changed_since(then) {
            None => Ok(()),
            Some(path) => Err(format!(
                "{} changed since it was approved; read it, then `zk trust add` and start anew",
                visible_line(&path.display().to_string())
            )),
        }
    }
}

impl fmt::Debug for ApprovedScripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovedScripts").field("project", &self.project).finish_non_exhaustive()
    }
}

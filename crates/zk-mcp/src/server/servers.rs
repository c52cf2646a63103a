//! All servers of a plugin, for a host.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};
use zk_core::kernel::Cx;

#[cfg(feature = "http")]
use crate::auth::{SignInError, SignInOptions, SignInPage};
use crate::server::Server;
use crate::server::status::{ServerState, ServerStatus};
use crate::tools::skills::RemoteSkill;

/// The servers of a plugin: `cx.service::<McpServers>()`.
#[derive(Clone)]
pub struct McpServers {
    pub(crate) servers: Arc<Vec<Arc<Server>>>,
    /// Longest wait of a run for servers that are being started.
    pub(crate) wait: Duration,
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServers").field("servers", &self.servers.len()).finish()
    }
}

impl McpServers {
    /// The state of each server, in the order of the settings, without a request to any.
    #[must_use]
    pub fn status(&self) -> Vec<ServerStatus> {
        self.servers.iter().map(|server| server.status()).collect()
    }

    /// Waits until no server is being started any more, at most `limit`. Servers that failed are tried again.
    pub async fn warm_up(&self, limit: Duration) {
        self.servers.iter().for_each(|server| server.retry());
        if limit.is_zero() {
            return;
        }
        let until = Instant::now() + limit;
        let settled = self.servers.iter().map(|server| async move {
            let mut live = server.live();
            let _ = live.wait_for(|live| live.state != ServerState::Starting).await;
        });
        let _ = timeout_at(until, join_all(settled)).await;
    }

    /// Waits until no server is being started any more and the skills of those that can be used are known, at most `limit`.
    pub async fn skills_ready(&self, limit: Duration) {
        let until = Instant::now() + limit;
        self.warm_up(limit).await;
        let listed = self.servers.iter().map(|server| server.listed_skills());
        if !limit.is_zero() {
            let _ = timeout_at(until, join_all(listed)).await;
        }
    }

    /// Waits, as long as a run does, until the prompts of all servers are commands.
    pub async fn prompts_ready(&self) {
        let until = Instant::now() + self.wait;
        self.warm_up(self.wait).await;
        let offered = self.servers.iter().map(|server| server.offered_prompts());
        let _ = timeout_at(until, join_all(offered)).await;
    }

    /// Accepts the tools of a server that are not those accepted before: exactly those of the digest that
    /// [`McpQuarantine`](crate::McpQuarantine) names.
    ///
    /// # Errors
    /// In words, when there is no such server, no such change, or it cannot be stored.
    pub async fn accept(&self, server: &str, digest: &str) -> Result<(), String> {
        self.named(server)?.accept(digest).await
    }

    /// Has a person sign in to a server that wants it, on `page`. The tokens are stored, and the server is tried again.
    ///
    /// # Errors
    /// [`SignInError`], after which nothing that was stored is another thing.
    #[cfg(feature = "http")]
    pub async fn sign_in(
        &self,
        server: &str,
        page: &dyn SignInPage,
        options: &SignInOptions,
    ) -> Result<(), SignInError> {
        self.named(server).map_err(SignInError::NotWanted)?.sign_in(page, options).await
    }

    /// Forgets the sign-in to a server, and says whether there was one.
    ///
    /// # Errors
    /// [`SignInError`] when what is stored cannot be changed.
    #[cfg(feature = "http")]
    pub async fn sign_out(&self, server: &str) -> Result<bool, SignInError> {
        self.named(server).map_err(SignInError::NotWanted)?.sign_out().await
    }

    /// Whether a server wants a sign-in: it said so since it was started, or a call of an earlier program needed more than
    /// the tokens are good for.
    #[cfg(feature = "http")]
    pub async fn wants_sign_in(&self, server: &str) -> bool {
        match self.named(server) {
            Ok(server) => server.wants_sign_in().await,
            Err(_) => false,
        }
    }

    /// The skills of all servers, as they were listed last.
    #[must_use]
    pub fn skills(&self) -> Vec<RemoteSkill> {
        self.servers.iter().flat_map(|server| server.remote_skills()).collect()
    }

    /// A file of a skill, by the server and the addresses of both. It has the size and the digest that the list names;
    /// what its frontmatter says is for the caller to compare.
    ///
    /// # Errors
    /// In words, when it is not listed, cannot be read, or is another file.
    pub async fn read_skill(
        &self,
        server: &str,
        skill: &str,
        file: &str,
        cx: &Cx,
    ) -> Result<Vec<u8>, String> {
        self.named(server)?.read_skill(skill, file, cx).await
    }

    fn named(&self, name: &str) -> Result<&Arc<Server>, String> {
        let found = self.servers.iter().find(|one| one.name() == name);
        found.ok_or_else(|| format!("there is no MCP server {name}"))
    }

    pub(crate) async fn close(&self) {
        join_all(self.servers.iter().map(|server| server.close())).await;
    }
}

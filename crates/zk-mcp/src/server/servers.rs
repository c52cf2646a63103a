//! Access to all servers of a plugin, for the host.

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
    /// Longest wait of a run for servers that are starting.
    pub(crate) wait: Duration,
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServers").field("servers", &self.servers.len()).finish()
    }
}

impl McpServers {
    /// Returns the state of each server, in the order of settings, without a request to it.
    #[must_use]
    pub fn status(&self) -> Vec<ServerStatus> {
        self.servers.iter().map(|server| server.status()).collect()
    }

    /// Waits until no server is starting any more, for at most `limit`. Failed servers are retried.
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

    /// Waits until no server is starting any more and the skills of all usable servers are listed, for at
    /// most `limit`.
    pub async fn skills_ready(&self, limit: Duration) {
        let until = Instant::now() + limit;
        self.warm_up(limit).await;
        let listed = self.servers.iter().map(|server| server.wait_for_skills());
        if !limit.is_zero() {
            let _ = timeout_at(until, join_all(listed)).await;
        }
    }

    /// Waits, for as long as a run would, until the prompts of all servers are registered as commands.
    pub async fn prompts_ready(&self) {
        let until = Instant::now() + self.wait;
        self.warm_up(self.wait).await;
        let offered = self.servers.iter().map(|server| server.wait_for_prompts());
        let _ = timeout_at(until, join_all(offered)).await;
    }

    /// Accepts the changed tools of a server: exactly those with the digest that
    /// [`McpQuarantine`](crate::McpQuarantine) names.
    ///
    /// # Errors
    /// A message, when there is no such server or change, or when the acceptance cannot be stored.
    pub async fn accept(&self, server: &str, digest: &str) -> Result<(), String> {
        self.server(server)?.accept(digest).await
    }

    /// Signs a person in to a server that requires it, using `page`. The tokens are stored, and the server is
    /// retried.
    ///
    /// # Errors
    /// [`SignInError`]; stored credentials are unchanged then.
    #[cfg(feature = "http")]
    pub async fn sign_in(
        &self,
        server: &str,
        page: &dyn SignInPage,
        options: &SignInOptions,
    ) -> Result<(), SignInError> {
        self.server(server).map_err(SignInError::NotWanted)?.sign_in(page, options).await
    }

    /// Removes the sign-in to a server; returns whether there was one.
    ///
    /// # Errors
    /// [`SignInError`] when the stored credentials cannot be changed.
    #[cfg(feature = "http")]
    pub async fn sign_out(&self, server: &str) -> Result<bool, SignInError> {
        self.server(server).map_err(SignInError::NotWanted)?.sign_out().await
    }

    /// Whether a server requires a sign-in: it asked for one since its start, or a call of an earlier program
    /// needed more scopes.
    #[cfg(feature = "http")]
    pub async fn wants_sign_in(&self, server: &str) -> bool {
        match self.server(server) {
            Ok(server) => server.wants_sign_in().await,
            Err(_) => false,
        }
    }

    /// Returns the skills of all servers from their last listings.
    #[must_use]
    pub fn skills(&self) -> Vec<RemoteSkill> {
        self.servers.iter().flat_map(|server| server.remote_skills()).collect()
    }

    /// Reads a file of a skill, given by the server and both addresses. Size and digest are checked against
    /// the list; the caller has to compare the frontmatter.
    ///
    /// # Errors
    /// A message, when the file is not listed, cannot be read, or differs from the list.
    pub async fn read_skill(
        &self,
        server: &str,
        skill: &str,
        file: &str,
        cx: &Cx,
    ) -> Result<Vec<u8>, String> {
        self.server(server)?.read_skill(skill, file, cx).await
    }

    fn server(&self, name: &str) -> Result<&Arc<Server>, String> {
        let found = self.servers.iter().find(|one| one.name() == name);
        found.ok_or_else(|| format!("there is no MCP server {name}"))
    }

    pub(crate) async fn close(&self) {
        join_all(self.servers.iter().map(|server| server.close())).await;
    }
}

//! Tools of a server: compared with the accepted list, and registered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::time::timeout;
use zk_core::kernel::Scope;
use zk_core::model::{Disclosure, ToolError, ToolErrorKind};
use zk_core::service::{Command, Tool};

use super::disclosure::Disclosed;
use super::{Server, ServerRef, quarantined, upgrade_all};
use crate::client::Connection;
use crate::config::exposure::ServerTrust;
use crate::config::names::tool_name;
use crate::config::server_config::{ServerConfig, ServerPermission};
use crate::events::{McpQuarantine, McpSkills};
use crate::server::status::ServerState;
use crate::store::pins::Listing;
use crate::tools::prompts::PromptCommand;
use crate::tools::resources::{ListResources, ReadResource};
use crate::tools::sanitize::clean_text;
use crate::tools::search;
use crate::tools::skills;
use crate::tools::tool::{McpTool, spec_of};

/// Longest wait of a call for changed lists.
const LIST_TIME_LIMIT: Duration = Duration::from_secs(15);
/// Limits of one server: number of tools, and bytes of their list.
const MAX_TOOLS: usize = 2000;
/// Notice about a list that was accepted for a command instead of a server.
const SHARED_PIN_NOTICE: &str = "! an earlier version accepted one list for all servers with this command or address, and this server's \
                      differs from it; each server has its own from now on";
/// Maximum number of prompts of one server.
const MAX_PROMPTS: usize = 200;
const MAX_LISTING_BYTES: usize = 8 << 20;
/// Marker for a listing that failed, in place of the number of list changes.
const UNKNOWN_COUNT: u64 = u64::MAX;

/// Registered tools of a server.
#[derive(Default)]
pub(super) struct Listed {
    tools: BTreeMap<String, Arc<McpTool>>,
    scope: Option<Scope>,
    /// Listing that waits for a person's acceptance.
    pending: Option<(Listing, Vec<rmcp::model::Tool>)>,
    /// Digest of the last listing, used or not.
    digest: String,
}

impl Listed {
    pub(super) fn names(&self) -> Vec<String> {
        self.tools.keys().cloned().collect()
    }

    /// Returns the digest of the last listing.
    pub(super) fn digest(&self) -> String {
        self.digest.clone()
    }
}

impl Server {
    /// Lists the tools and updates their registrations; quarantines the server if they differ from the
    /// accepted list.
    pub(super) async fn list(&self, connection: &Arc<Connection>) -> Result<(), String> {
        let mut applied = self.applied.lock().await;
        *applied = connection.changed().count_tool_changes();
        let tools = connection.tools().await?;
        for name in connection.left_out(&tools) {
            self.write_log(&format!(
                "its tool {name} is left out: an `x-mcp-header` in its schema is not valid"
            ));
        }
        let values: Vec<Value> = tools.iter().filter_map(|tool| serde_json::to_value(tool).ok()).collect();
        let listing = Listing::new(connection.instructions(), values);
        if tools.len() > MAX_TOOLS || listing.bytes().len() > MAX_LISTING_BYTES {
            return Err(format!(
                "it has {} tools with {} bytes; at most {MAX_TOOLS} with {MAX_LISTING_BYTES} bytes can be used",
                tools.len(),
                listing.bytes().len()
            ));
        }
        self.lock_listed().digest = listing.digest();
        let (listing, checked) = self.check_in_background(listing).await?;
        match checked {
            Ok(()) => {
                self.register_resource_tools(connection);
                self.register_tools(&tools).await;
                let protocol = connection.protocol();
                let was_quarantined = matches!(self.live.borrow().state, ServerState::Quarantined { .. });
                self.set_state(ServerState::Ready { protocol }, Some(connection.clone()));
                if was_quarantined {
                    self.announce(connection).await;
                    // The skills of the server have not been listed yet.
                    connection.changed().record_others_changed();
                }
            }
            Err(changes) => {
                let digest = listing.digest();
                let state = ServerState::Quarantined { changes: changes.clone(), digest: digest.clone() };
                let known = self.live.borrow().state == state;
                self.lock_listed().pending = Some((listing, tools));
                self.set_state(state, Some(connection.clone()));
                if !known {
                    self.emit(McpQuarantine { server: self.config.name.clone(), changes, digest }).await;
                }
            }
        }
        Ok(())
    }

    /// Runs [`Self::check`] on a blocking thread, since it reads and writes files; returns the listing with
    /// the result.
    async fn check_in_background(
        &self,
        listing: Listing,
    ) -> Result<(Listing, Result<(), Vec<String>>), String> {
        let this = self.this.upgrade().map(ServerRef::server).ok_or("the conversation ended")?;
        super::run::run_blocking(move || {
            let checked = this.check(&listing);
            (listing, checked)
        })
        .await
    }

    /// Checks whether the listing is the accepted one. The first listing of a server is accepted.
    fn check(&self, listing: &Listing) -> Result<(), Vec<String>> {
        if !self.config.pin {
            return Ok(());
        }
        let (pins, key) = (&self.shared.pins, self.config.pin_key());
        let cannot = |why: String| vec![format!("! which tools were accepted cannot be known: {why}")];
        if let Some(accepted) = pins.load(&key).map_err(cannot)? {
            let changes = listing.changes_since(&accepted).map_err(cannot)?;
            return if changes.is_empty() { Ok(()) } else { Err(changes) };
        }
        // Earlier versions stored one list for all servers with the same command, regardless of names and
        // variables.
        if let Some(shared) = pins.load(self.config.identity()).map_err(cannot)? {
            let mut changes = listing.changes_since(&shared).map_err(cannot)?;
            if !changes.is_empty() {
                changes.insert(0, SHARED_PIN_NOTICE.to_owned());
                return Err(changes);
            }
        }
        pins.save(&key, listing.bytes()).map_err(cannot)
    }

    /// Lists the tools again if the server announced a change.
    pub(super) async fn refresh(&self, connection: &Arc<Connection>) {
        if *self.applied.lock().await == connection.changed().count_tool_changes() {
            return;
        }
        let failed = match timeout(LIST_TIME_LIMIT, self.list(connection)).await {
            Ok(Ok(())) => return,
            Ok(Err(why)) => why,
            Err(_) => format!("it did not list them within {} s", LIST_TIME_LIMIT.as_secs()),
        };
        if connection.ended.is_cancelled() {
            // The next connection is listed before its first use.
            return;
        }
        // The tools are not known, so none can run, and the next call lists them again.
        *self.applied.lock().await = UNKNOWN_COUNT;
        let changes = vec![format!("! its tools may be others, and it does not list them: {failed}")];
        let digest = String::new();
        let state = ServerState::Quarantined { changes: changes.clone(), digest: digest.clone() };
        let is_known = self.live.borrow().state == state;
        self.set_state(state, Some(connection.clone()));
        if !is_known {
            self.emit(McpQuarantine { server: self.config.name.clone(), changes, digest }).await;
        }
    }

    /// Returns a connection with accepted tools for one call. Boxed like a connection's requests.
    pub(crate) fn connection_for_call(&self) -> BoxFuture<'_, Result<Arc<Connection>, ToolError>> {
        Box::pin(async move {
            let mut connection = self.connection(self.config.start_cap).await;
            // A quarantined server's connection is checked too, because its tools may be the accepted ones
            // again.
            let current = self.live.borrow().connection.clone();
            if let Some(current) = current {
                self.refresh(&current).await;
                if connection.is_err() || current.ended.is_cancelled() {
                    connection = self.connection(self.config.start_cap).await;
                }
            }
            match &self.live.borrow().state {
                ServerState::Quarantined { changes, digest } => {
                    Err(ToolError::new(ToolErrorKind::Denied, quarantined(self.name(), changes, digest)))
                }
                ServerState::Starting
                | ServerState::Ready { .. }
                | ServerState::Failed { .. }
                | ServerState::Closed => connection.map_err(ToolError::failed),
            }
        })
    }

    /// Accepts the tools that wait for a person, if `digest` is theirs.
    pub(crate) async fn accept(&self, digest: &str) -> Result<(), String> {
        let name = self.name();
        let waiting = {
            let mut listed = self.lock_listed();
            let waiting = listed.pending.as_ref().map(|(listing, _)| listing.digest());
            match waiting {
                None => return Err(format!("MCP server {name} has no change that waits to be accepted")),
                Some(other) if other != digest => {
                    return Err(format!(
                        "this is not what MCP server {name} has now; read that, then `zk mcp accept {name} {other}`"
                    ));
                }
                Some(_) => listed.pending.take(),
            }
        };
        let Some((listing, tools)) = waiting else { return Ok(()) };
        self.shared.pins.save(&self.config.pin_key(), listing.bytes())?;
        self.register_tools(&tools).await;
        let connection = self.live.borrow().connection.clone();
        let protocol = connection.as_ref().map_or(String::new(), |connection| connection.protocol());
        self.set_state(ServerState::Ready { protocol }, connection.clone());
        if let Some(connection) = connection {
            self.announce(&connection).await;
            connection.changed().record_others_changed();
        }
        Ok(())
    }

    /// Registers the tools for resources of all servers, once a server has resources.
    fn register_resource_tools(&self, connection: &Connection) {
        if connection.has_resources()
            && self.config.trust != ServerTrust::Untrusted
            && self.shared.has_resources.set(()).is_ok()
        {
            let all = self.shared.all.get().cloned().unwrap_or_default();
            let trusted = upgrade_all(&all).filter(|one| one.config.trust != ServerTrust::Untrusted);
            let all = Arc::new(trusted.map(|one| one.downgrade()).collect::<Vec<_>>());
            let tools: [Arc<dyn Tool>; 2] =
                [Arc::new(ListResources::new(all.clone())), Arc::new(ReadResource::new(all))];
            for tool in tools {
                // Another plugin has a tool of that name, which stays.
                let _ = self.scope.provide::<dyn Tool>(&tool.spec().name.clone(), tool);
            }
        }
    }

    /// Lists the skills of a usable server, and emits `mcp:skills` if they changed. No skill is read.
    pub(super) async fn list_skills(&self, connection: &Connection) {
        if self.config.skills == ServerPermission::Deny
            || !matches!(self.live.borrow().state, ServerState::Ready { .. })
        {
            return;
        }
        let listed = match timeout(LIST_TIME_LIMIT, connection.skills()).await {
            Ok(Ok(listed)) => listed,
            Ok(Err(why)) => return self.write_log(&format!("its skills are not known: {why}")),
            Err(_) => return self.write_log("its skills are not known: it did not list them in time"),
        };
        let listed = skills::usable_skills(listed);
        let names = listed.iter().map(|skill| skill.name().to_owned()).collect();
        if *self.skills() == listed {
            return;
        }
        *self.skills() = listed;
        self.emit(McpSkills { server: self.config.name.clone(), skills: names }).await;
    }

    /// Waits until the skills of a usable server were listed, or listing failed.
    pub(crate) async fn wait_for_skills(&self) {
        if matches!(self.live.borrow().state, ServerState::Ready { .. }) {
            let _ = self.has_listed_skills.subscribe().wait_for(|has_listed| *has_listed).await;
        }
    }

    /// Waits until the prompts of a usable server are registered as commands.
    pub(crate) async fn wait_for_prompts(&self) {
        if matches!(self.live.borrow().state, ServerState::Ready { .. }) {
            let _ = self.has_offered.subscribe().wait_for(|has_offered| *has_offered).await;
        }
    }

    /// Registers the server's prompts as commands.
    pub(super) async fn register_prompts(&self, connection: &Arc<Connection>) {
        let (Some(bus), Some(this)) = (self.scope.bus(), self.this.upgrade().map(ServerRef::server)) else {
            return;
        };
        let count = connection.changed().count_other_changes();
        let is_known = {
            let offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
            offered.1.is_some() && offered.0 == count && count > 0
        };
        if is_known {
            return;
        }
        if self.config.trust == ServerTrust::Untrusted {
            return;
        }
        let prompts = match timeout(LIST_TIME_LIMIT, connection.prompts()).await {
            Ok(Ok(prompts)) => prompts,
            Ok(Err(why)) => return self.write_log(&format!("its prompts are not known: {why}")),
            Err(_) => return self.write_log("its prompts are not known: it did not list them in time"),
        };
        let scope = bus.scope(format!("mcp:{}", self.name()));
        let mut taken = BTreeSet::new();
        for prompt in prompts.into_iter().take(MAX_PROMPTS) {
            let name = tool_name(self.name(), &prompt.name, &taken);
            let command = PromptCommand::new(&this, name.clone(), prompt);
            scope.provide_replacing::<dyn Command>(&name, Arc::new(command));
            taken.insert(name);
        }
        let before = {
            let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
            offered.0 = count;
            offered.1.replace(scope)
        };
        if let Some(before) = before {
            before.close().await;
        }
    }

    /// Replaces the registered tools. Unchanged tools keep their registration, so that requests stay equal.
    async fn register_tools(&self, tools: &[rmcp::model::Tool]) {
        // Serialised over all servers, because they share a budget.
        let _registering = self.shared.registering.lock().await;
        let used = self.allowed_tools(tools);
        let tools = &*used;
        let Disclosed { own, others } = self.shared.disclosures.decide(&self.config, request_bytes(tools));
        if (own == Disclosure::Lazy || !others.is_empty())
            && self.shared.has_search
            && self.shared.is_search_offered.set(()).is_ok()
        {
            search::register(&self.scope, self.shared.all.get().cloned().unwrap_or_default());
        }
        let next = self.create_tools(tools, own);
        self.lock_listed().pending = None;
        self.replace_tools(next).await;
        let all = self.shared.all.get().cloned().unwrap_or_default();
        for server in upgrade_all(&all).filter(|one| others.contains(&one.config.name)) {
            let lazy = server.lock_listed().tools.clone().into_iter();
            let lazy = lazy.map(|(name, tool)| (name, Arc::new(tool.disclosed(Disclosure::Lazy)))).collect();
            server.replace_tools(lazy).await;
        }
    }

    /// Returns the tools that the person's filter and trust allow.
    fn allowed_tools(&self, tools: &[rmcp::model::Tool]) -> Vec<rmcp::model::Tool> {
        let ServerConfig { tools: filter, trust, .. } = &self.config;
        if *trust == ServerTrust::Untrusted && filter.allow.is_none() {
            self.write_log("it is not trusted and has no `allow_tools`: none of its tools is used");
        }
        tools.iter().filter(|tool| filter.allows(&tool.name, *trust)).cloned().collect()
    }

    /// Creates the tools by their canonical names.
    fn create_tools(
        &self,
        tools: &[rmcp::model::Tool],
        disclosure: Disclosure,
    ) -> BTreeMap<String, Arc<McpTool>> {
        let mut next = BTreeMap::new();
        let mut taken = self.shared.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let listed = self.lock_listed();
        listed.tools.keys().for_each(|name| {
            taken.remove(name);
        });
        let mut sorted: Vec<&rmcp::model::Tool> = tools.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        let mut seen = BTreeSet::new();
        for tool in sorted {
            if !seen.insert(&tool.name) {
                self.write_log(&format!(
                    "it lists two tools called {}: the second one is left out",
                    tool.name
                ));
                continue;
            }
            let name = tool_name(self.name(), &tool.name, &taken);
            if taken.contains(&format!("mcp_{}_{}", self.name(), tool.name)) {
                self.write_log(&format!("the name of its tool {} is taken: it is {name}", tool.name));
            }
            let spec = spec_of(&name, tool, disclosure);
            let same = listed.tools.get(&name).filter(|old| old.is_unchanged_by(tool, &spec));
            let made = same.cloned().or_else(|| {
                let server = self.this.upgrade().map(ServerRef::server)?;
                Some(Arc::new(McpTool::new(server, tool, spec)))
            });
            taken.insert(name.clone());
            next.extend(made.map(|made| (name, made)));
        }
        next
    }

    /// Registers these tools instead of the previous listing.
    async fn replace_tools(&self, next: BTreeMap<String, Arc<McpTool>>) {
        let Some(bus) = self.scope.bus() else { return };
        let scope = bus.scope(format!("mcp:{}", self.name()));
        for (name, tool) in &next {
            scope.provide_replacing::<dyn Tool>(name, tool.clone());
        }
        let before = {
            let mut listed = self.lock_listed();
            listed.tools = next;
            listed.scope.replace(scope)
        };
        if let Some(before) = before {
            before.close().await;
        }
    }

    /// Adds a line to the server's log.
    fn write_log(&self, text: &str) {
        if let Some(log) = &self.shared.log {
            log(self.name(), format!("zk: {}\n", clean_text(text)).as_bytes());
        }
    }
}

/// Returns the bytes that tools use in a request.
fn request_bytes(tools: &[rmcp::model::Tool]) -> usize {
    let size = |tool: &rmcp::model::Tool| {
        let schema = serde_json::to_string(&tool.input_schema).unwrap_or_default();
        tool.name.len() + tool.description.as_deref().unwrap_or_default().len() + schema.len()
    };
    tools.iter().map(size).sum()
}

use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Bus, Cx, Scope};
use zk_mcp::{McpServers, McpSkills, RemoteSkill};
use zk_skills::{ServedSkill, SkillHost, Skills};

/// The skills of one MCP server.
struct ServerSkills {
    servers: Arc<McpServers>,
    server: String,
}

#[async_trait]
impl SkillHost for ServerSkills {
    fn skills(&self) -> Vec<ServedSkill> {
        let own = self.servers.skills().into_iter().filter(|skill| skill.server == self.server);
        own.map(|skill| {
            let RemoteSkill { server: _, uri, frontmatter, files, is_allowed } = skill;
            let files = files.into_iter().map(|file| (file.uri, file.digest)).collect();
            ServedSkill { uri, frontmatter, files, is_allowed }
        })
        .collect()
    }

    async fn read(&self, skill: &str, file: &str, cx: &Cx) -> Result<Vec<u8>, String> {
        self.servers.read_skill(&self.server, skill, file, cx).await
    }
}

/// Adds the skills of MCP servers to the conversation's, now and whenever a server's list changes.
pub(crate) fn offer_skills(bus: &Bus) -> Result<(), BoxError> {
    let Some(servers) = bus.service::<McpServers>() else { return Ok(()) };
    let scope = bus.scope("mcp-skills");
    for status in servers.status() {
        let host = ServerSkills { servers: servers.clone(), server: status.server.clone() };
        scope.provide::<dyn SkillHost>(&status.server, Arc::new(host))?;
    }
    scope.on_async_with(scope.clone(), async |scope: &Scope, _: &McpSkills, cx: &Cx| update(scope, cx).await);
    let early = scope.clone();
    scope.spawn(async move {
        // A server may have listed its skills before the handler was registered.
        if let Some(bus) = early.bus().filter(|_| !servers.skills().is_empty()) {
            let _ = update(&early, &bus.cx()).await;
        }
    });
    Ok(())
}

async fn update(scope: &Scope, cx: &Cx) -> Result<(), BoxError> {
    if let Some(skills) = cx.service::<Skills>() {
        skills.source_changed(scope, cx).await?;
    }
    Ok(())
}

//! Skills of servers (`io.modelcontextprotocol/skills`): listed in advance, and read file by file on use.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use rmcp::model::{ReadResourceResult, ResourceContents, Skill, SkillResource, SkillResources};
use serde_json::Value;
use zk_core::kernel::Cx;

use crate::config::server_config::ServerPermission;
use crate::server::Server;

/// Limits: skills of one server, files of one skill, and their bytes.
const MAX_SKILLS: usize = 500;
const MAX_FILES: usize = 512;
const MAX_BYTES: u64 = 16 << 20;

/// A skill that a server lists, identified by server and address.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteSkill {
    /// Name of the server.
    pub server: String,
    /// Address of the skill's `SKILL.md`.
    pub uri: String,
    /// Frontmatter of the skill, as JSON.
    pub frontmatter: Value,
    /// Files of the skill; empty if the content is dynamic.
    pub files: Vec<RemoteFile>,
    /// Whether settings allow the use of the server's skills without asking.
    pub is_allowed: bool,
}

/// File of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFile {
    /// Address of the file.
    pub uri: String,
    /// Digest: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Size of the file, in bytes.
    pub size: u64,
}

impl RemoteSkill {
    fn new(server: &Server, skill: &Skill) -> Option<Self> {
        let file = |file: &SkillResource| RemoteFile {
            uri: file.uri.clone(),
            digest: file.digest.clone(),
            size: file.size,
        };
        Some(Self {
            server: server.name().to_owned(),
            uri: skill.uri.clone(),
            frontmatter: serde_json::to_value(&skill.frontmatter).ok()?,
            files: files(skill).iter().map(file).collect(),
            is_allowed: server.config.skills == ServerPermission::Allow,
        })
    }
}

fn files(skill: &Skill) -> &[SkillResource] {
    match &skill.resources {
        SkillResources::Files(files) => files,
        _ => &[],
    }
}

/// Returns the usable skills of a server's list.
pub(crate) fn usable_skills(skills: Vec<Skill>) -> Vec<Skill> {
    let is_usable = |skill: &Skill| {
        let size = files(skill).iter().try_fold(0_u64, |sum, file| sum.checked_add(file.size));
        skill.validate().is_ok()
            && files(skill).len() <= MAX_FILES
            && size.is_some_and(|size| size <= MAX_BYTES)
    };
    skills.into_iter().filter(is_usable).take(MAX_SKILLS).collect()
}

impl Server {
    /// Returns the skills from the last listing.
    pub(crate) fn remote_skills(&self) -> Vec<RemoteSkill> {
        self.skills().iter().filter_map(|skill| RemoteSkill::new(self, skill)).collect()
    }

    /// Reads a file of a skill, and checks its size and digest against the list. Boxed, so that the future is
    /// compiled in this crate.
    pub(crate) fn read_skill<'a>(
        &'a self,
        skill: &'a str,
        file: &'a str,
        cx: &'a Cx,
    ) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            let found = self.skills().iter().find(|one| one.uri == skill).cloned();
            let found = found.ok_or_else(|| format!("MCP server {} lists no skill {skill}", self.name()))?;
            let listed = files(&found).iter().find(|one| one.uri == file);
            // A skill with dynamic content has no digests, and no file but the one at its own URI.
            if listed.is_none() && (!files(&found).is_empty() || file != skill) {
                return Err(format!("the skill {skill} has no file {file}"));
            }
            let idle = self.config.request_idle;
            let read =
                self.request(
                    cx,
                    true,
                    |connection| async move { connection.read_resource(file, idle, cx).await },
                );
            let bytes = resource_bytes(read.await.map_err(|error| error.to_string())?)?;
            if let Some(listed) = listed {
                listed
                    .verify(&bytes)
                    .map_err(|error| format!("it is not the file that was listed: {error}"))?;
            }
            Ok(bytes)
        })
    }
}

fn resource_bytes(result: ReadResourceResult) -> Result<Vec<u8>, String> {
    match result.contents.into_iter().next() {
        Some(ResourceContents::TextResourceContents { text, .. }) => Ok(text.into_bytes()),
        Some(ResourceContents::BlobResourceContents { blob, .. }) => {
            STANDARD.decode(blob).map_err(|error| format!("its content is no base64: {error}"))
        }
        _ => Err("it has no content".to_owned()),
    }
}

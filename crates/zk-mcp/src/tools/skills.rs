//! Skills of servers (`io.modelcontextprotocol/skills`): listed, and read file by file once somebody uses them.

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

/// A skill that a server lists. The server and the address together are what makes it this skill.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteSkill {
    /// The server.
    pub server: String,
    /// The address of its `SKILL.md`.
    pub uri: String,
    /// Frontmatter of the skill, as JSON.
    pub frontmatter: Value,
    /// Files of the skill; none where the content changes.
    pub files: Vec<RemoteFile>,
    /// Whether the settings of the server allow its use without asking.
    pub is_allowed: bool,
}

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFile {
    /// Address of the file.
    pub uri: String,
    /// `sha256:` and 64 hexadecimal digits.
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

/// The skills that can be used of those that a server lists.
pub(crate) fn usable(skills: Vec<Skill>) -> Vec<Skill> {
    let is_usable = |skill: &Skill| {
        let size = files(skill).iter().try_fold(0_u64, |sum, file| sum.checked_add(file.size));
        skill.validate().is_ok()
            && files(skill).len() <= MAX_FILES
            && size.is_some_and(|size| size <= MAX_BYTES)
    };
    skills.into_iter().filter(is_usable).take(MAX_SKILLS).collect()
}

impl Server {
    /// The skills as they were listed last.
    pub(crate) fn remote_skills(&self) -> Vec<RemoteSkill> {
        self.skills().iter().filter_map(|skill| RemoteSkill::new(self, skill)).collect()
    }

    /// A file of a skill, with the size and digest that the list names. Boxed, so that it is compiled here: a future is
    /// compiled wherever it is awaited.
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
            let bytes = bytes(read.await.map_err(|error| error.to_string())?)?;
            if let Some(listed) = listed {
                listed
                    .verify(&bytes)
                    .map_err(|error| format!("it is not the file that was listed: {error}"))?;
            }
            Ok(bytes)
        })
    }
}

fn bytes(result: ReadResourceResult) -> Result<Vec<u8>, String> {
    match result.contents.into_iter().next() {
        Some(ResourceContents::TextResourceContents { text, .. }) => Ok(text.into_bytes()),
        Some(ResourceContents::BlobResourceContents { blob, .. }) => {
            STANDARD.decode(blob).map_err(|error| format!("its content is no base64: {error}"))
        }
        _ => Err("it has no content".to_owned()),
    }
}

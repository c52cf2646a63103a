//! Questions to a person about trust in skills and agents of a project.

use std::sync::Arc;

use zk_core::service::{HostFiles, TrustRequest};

use crate::agent_files::AgentFile;
use crate::skill::scan::scan;
use crate::skill::{Bundle, Skill, body, place};

/// Question whether a person trusts skills of a project.
#[must_use]
pub fn skills_request(found: &[Arc<Skill>], host_files: &dyn HostFiles) -> TrustRequest {
    let row = |skill: &Arc<Skill>| {
        let files = Bundle::of(skill).map(|bundle| bundle.resources()).unwrap_or_default();
        let files = if files.is_empty() { String::new() } else { format!(" (with {})", files.join(", ")) };
        let warnings: String =
            suspicions(skill, host_files).iter().map(|warning| format!("\n  {warning}")).collect();
        format!("{}: {}{files}\n  {}{warnings}", skill.name(), skill.manifest.description, place(skill))
    };
    let text = "Trust these skills of the project exactly as they are, with all their files?".to_owned();
    TrustRequest { text, items: found.iter().map(row).collect(), details: Vec::new() }
}

/// Question whether a person trusts agents of a project.
#[must_use]
pub fn agents_request(found: &[AgentFile]) -> TrustRequest {
    let items = found.iter().map(|file| format!("{}\n  {}", file.describe(), file.name)).collect();
    let text = "Trust these agents of the project exactly as they are?".to_owned();
    TrustRequest { text, items, details: Vec::new() }
}

/// Returns warnings about lines of a skill that look like a prompt injection, for a person who decides about
/// it.
#[must_use]
pub fn suspicions(skill: &Skill, host_files: &dyn HostFiles) -> Vec<String> {
    let text = body(skill, host_files).unwrap_or_default();
    let found = scan(&text).into_iter();
    found.map(|found| format!("warning: line {} {}: {}", found.line, found.what, found.quote)).collect()
}

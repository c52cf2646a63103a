use std::fs;

use anyhow::Result;

use crate::release::metadata::Package;
use crate::workspace::Workspace;

/// Reason why a package is there: the comment over its entry in a manifest, else the package's own description.
pub(super) fn of(workspace: &Workspace, package: &Package, users: &[&str]) -> Result<String> {
    let mut manifests = vec![workspace.root().join("Cargo.toml")];
    for member in workspace.packages()?.iter().filter(|member| users.contains(&member.name.as_str())) {
        manifests.push(workspace.root().join(&member.dir).join("Cargo.toml"));
    }
    for manifest in manifests {
        if let Some(reason) = comment_over(&fs::read_to_string(manifest)?, &package.name) {
            return Ok(reason);
        }
    }
    let own = package.description.as_deref().unwrap_or("-").split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(format!("\u{201c}{}\u{201d}", own.trim_end_matches('.')))
}

/// Comment directly over the entry of a dependency.
fn comment_over(manifest: &str, name: &str) -> Option<String> {
    let is_entry =
        |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(['=', '.']));
    let lines: Vec<&str> = manifest.lines().collect();
    for (index, _) in lines.iter().enumerate().filter(|(_, line)| is_entry(line)) {
        let above = lines.get(..index).unwrap_or_default().iter().rev();
        let mut comment: Vec<&str> = above.map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
        comment.reverse();
        if !comment.is_empty() {
            return Some(comment.join(" "));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_over_an_entry_is_its_reason() {
        let manifest = "# One,\n# and more.\na = \"1\"\nb = \"2\"\n\n[dependencies]\na-b.workspace = true\n# Three.\nb.workspace = true\n";
        assert_eq!(comment_over(manifest, "a").as_deref(), Some("One, and more."));
        assert_eq!(comment_over(manifest, "b").as_deref(), Some("Three."));
        assert_eq!(comment_over(manifest, "a-b"), None);
    }
}

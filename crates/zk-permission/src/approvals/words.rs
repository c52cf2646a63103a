use std::path::Path;

use zk_core::service::{CallOffer, WiderKind};

use super::ApprovalKind;
use crate::rules::{Bound, Manifest, ProjectCode};
use crate::shell::quote_all;

/// Approval as offered to a person; `None` for that of a single call, which the gate offers itself.
pub(crate) fn call_offer(kind: &ApprovalKind, project: &Path) -> Option<CallOffer> {
    Some(CallOffer {
        kind: wider_kind(kind)?,
        describes: describe(kind),
        label: label(kind, project),
        warning: warning(kind),
        key: key(kind),
    })
}

fn wider_kind(kind: &ApprovalKind) -> Option<WiderKind> {
    match kind {
        ApprovalKind::Exact { .. } => None,
        ApprovalKind::Prefix { .. } => Some(WiderKind::Prefix),
        ApprovalKind::Directory { .. } | ApprovalKind::Reads { .. } => Some(WiderKind::Directory),
        ApprovalKind::Code(_) => Some(WiderKind::ProjectCode),
        ApprovalKind::Tools { server: None, .. } => Some(WiderKind::Tool),
        ApprovalKind::Tools { server: Some(_), .. } => Some(WiderKind::Server),
    }
}

/// Short description of the calls that an approval allows.
fn label(kind: &ApprovalKind, project: &Path) -> String {
    match kind {
        ApprovalKind::Exact { command } => format!("`{command}`"),
        ApprovalKind::Prefix { words } => format!("every `{} …`", quote_all(words)),
        ApprovalKind::Directory { path } if path == project => "every edit in this project".to_owned(),
        ApprovalKind::Directory { path } => {
            format!("every edit in {}/", path.strip_prefix(project).unwrap_or(path).display())
        }
        ApprovalKind::Reads { path } => format!("every read in {}/", path.display()),
        ApprovalKind::Code(code) => format!("`{}`", code.command()),
        ApprovalKind::Tools { server: None, names } => format!("every call of {}", names.join(", ")),
        ApprovalKind::Tools { server: Some(server), names } if names.len() == 1 => {
            format!("every call of the one tool that the MCP server {server} has now")
        }
        ApprovalKind::Tools { server: Some(server), names } => {
            format!("every call of the {} tools that the MCP server {server} has now", names.len())
        }
    }
}

/// Description of the calls that an approval allows, with an allowed and a disallowed example.
fn describe(kind: &ApprovalKind) -> String {
    match kind {
        ApprovalKind::Exact { command } => format!("exactly `{command}`"),
        ApprovalKind::Prefix { words } => {
            let words = quote_all(words);
            format!(
                "commands that begin with `{words}`, in the sandbox alone, so also `{words} --more`, but not `{words} > \
                 file`"
            )
        }
        ApprovalKind::Directory { path } => {
            let outside = path.parent().unwrap_or(path).join("file");
            let (path, outside) = (path.display(), outside.display());
            format!(
                "tools changing files below {path}, so also {path}/any/file, but not {outside}, nor what programs write \
                 there"
            )
        }
        ApprovalKind::Reads { path } => {
            let outside = path.parent().unwrap_or(path).join("file");
            let (path, outside) = (path.display(), outside.display());
            format!("reading files below {path}, so also {path}/any/file, but not {outside}")
        }
        ApprovalKind::Code(code @ ProjectCode { bound: None, .. }) => {
            let words = code.command();
            format!(
                "commands that begin with `{words}` and are nothing else, in the sandbox only, so also `{words} --more`, but \
                 not `{words} && true` or `{words} > file`"
            )
        }
        ApprovalKind::Code(code @ ProjectCode { bound: Some(bound), .. }) => {
            let (words, files) = (code.command(), code.manifest_names().join(", "));
            format!(
                "exactly `{words}` in {}, so also the next time, but not `{words} --more`, nor after {files} changed",
                bound.directory.display()
            )
        }
        ApprovalKind::Tools { names, .. } => {
            let first = names.first().map_or("", String::as_str);
            format!(
                "calls with any arguments, so also another call of {first}, but not of a tool that comes later"
            )
        }
    }
}

/// Warning about an approval that lets code run which the project may change.
fn warning(kind: &ApprovalKind) -> Option<String> {
    match kind {
        ApprovalKind::Code(code @ ProjectCode { bound: Some(_), .. }) => Some(format!(
            "There is no sandbox: the project's code runs as you. A change of {} asks again.",
            code.manifest_names().join(", ")
        )),
        _ => None,
    }
}

/// Text key of an approval; the separator occurs in no judged word.
fn key(kind: &ApprovalKind) -> String {
    match kind {
        ApprovalKind::Exact { command } => format!("exact\0{command}"),
        ApprovalKind::Prefix { words } => format!("prefix\0{}", words.join("\0")),
        ApprovalKind::Directory { path } => format!("directory\0{}", path.display()),
        ApprovalKind::Reads { path } => format!("reads\0{}", path.display()),
        ApprovalKind::Code(ProjectCode { words, bound: None }) => format!("code\0{}", words.join("\0")),
        ApprovalKind::Code(ProjectCode { words, bound: Some(bound) }) => {
            let manifests = bound.manifests.iter().map(|manifest| {
                format!("{}\0{}\0", manifest.path.display(), manifest.hash.as_deref().unwrap_or_default())
            });
            let (count, manifests) = (bound.manifests.len(), manifests.collect::<String>());
            format!("bound-code\0{}\0{count}\0{manifests}{}", bound.directory.display(), words.join("\0"))
        }
        ApprovalKind::Tools { server, names } => {
            format!("tools\0{}\0{}", server.as_deref().unwrap_or_default(), names.join("\0"))
        }
    }
}

/// The approval behind a key.
pub(crate) fn from_key(key: &str) -> Option<ApprovalKind> {
    let (kind, rest) = key.split_once('\0')?;
    let texts = |rest: &str| rest.split('\0').map(str::to_owned).collect::<Vec<_>>();
    Some(match kind {
        "exact" => ApprovalKind::Exact { command: rest.to_owned() },
        "prefix" => ApprovalKind::Prefix { words: texts(rest) },
        "directory" => ApprovalKind::Directory { path: rest.into() },
        "reads" => ApprovalKind::Reads { path: rest.into() },
        "code" => ApprovalKind::Code(ProjectCode { words: texts(rest), bound: None }),
        "bound-code" => {
            let mut parts = rest.split('\0');
            let directory = parts.next()?.into();
            let count: usize = parts.next()?.parse().ok()?;
            let mut manifests = Vec::new();
            for _ in 0..count {
                let (path, hash) = (parts.next()?.into(), parts.next()?);
                manifests.push(Manifest { path, hash: (!hash.is_empty()).then(|| hash.to_owned()) });
            }
            let words: Vec<String> = parts.map(str::to_owned).collect();
            let is_whole = !words.is_empty() && !manifests.is_empty();
            is_whole.then_some(ApprovalKind::Code(ProjectCode {
                words,
                bound: Some(Bound { directory, manifests }),
            }))?
        }
        "tools" => {
            let (server, names) = rest.split_once('\0')?;
            ApprovalKind::Tools {
                server: (!server.is_empty()).then(|| server.to_owned()),
                names: texts(names),
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offered_approval_is_found_by_its_key() {
        for kind in [
            ApprovalKind::Exact { command: "ls\n$x".into() },
            ApprovalKind::Prefix { words: vec!["a b".into(), String::new(), "c".into()] },
            ApprovalKind::Directory { path: "/p/a b".into() },
            ApprovalKind::Reads { path: "/etc".into() },
            ApprovalKind::Code(ProjectCode { words: vec!["npm".into(), "test".into()], bound: None }),
            ApprovalKind::Code(ProjectCode {
                words: vec!["npm".into(), "a b".into()],
                bound: Some(Bound {
                    directory: "/p".into(),
                    manifests: vec![
                        Manifest { path: "/p/.npmrc".into(), hash: None },
                        Manifest { path: "/p/package.json".into(), hash: Some("ab".into()) },
                    ],
                }),
            }),
            ApprovalKind::Tools { server: None, names: vec!["mcp_a_b".into()] },
            ApprovalKind::Tools { server: Some("a".into()), names: vec!["mcp_a_b".into(), "mcp_a_c".into()] },
        ] {
            assert_eq!(from_key(&key(&kind)), Some(kind));
        }
    }
}

//! Targets of links that a terminal may open.

use std::fmt::Write;
use std::sync::Arc;

/// Maximum length of a target in bytes.
const MAX_TARGET_BYTES: usize = 2000;

/// Link target that is safe to pass to a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// A page, by its address.
    Web(Arc<str>),
    /// File path as written. Opened only inside of the workspace.
    File(Arc<str>),
}

impl Link {
    /// Parses a link target: an `http` or `https` address, or a path. Other schemes, such as `mailto`, could
    /// start a program without consent.
    pub(crate) fn of(target: &str) -> Option<Self> {
        if target.is_empty() || target.len() > MAX_TARGET_BYTES {
            return None;
        }
        let lower = target.get(..8.min(target.len())).unwrap_or_default().to_ascii_lowercase();
        if ["http://", "https://"].iter().any(|scheme| lower.starts_with(scheme)) {
            // Other characters would have to be encoded; an escape or a bell would end the sequence.
            let is_printable = target.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
            return is_printable.then(|| Self::Web(target.into()));
        }
        let path = match target.strip_prefix("file://") {
            // Without a leading slash, the first component would be the host.
            Some(path) => Some(path).filter(|path| path.starts_with('/'))?,
            None => target,
        };
        let path = path.split(['#', '?']).next().unwrap_or_default();
        let path = without_position(path);
        let is_plain = !path.contains(|c: char| c.is_control() || c == '\\' || c == ':');
        (!path.is_empty() && is_plain).then(|| Self::File(path.into()))
    }

    /// Address for the terminal; `None` for a file outside of `workspace`, an absolute directory.
    pub(crate) fn address(&self, workspace: Option<&str>) -> Option<Arc<str>> {
        match self {
            Self::Web(address) => Some(address.clone()),
            Self::File(path) => file_address(path, workspace?),
        }
    }
}

/// Path without a line and column suffix: `src/main.rs:12:3`.
fn without_position(path: &str) -> &str {
    let mut path = path;
    while let Some((before, number)) = path.rsplit_once(':') {
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        path = before;
    }
    path
}

/// File address of a path inside a directory. No component of the path may lead out of it.
fn file_address(path: &str, workspace: &str) -> Option<Arc<str>> {
    let workspace = workspace.trim_end_matches('/');
    let within = match path.strip_prefix('/') {
        None => path,
        Some(_) => path.strip_prefix(workspace)?.strip_prefix('/')?,
    };
    let mut address = String::from("file://");
    encode(workspace, &mut address);
    for part in within.split('/').filter(|part| *part != ".") {
        // An encoded dot or slash would be decoded when opened.
        let lower = part.to_ascii_lowercase();
        if matches!(part, "" | "..") || ["%2e", "%2f", "%5c"].iter().any(|code| lower.contains(code)) {
            return None;
        }
        address.push('/');
        encode(part, &mut address);
    }
    Some(address.into())
}

/// Appends a percent-encoded path. Existing encodings are kept.
fn encode(path: &str, out: &mut String) {
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'%' => {
                out.push(byte.into());
            }
            byte => _ = write!(out, "%{byte:02X}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(target: &str) -> Option<String> {
        Some(Link::of(target)?.address(Some("/proj/a b"))?.to_string())
    }

    #[test]
    fn only_pages_and_files_of_the_workspace_can_be_opened() {
        for (target, expected) in [
            ("https://a.b/c?d#e", Some("https://a.b/c?d#e")),
            ("HTTP://a.b", Some("HTTP://a.b")),
            ("src/main.rs", Some("file:///proj/a%20b/src/main.rs")),
            ("./src/main.rs:12:3", Some("file:///proj/a%20b/src/main.rs")),
            ("docs/é.md#part", Some("file:///proj/a%20b/docs/%C3%A9.md")),
            ("my%20notes.md", Some("file:///proj/a%20b/my%20notes.md")),
            ("/proj/a b/x.rs", Some("file:///proj/a%20b/x.rs")),
            ("file:///proj/a b/x.rs", Some("file:///proj/a%20b/x.rs")),
            ("/proj/a bc/x.rs", None),
            ("/etc/passwd", None),
            ("file:///etc/passwd", None),
            ("file://host/proj/a b/x.rs", None),
            ("../x.rs", None),
            ("src/../../x.rs", None),
            ("src/%2e%2e/%2E./x.rs", None),
            ("a%2f..%2fx", None),
            ("//host/x", None),
            ("mailto:a@b.c", None),
            ("javascript:alert(1)", None),
            ("vscode://file/x", None),
            ("https://a\u{1b}\\b", None),
            ("https://a b", None),
            ("a\u{7}b", None),
            ("", None),
            ("#part", None),
        ] {
            assert_eq!(address(target).as_deref(), expected, "{target:?}");
        }
        assert_eq!(Link::of("src/main.rs").unwrap().address(None), None, "without a workspace");
        assert_eq!(Link::of(&format!("https://{}", "a".repeat(MAX_TARGET_BYTES))), None);
    }
}

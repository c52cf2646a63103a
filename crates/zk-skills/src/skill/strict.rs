//! Strict validator for the specification, equivalent to the reference validator (`skills-ref`).

use std::path::Path;

use unicode_normalization::UnicodeNormalization;
use zk_core::service::{HostFiles, HostRead};

use super::yaml::{self, Node};

const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION: usize = 1024;
const MAX_COMPATIBILITY: usize = 500;

/// Largest `SKILL.md` that is validated, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// Fields of the specification.
const FIELDS: [&str; 6] = ["name", "description", "license", "allowed-tools", "metadata", "compatibility"];

/// Lists the reasons why the skill in `dir` is invalid; empty if it is valid.
///
/// The list agrees with `agentskills validate` of `skills-ref` case by case.
#[must_use]
pub fn validate(dir: &Path, files: &dyn HostFiles) -> Vec<String> {
    let found = ["SKILL.md", "skill.md"].into_iter().map(|name| dir.join(name)).find(|path| path.exists());
    let Some(file) = found else { return vec!["there is no SKILL.md".to_owned()] };
    let bytes = match files.read(&file, &HostRead::whole(MAX_BYTES)) {
        Ok(file) => file.bytes,
        Err(error) => return vec![format!("SKILL.md cannot be read: {error}")],
    };
    let Ok(text) = String::from_utf8(bytes) else { return vec!["SKILL.md is not UTF-8".to_owned()] };
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    validate_text(&text.replace("\r\n", "\n").replace('\r', "\n"), &name)
}

/// Validates the text of a file with Unix line ends.
fn validate_text(text: &str, directory: &str) -> Vec<String> {
    let one = |fault: &str| vec![fault.to_owned()];
    if !text.starts_with("---") {
        return one("it does not start with a frontmatter: a line of three dashes");
    }
    // Three dashes anywhere end it, even inside of a value.
    let mut parts = text.splitn(3, "---").skip(1);
    let (Some(yaml), Some(_)) = (parts.next(), parts.next()) else {
        return one("its frontmatter has no end: a second line of three dashes");
    };
    let document = match yaml::parse(yaml) {
        Ok(document) => document,
        Err(why) => return vec![format!("its frontmatter is no YAML: {why}")],
    };
    if !document.not_strict.is_empty() {
        let faults = document.not_strict.iter();
        return faults
            .map(|fault| format!("its frontmatter has what StrictYAML does not: {fault}"))
            .collect();
    }
    match document.root {
        Some(Node::Map(fields)) => field_faults(&fields, directory),
        Some(Node::Text(_) | Node::List(_)) | None => one("its frontmatter has no fields"),
    }
}

fn field_faults(fields: &[(String, Node)], directory: &str) -> Vec<String> {
    let get = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, node)| node);
    let mut faults = Vec::new();
    let mut unknown: Vec<&str> = fields.iter().map(|(key, _)| &**key).collect();
    unknown.retain(|key| !FIELDS.contains(key));
    if !unknown.is_empty() {
        unknown.sort_unstable();
        faults.push(format!("fields that the specification does not have: {}", unknown.join(", ")));
    }
    match get("name") {
        None => faults.push("`name` is missing".to_owned()),
        Some(Node::Text(name)) if !name.trim().is_empty() => {
            faults.extend(name_faults(name.trim(), directory))
        }
        Some(Node::Text(_) | Node::List(_) | Node::Map(_)) => faults.push("`name` must be a text".to_owned()),
    }
    match get("description") {
        None => faults.push("`description` is missing".to_owned()),
        Some(Node::Text(text)) if !text.trim().is_empty() => {
            faults.extend(too_long("description", text, MAX_DESCRIPTION));
        }
        Some(Node::Text(_) | Node::List(_) | Node::Map(_)) => {
            faults.push("`description` must be a text".to_owned());
        }
    }
    match get("compatibility") {
        None => {}
        Some(Node::Text(text)) => faults.extend(too_long("compatibility", text, MAX_COMPATIBILITY)),
        Some(Node::List(_) | Node::Map(_)) => faults.push("`compatibility` must be a text".to_owned()),
    }
    faults
}

fn too_long(field: &str, text: &str, limit: usize) -> Option<String> {
    let length = text.chars().count();
    (length > limit).then(|| format!("`{field}` has {length} characters, of which {limit} are allowed"))
}

/// Reasons why a skill's name is invalid in the directory `directory`; empty if it is valid. Both names are
/// normalised to NFKC first.
#[must_use]
pub fn name_faults(name: &str, directory: &str) -> Vec<String> {
    let (name, directory): (&str, &str) =
        (&name.nfkc().collect::<String>(), &directory.nfkc().collect::<String>());
    let mut faults = Vec::new();
    faults.extend(too_long("name", name, MAX_NAME_CHARS));
    if name != name.to_lowercase() {
        faults.push(format!("its name `{name}` is not in lower case"));
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push(format!("its name `{name}` begins or ends with a hyphen"));
    }
    if name.contains("--") {
        faults.push(format!("its name `{name}` has two hyphens in a row"));
    }
    if !name.chars().all(|c| c.is_alphanumeric() || c == '-') {
        faults.push(format!("its name `{name}` has other characters than letters, digits and hyphens"));
    }
    if name != directory {
        faults.push(format!("its name `{name}` is not that of its directory, `{directory}`"));
    }
    faults
}

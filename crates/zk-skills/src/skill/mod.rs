//! One skill: a directory with a `SKILL.md`, as it is found and read.

mod body;
mod bundle;
mod diagnostic;
pub(crate) mod frontmatter;
mod manifest;
pub(crate) mod markdown_fields;
pub(crate) mod scan;
mod strict;
pub(crate) mod tool_patterns;
mod yaml;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use zk_core::service::{FileOwner, HostFiles, HostRead, Overflow};

use crate::discovery::served_skills::Served;

pub use body::body;
pub use bundle::Bundle;
pub(crate) use bundle::BundleError;
pub use diagnostic::{Diagnostic, DiagnosticLevel};
pub use manifest::{MAX_DESCRIPTION, Manifest};
pub use strict::{name_faults, validate};

/// The fields of a frontmatter of any kind: texts and lists of texts. Empty where it is no YAML.
pub(crate) fn yaml_fields(text: &str) -> BTreeMap<String, Vec<String>> {
    use yaml::Node;
    let read = yaml::parse(text).ok().or_else(|| yaml::parse(&frontmatter::quote_values(text)?).ok());
    let Some(Node::Map(entries)) = read.and_then(|document| document.root) else { return BTreeMap::new() };
    let scalar = |node: Node| match node {
        Node::Text(text) => Some(text),
        Node::List(_) | Node::Map(_) => None,
    };
    let texts = |node| match node {
        Node::Text(text) => Some(vec![text]),
        Node::List(items) => Some(items.into_iter().filter_map(scalar).collect()),
        Node::Map(_) => None,
    };
    entries.into_iter().filter_map(|(key, node)| Some((key, texts(node)?))).collect()
}

/// Whether a frontmatter has exactly these fields with these values.
pub(crate) fn has_fields(yaml: &str, fields: &Value) -> bool {
    let Ok(document) = yaml::parse(yaml) else { return false };
    document.root.is_some_and(|root| root.says(fields))
}

/// The file that makes a directory a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// Bytes that are read to find the end of a frontmatter: first, and where that was too little.
const HEAD_BYTES: [usize; 2] = [4 * 1024, 64 * 1024];

/// Source of a skill. In this order the first of a name is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillSource {
    /// The project, from the working directory up to its root.
    Project,
    /// A directory that the settings name.
    Configured,
    /// The person's own directories.
    User,
    /// The program that embeds zk.
    Inline,
    /// zk itself.
    Builtin,
    /// An MCP server, or whoever else serves skills.
    Server,
}

impl SkillSource {
    /// The name as it is printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Configured => "configured",
            Self::User => "user",
            Self::Inline => "inline",
            Self::Builtin => "builtin",
            Self::Server => "server",
        }
    }
}

/// A skill, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Fields of the frontmatter.
    pub manifest: Manifest,
    /// Source of the skill.
    pub source: SkillSource,
    /// Directory of the skill, canonical; nothing for one that is no directory.
    pub dir: Option<PathBuf>,
    /// The name of its file in there, as it is written.
    pub file: String,
    /// The text of one that is no directory.
    pub inline: Option<Arc<str>>,
    /// Host and entry, for a skill that is served.
    pub served: Option<Arc<Served>>,
    /// Diagnostics that its author should know.
    pub diagnostics: Vec<Diagnostic>,
    /// The bytes of its frontmatter, which are all that counts until it is used.
    pub head: Arc<[u8]>,
}

impl Skill {
    /// Returns the skill's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// A skill of a program, whole in a text with a frontmatter.
    ///
    /// # Errors
    /// What keeps it from being used.
    pub fn inline(text: impl Into<Arc<str>>, source: SkillSource) -> Result<Self, Diagnostic> {
        let text = text.into();
        let parts = frontmatter::split(&text).ok_or_else(no_frontmatter)?;
        let mut diagnostics = Vec::new();
        let manifest = Manifest::read(parts.yaml, "", &mut diagnostics)?;
        let head = text.as_bytes().get(..parts.head).unwrap_or_default().into();
        // An inline skill is in no directory that it could differ from.
        diagnostics.retain(|fault: &Diagnostic| !fault.message.contains("directory"));
        let file = SKILL_FILE.to_owned();
        Ok(Self { manifest, source, dir: None, file, inline: Some(text), served: None, diagnostics, head })
    }

    /// A skill that is served, under the name of its host and its own.
    ///
    /// # Errors
    /// What keeps it from being used.
    pub(crate) fn served(served: Served) -> Result<Self, Diagnostic> {
        let mut diagnostics = Vec::new();
        let head: Arc<[u8]> = served.entry.frontmatter.to_string().into_bytes().into();
        // JSON is YAML.
        let mut manifest = Manifest::read(&String::from_utf8_lossy(&head), "", &mut diagnostics)?;
        manifest.name = format!("{}:{}", served.host, manifest.name);
        // The cost of a skill is not for a server to say.
        (manifest.model, manifest.thinking) = (None, None);
        let (source, served) = (SkillSource::Server, Some(Arc::new(served)));
        let (diagnostics, file) = (Vec::new(), SKILL_FILE.to_owned());
        Ok(Self { manifest, source, dir: None, file, inline: None, served, diagnostics, head })
    }
}

/// A file that makes a directory a skill, and who may have written it.
pub(crate) struct SkillFile {
    /// The directory, canonical.
    pub(crate) dir: PathBuf,
    /// The file's name, as it is written.
    pub(crate) name: String,
    pub(crate) source: SkillSource,
    /// The directory it may not lead out of.
    pub(crate) fence: Option<PathBuf>,
}

/// Reads the frontmatter of a skill, and nothing behind it.
///
/// # Errors
/// What keeps it from being used.
pub(crate) fn read_skill(file: &SkillFile, files: &dyn HostFiles) -> Result<Skill, Diagnostic> {
    let path = file.dir.join(&file.name);
    let name = file.dir.file_name().unwrap_or_default().to_string_lossy();
    let mut diagnostics = Vec::new();
    if file.name != SKILL_FILE {
        diagnostics.push(Diagnostic::warning(format!("its file is called {}, not {SKILL_FILE}", file.name)));
    }
    let mut head: Vec<u8> = Vec::new();
    for limit in HEAD_BYTES {
        let how = HostRead {
            max_bytes: limit,
            overflow: Overflow::Cut,
            own_only: file.source == SkillSource::Project,
            beneath: file.fence.clone(),
        };
        let read = files
            .read(&path, &how)
            .map_err(|error| Diagnostic::error(format!("{} cannot be read: {error}", file.name)))?;
        let text = String::from_utf8_lossy(&read.bytes);
        let is_clean = matches!(text, std::borrow::Cow::Borrowed(_));
        if let Some(parts) = frontmatter::split(&text) {
            if !is_clean && parts.yaml.contains('\u{fffd}') {
                diagnostics.push(Diagnostic::warning("its frontmatter has bytes that are no UTF-8"));
            }
            let manifest = Manifest::read(parts.yaml, &name, &mut diagnostics)?;
            head.extend_from_slice(text.as_bytes().get(..parts.head).unwrap_or_default());
            return Ok(Skill {
                manifest,
                source: file.source,
                dir: Some(file.dir.clone()),
                file: file.name.clone(),
                inline: None,
                served: None,
                diagnostics,
                head: head.into(),
            });
        }
        if !read.cut {
            return Err(no_frontmatter());
        }
    }
    Err(Diagnostic::error(format!("its frontmatter has no end within {} bytes", HEAD_BYTES[1])))
}

fn no_frontmatter() -> Diagnostic {
    Diagnostic::error(
        "it has no frontmatter: it must begin with a line of three dashes, and a second one ends it",
    )
}

/// Whether a directory belongs to the person, or to nobody else.
pub(crate) fn is_own(dir: &std::path::Path, files: &dyn HostFiles) -> bool {
    matches!(files.owner(dir), Ok(FileOwner::Trusted))
}

/// Returns the place of a skill, for messages.
#[must_use]
pub fn place(skill: &Skill) -> String {
    match &skill.dir {
        Some(dir) => dir.display().to_string(),
        None => format!("({})", skill.source.as_str()),
    }
}

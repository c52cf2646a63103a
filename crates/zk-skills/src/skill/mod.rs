//! A skill: a directory with a `SKILL.md`.

mod body;
mod bundle;
mod bundle_place;
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
use serde_json::{Value, json};
use zk_core::service::{FileOwner, HostFiles, HostRead, Overflow};

use crate::discovery::served_skills::Served;

pub use body::body;
pub use bundle::Bundle;
pub(crate) use bundle::BundleError;
pub use bundle_place::{BundleCommand, BundlePlace, BundleSkill};
pub use diagnostic::{Diagnostic, DiagnosticLevel};
pub use manifest::{MAX_DESCRIPTION, Manifest};
pub use strict::{name_faults, validate};

/// Fields of any frontmatter: texts and lists of texts. Empty for invalid YAML.
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

/// Whether a frontmatter has exactly these fields and values.
pub(crate) fn has_fields(yaml: &str, fields: &Value) -> bool {
    let Ok(document) = yaml::parse(yaml) else { return false };
    document.root.is_some_and(|root| root.equals_json(fields))
}

/// Name of the file that makes a directory a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// Bytes that are read to find the end of a frontmatter, in two attempts.
const HEAD_BYTES: [usize; 2] = [4 * 1024, 64 * 1024];

/// Source of a skill, in order of precedence for equal names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillSource {
    /// The project, from the working directory up to its root.
    Project,
    /// A directory from the settings.
    Configured,
    /// The person's own directories.
    User,
    /// A bundle that the person added.
    Bundle,
    /// The program that embeds zk.
    Inline,
    /// zk itself.
    Builtin,
    /// A server of skills, such as an MCP server.
    Server,
}

impl SkillSource {
    /// Name of the source, as printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Configured => "configured",
            Self::User => "user",
            Self::Bundle => "plugin",
            Self::Inline => "inline",
            Self::Builtin => "builtin",
            Self::Server => "server",
        }
    }
}

/// Skill without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Fields of the frontmatter.
    pub manifest: Manifest,
    /// Source of the skill.
    pub source: SkillSource,
    /// Canonical directory of the skill; `None` if it is not from a directory.
    pub dir: Option<PathBuf>,
    /// Name of the skill's file in its directory, in its actual case.
    pub file: String,
    /// Text of a skill that is not from a directory.
    pub inline: Option<Arc<str>>,
    /// Host and entry of a served skill.
    pub served: Option<Arc<Served>>,
    /// Bundle that contains the skill, if any.
    pub bundle: Option<Arc<BundlePlace>>,
    /// Diagnostics for the author of the skill.
    pub diagnostics: Vec<Diagnostic>,
    /// Bytes of its frontmatter, the only part that is needed until it is used.
    pub head: Arc<[u8]>,
}

impl Skill {
    /// Returns the skill's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Skill from a text with a frontmatter, provided by a program.
    ///
    /// # Errors
    /// A diagnostic if the skill cannot be used.
    pub fn inline(text: impl Into<Arc<str>>, source: SkillSource) -> Result<Self, Diagnostic> {
        let text = text.into();
        let parts = frontmatter::split(&text).ok_or_else(no_frontmatter)?;
        let mut diagnostics = Vec::new();
        let manifest = Manifest::read(parts.yaml, "", &mut diagnostics)?;
        let head = text.as_bytes().get(..parts.head).unwrap_or_default().into();
        // An inline skill has no directory whose name could differ.
        diagnostics.retain(|fault: &Diagnostic| !fault.message.contains("directory"));
        let (file, inline) = (SKILL_FILE.to_owned(), Some(text));
        Ok(Self { manifest, source, dir: None, file, inline, served: None, bundle: None, diagnostics, head })
    }

    /// Skill that a program or settings give in parts.
    ///
    /// # Errors
    /// [`Diagnostic`] with the reason for which the skill cannot be used.
    pub(crate) fn of_parts(name: &str, description: &str, text: &str) -> Result<Self, Diagnostic> {
        if let Some(fault) = name_faults(name, name).first() {
            let form =
                "give it a name of lower-case letters, digits and single hyphens, such as `release-notes`";
            return Err(Diagnostic::error(format!("{fault}: {form}")));
        }
        // A JSON string is one of YAML.
        let (named, about) = (json!(name).to_string(), json!(description).to_string());
        Self::inline(format!("---\nname: {named}\ndescription: {about}\n---\n{text}\n"), SkillSource::Inline)
    }

    /// Skill from a server, named after its host and itself.
    ///
    /// # Errors
    /// A diagnostic if the skill cannot be used.
    pub(crate) fn served(served: Served) -> Result<Self, Diagnostic> {
        let mut diagnostics = Vec::new();
        let head: Arc<[u8]> = served.entry.frontmatter.to_string().into_bytes().into();
        // JSON is valid YAML.
        let mut manifest = Manifest::read(&String::from_utf8_lossy(&head), "", &mut diagnostics)?;
        manifest.name = format!("{}:{}", served.host, manifest.name);
        // A server must not choose the model or thinking level, which affect the cost.
        (manifest.model, manifest.thinking) = (None, None);
        let (source, served) = (SkillSource::Server, Some(Arc::new(served)));
        let (diagnostics, file) = (Vec::new(), SKILL_FILE.to_owned());
        Ok(Self { manifest, source, dir: None, file, inline: None, served, bundle: None, diagnostics, head })
    }
}

/// File that makes a directory a skill, before it is read.
pub(crate) struct SkillFile {
    /// Canonical path of the directory.
    pub(crate) dir: PathBuf,
    /// Name of the file, in its actual case.
    pub(crate) name: String,
    pub(crate) source: SkillSource,
    /// Directory that links must not lead out of.
    pub(crate) fence: Option<PathBuf>,
}

/// Reads the frontmatter of a skill, and no more of the file.
///
/// # Errors
/// A diagnostic if the skill cannot be used.
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
                bundle: None,
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

/// Reads the frontmatter of a bundle's skill, whose name gets the bundle's as a prefix.
///
/// # Errors
/// A diagnostic if the skill cannot be used.
pub(crate) fn read_bundle_skill(part: &BundleSkill, files: &dyn HostFiles) -> Result<Skill, Diagnostic> {
    let file = SkillFile {
        dir: part.dir.clone(),
        name: SKILL_FILE.to_owned(),
        source: SkillSource::Bundle,
        fence: Some(part.place.root.clone()),
    };
    let mut skill = read_skill(&file, files)?;
    skill.manifest.name = format!("{}:{}", part.place.name, skill.manifest.name);
    skill.bundle = Some(part.place.clone());
    Ok(skill)
}

fn no_frontmatter() -> Diagnostic {
    Diagnostic::error(
        "it has no frontmatter: it must begin with a line of three dashes, and a second one ends it",
    )
}

/// Whether a directory belongs to the person or a trusted user.
pub(crate) fn is_own(dir: &std::path::Path, files: &dyn HostFiles) -> bool {
    matches!(files.owner(dir), Ok(FileOwner::Trusted))
}

/// Path or source of a skill, for messages.
#[must_use]
pub fn place(skill: &Skill) -> String {
    match &skill.dir {
        Some(dir) => dir.display().to_string(),
        None => format!("({})", skill.source.as_str()),
    }
}

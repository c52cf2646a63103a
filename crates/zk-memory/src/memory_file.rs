use std::path::{Path, PathBuf};

use zk_core::service::{HostFileError, HostFiles, HostRead, Overflow, Trust, TrustItem, TrustRequest};

use crate::fact::MAX_FACT_BYTES;
use crate::{FactScope, SyncedFile};

/// Name of the file with facts, in the root of a project and beside the person's settings.
pub const MEMORY_FILE: &str = "MEMORY.md";

/// Kind of the project's file in the trust store.
pub const TRUST_MEMORY: &str = "memory";

/// Size limit of the file in bytes.
const MAX_FILE_BYTES: usize = 256 << 10;

/// Maximum number of facts of a file.
const MAX_FILE_FACTS: usize = 1_000;

/// File with facts: of the person for every project, or of one project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Places in which its facts are recalled. A project's file counts once a person trusts its exact bytes.
    pub scope: FactScope,
}

/// Content of a file with facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// Texts of the facts.
    pub facts: Vec<String>,
    /// Reason for which the file, or a part of it, does not count.
    pub problem: Option<String>,
}

/// Bytes and facts of a project's file, for a person who decides about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFacts {
    /// Exact bytes of the file.
    pub bytes: Vec<u8>,
    /// Texts of the facts.
    pub facts: Vec<String>,
}

impl ProjectFacts {
    /// Question whether a person trusts the facts.
    #[must_use]
    pub fn trust_request(&self) -> TrustRequest {
        let text = format!(
            "Trust the facts in {MEMORY_FILE} of the project exactly as they are? They are told to the model where they fit."
        );
        TrustRequest { text, items: self.facts.clone(), details: Vec::new() }
    }
}

impl MemoryFile {
    /// The person's file, for every project.
    #[must_use]
    pub fn of_person(path: PathBuf) -> Self {
        Self { path, scope: FactScope::Everywhere }
    }

    /// File of the project with this canonical root.
    #[must_use]
    pub fn of_project(root: &Path) -> Self {
        Self { path: root.join(MEMORY_FILE), scope: FactScope::Project(root.to_owned()) }
    }

    /// Reads the facts that count now. A missing file has none; an unusable one is reported as a problem.
    #[must_use]
    pub fn read(&self, files: &dyn HostFiles, trust: Option<&dyn Trust>) -> FileFacts {
        let shown = self.path.display();
        let bytes = match self.read_bytes(files) {
            Ok(bytes) => bytes,
            Err(HostFileError::Missing) => return FileFacts::default(),
            Err(error) => {
                return FileFacts {
                    facts: Vec::new(),
                    problem: Some(format!("{shown} is not recalled: {error}")),
                };
            }
        };
        if let FactScope::Project(root) = &self.scope {
            let item = trust_item(root, &bytes);
            if !trust.is_some_and(|trust| trust.is_trusted(&item)) {
                let problem = format!(
                    "{shown} is not recalled: nobody approved it as it is now; `zk trust` shows it, `zk trust add` \
                     approves it"
                );
                return FileFacts { facts: Vec::new(), problem: Some(problem) };
            }
        }
        self.parse(&bytes)
    }

    /// Reads a project's file regardless of its approval; `None` if there is no usable one.
    #[must_use]
    pub fn of_project_untrusted(root: &Path, files: &dyn HostFiles) -> Option<ProjectFacts> {
        let file = Self::of_project(root);
        let bytes = file.read_bytes(files).ok()?;
        let facts = file.parse(&bytes).facts;
        (!facts.is_empty()).then_some(ProjectFacts { bytes, facts })
    }

    fn read_bytes(&self, files: &dyn HostFiles) -> Result<Vec<u8>, HostFileError> {
        let beneath = match &self.scope {
            FactScope::Project(root) => Some(root.clone()),
            FactScope::Everywhere => None,
        };
        let how = HostRead { max_bytes: MAX_FILE_BYTES, overflow: Overflow::Refuse, own_only: true, beneath };
        Ok(files.read(&self.path, &how)?.bytes)
    }

    fn parse(&self, bytes: &[u8]) -> FileFacts {
        let shown = self.path.display();
        let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')) else {
            return FileFacts {
                facts: Vec::new(),
                problem: Some(format!("{shown} is not recalled: it is no text in UTF-8")),
            };
        };
        let mut facts = facts_in(text);
        let count = facts.len();
        facts.retain(|fact| fact.len() <= MAX_FACT_BYTES);
        let long = count - facts.len();
        let mut problem = None;
        if long > 0 {
            let which = if long == 1 { "1 fact".to_owned() } else { format!("{long} facts") };
            problem = Some(format!(
                "{which} of {shown} longer than {MAX_FACT_BYTES} bytes are left out; shorten them"
            ));
        }
        if facts.len() > MAX_FILE_FACTS {
            facts.truncate(MAX_FILE_FACTS);
            problem = Some(format!("{shown} has more than {MAX_FILE_FACTS} facts; the rest is left out"));
        }
        FileFacts { facts, problem }
    }

    /// Facts of this file, as [`MemoryStore::sync`](crate::MemoryStore::sync) takes them.
    #[must_use]
    pub fn synced(&self, facts: Vec<String>) -> SyncedFile {
        SyncedFile { path: self.path.clone(), scope: self.scope.clone(), facts }
    }
}

/// Item of the trust store for exactly these bytes of a project's file.
#[must_use]
pub fn trust_item<'a>(root: &'a Path, bytes: &'a [u8]) -> TrustItem<'a> {
    TrustItem { project: root, kind: TRUST_MEMORY, name: MEMORY_FILE, bytes }
}

/// Facts of a Markdown text: each item of a list with its indented lines, and each paragraph. Headings and
/// comments of one line are left out.
fn facts_in(text: &str) -> Vec<String> {
    let mut facts: Vec<String> = Vec::new();
    let mut open: Option<String> = None;
    let mut is_code = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || trimmed.starts_with("```") {
            let fact = open.get_or_insert_default();
            fact.push('\n');
            fact.push_str(line.trim_end());
            continue;
        }
        let is_comment = trimmed.starts_with("<!--") && trimmed.ends_with("-->");
        if trimmed.is_empty() || trimmed.starts_with('#') || is_comment {
            facts.extend(open.take());
            continue;
        }
        match item_text(trimmed) {
            Some(item) => {
                facts.extend(open.take());
                open = Some(item.to_owned());
            }
            None => {
                let fact = open.get_or_insert_default();
                if !fact.is_empty() {
                    fact.push('\n');
                }
                fact.push_str(trimmed);
            }
        }
    }
    facts.extend(open);
    facts.into_iter().map(|fact| fact.trim().to_owned()).filter(|fact| !fact.is_empty()).collect()
}

/// Text of an item of a list.
fn item_text(line: &str) -> Option<&str> {
    if let Some(item) = ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark)) {
        return Some(item.trim());
    }
    let (number, item) = line.split_once(". ")?;
    let is_number =
        !number.is_empty() && number.len() <= 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| item.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_paragraphs_are_facts() {
        let text = "# Memory\n\nThe team is in Bern\nand in Basel.\n\n## Build\n- Use `make`\n  not `cmake`\n* Tests: `make check`\n\
                    1. First\n2. Second\n<!-- none -->\n\n```sh\nmake # all\n```\n";
        let wanted = [
            "The team is in Bern\nand in Basel.",
            "Use `make`\nnot `cmake`",
            "Tests: `make check`",
            "First",
            "Second",
            "```sh\nmake # all\n```",
        ];
        assert_eq!(facts_in(text), wanted);
        for empty in ["", "# Only a title\n", "\n\n", "- \n"] {
            assert!(facts_in(empty).iter().all(|fact| fact == "-"), "{empty:?}");
        }
    }
}

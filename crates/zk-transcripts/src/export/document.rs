use std::collections::BTreeMap;
use std::path::PathBuf;

use zk_core::model::Spending;
use zk_core::service::{Entry, EntryKind};

/// Facts about a session that the head of a document shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DocumentFacts {
    /// Id of the session, if it is stored.
    pub session: Option<String>,
    /// Title of the session.
    pub title: String,
    /// Working directory of the session.
    pub cwd: PathBuf,
    /// Parent session, if any.
    pub parent: Option<String>,
    /// Time of creation in milliseconds since 1970.
    pub created_ms: u64,
    /// Model to show if no answer names its model.
    pub model: Option<String>,
    /// Totals over the session.
    pub totals: Totals,
    /// Whether all branches are exported.
    pub tree: bool,
}

/// Totals over the entries of a session, computed before the document is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Number of messages.
    pub messages: u64,
    /// Tokens and cost.
    pub spending: Spending,
    /// Answers by model.
    pub models: BTreeMap<String, u64>,
    /// Time of the last entry in milliseconds since 1970.
    pub last_ms: u64,
}

impl Totals {
    /// Adds an entry.
    pub fn add(&mut self, entry: &Entry) {
        self.last_ms = self.last_ms.max(entry.time_ms);
        if let EntryKind::Message { message, usage } = &entry.kind {
            self.messages += 1;
            let model = message.origin.as_ref().or_else(|| usage.as_ref().map(|usage| &usage.model));
            if let Some(model) = model {
                *self.models.entry(model.to_string()).or_default() += 1;
            }
        }
        if let (EntryKind::Message { .. } | EntryKind::Usage { .. }, Some(usage)) =
            (&entry.kind, entry.kind.usage())
        {
            self.spending.add(usage);
        }
    }
}

/// Limits of a document. Whatever exceeds one is left out, and the document says how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Lines of one result.
    pub result_lines: usize,
    /// Bytes of one result.
    pub result_bytes: usize,
    /// Bytes of one text.
    pub text_bytes: usize,
    /// Bytes of one image, in base64.
    pub image_bytes: usize,
    /// Bytes of all images, in base64.
    pub all_image_bytes: usize,
    /// Bytes of entries in one run that are held in memory at once.
    pub run_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            result_lines: 2000,
            result_bytes: 256 << 10,
            text_bytes: 1 << 20,
            image_bytes: 4 << 20,
            all_image_bytes: 24 << 20,
            run_bytes: 32 << 20,
        }
    }
}

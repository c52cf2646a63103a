use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use zk_core::model::SessionId;
use zk_core::service::{ENTRY_VERSION, Entry, Redactor};

use super::read::{MAX_PACK_BYTES, MAX_UNPACKED_BYTES, PackError, is_blob_id};
use super::{PACK_VERSION, Pack, PackNotes, PackVersions};

/// Sizes up to which blobs are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackLimits {
    /// Largest blob in bytes.
    pub blob_bytes: usize,
    /// Largest sum of all blobs in bytes.
    pub all_blobs_bytes: usize,
}

impl Default for PackLimits {
    fn default() -> Self {
        Self { blob_bytes: 2 << 20, all_blobs_bytes: 16 << 20 }
    }
}

impl Pack {
    /// Packs entries and settings without their secrets.
    #[must_use]
    pub fn of(
        session: SessionId,
        entries: &[Entry],
        settings: &[String],
        versions: PackVersions,
        redactor: &Redactor,
        limits: PackLimits,
    ) -> Self {
        Self::with_blobs(session, entries, settings, versions, redactor, limits, |_| None)
    }

    /// Packs like [`Pack::of`], with the blobs that the entries name; `blob` reads one.
    #[must_use]
    pub fn with_blobs(
        session: SessionId,
        entries: &[Entry],
        settings: &[String],
        versions: PackVersions,
        redactor: &Redactor,
        limits: PackLimits,
        mut blob: impl FnMut(&str) -> Option<Vec<u8>>,
    ) -> Self {
        let (mut kept, mut redacted, mut unreadable) = (Vec::with_capacity(entries.len()), 0, 0);
        let mut named = BTreeMap::new();
        for entry in entries {
            let Ok(mut value) = serde_json::to_value(entry) else {
                unreadable += 1;
                continue;
            };
            named_blobs(&value, &mut named);
            let is_redacted = value.get_mut("kind").is_some_and(|kind| redactor.redact_value(kind));
            if !is_redacted {
                kept.push(entry.clone());
                continue;
            }
            redacted += 1;
            match serde_json::from_value(value) {
                Ok(clean) => kept.push(clean),
                Err(_) => unreadable += 1,
            }
        }
        let mut pack = Self {
            zkpack: PACK_VERSION,
            versions: PackVersions { entries: ENTRY_VERSION.to_owned(), ..versions },
            session,
            notes: PackNotes::default(),
            settings: settings.iter().map(|line| redactor.redact(line).into_owned()).collect(),
            problem: None,
            entries: kept,
            blobs: BTreeMap::new(),
        };
        let (mut total, mut too_large, mut missing) = (0, 0, 0);
        for (id, is_output) in named {
            let Some(bytes) = blob(&id) else {
                missing += usize::from(is_output);
                continue;
            };
            if bytes.len() > limits.blob_bytes || total + bytes.len() > limits.all_blobs_bytes {
                too_large += 1;
                continue;
            }
            total += bytes.len();
            // Text may hold a secret, also between bytes that are no text; an image is kept as it is.
            let bytes = match String::from_utf8(bytes) {
                Err(error) if is_image(error.as_bytes()) => error.into_bytes(),
                text_or_bytes => {
                    let mut text = text_or_bytes
                        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
                    redacted += usize::from(redactor.redact_string(&mut text));
                    text.into_bytes()
                }
            };
            pack.blobs.insert(id, STANDARD.encode(bytes));
        }
        pack.add_notes(redacted, unreadable, too_large, missing);
        pack
    }

    /// Adds what the person says about the problem, without secrets.
    #[must_use]
    pub fn about(mut self, problem: &str, redactor: &Redactor) -> Self {
        let problem = redactor.redact(problem.trim()).into_owned();
        self.problem = Some(problem).filter(|text| !text.is_empty());
        self
    }

    fn add_notes(&mut self, redacted: usize, unreadable: usize, too_large: usize, missing: usize) {
        let contains = &mut self.notes.contains;
        contains.push(format!(
            "the conversation: {} with prompts, answers, arguments and results, and the paths in them",
            format_count(self.entries.len(), "entry", "entries")
        ));
        if !self.settings.is_empty() {
            contains.push(format!("{} in effect", format_count(self.settings.len(), "setting", "settings")));
        }
        if !self.blobs.is_empty() {
            contains.push(format_count(self.blobs.len(), "stored output", "stored outputs"));
        }
        contains.push(format!("the version of zk ({})", self.versions.program));
        let left_out = &mut self.notes.left_out;
        left_out.push("other branches of the session: only the present one is here".to_owned());
        left_out.push("keys, sign-ins and settings that are secrets".to_owned());
        if redacted > 0 {
            left_out.push(format!("secrets in {}", format_count(redacted, "place", "places")));
        }
        if unreadable > 0 {
            left_out
                .push(format!("{} that could not be written", format_count(unreadable, "entry", "entries")));
        }
        if too_large > 0 {
            left_out.push(format!(
                "{} too large",
                format_count(too_large, "stored output that is", "stored outputs that are")
            ));
        }
        if missing > 0 {
            left_out.push(format!(
                "{} gone",
                format_count(missing, "stored output that is", "stored outputs that are")
            ));
        }
        left_out.push("files of the project, beyond what the conversation quotes".to_owned());
    }

    /// Returns the bytes of the file.
    ///
    /// # Errors
    /// [`PackError::TooLarge`] when the session is too large for a pack.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PackError> {
        let json = serde_json::to_vec(self).map_err(|error| PackError::Damaged(error.to_string()))?;
        if json.len() as u64 > MAX_UNPACKED_BYTES {
            return Err(PackError::TooLarge { limit: MAX_UNPACKED_BYTES });
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let written = encoder.write_all(&json).and_then(|()| encoder.finish());
        let bytes = written.map_err(|error| PackError::Damaged(error.to_string()))?;
        if bytes.len() > MAX_PACK_BYTES {
            return Err(PackError::TooLarge { limit: MAX_PACK_BYTES as u64 });
        }
        Ok(bytes)
    }
}

/// Whether bytes begin like a PNG, JPEG, GIF or WebP file.
fn is_image(bytes: &[u8]) -> bool {
    let signs: [&[u8]; 4] = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a"];
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    is_webp || signs.iter().any(|sign| bytes.starts_with(sign))
}

fn format_count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Words before the id of a stored output, where a result names one.
const OUTPUT_NAME: &str = "output:";

/// Field of a call's arguments that names a stored output.
const OUTPUT_FIELD: &str = "handle";

/// Collects words of 64 hexadecimal digits, which may be ids of blobs, and whether they are named as stored outputs.
fn named_blobs(value: &Value, named: &mut BTreeMap<String, bool>) {
    match value {
        Value::String(text) => {
            let is_part = |c: char| c.is_ascii_alphanumeric();
            let mut before = "";
            for piece in text.split_inclusive(|c: char| !is_part(c)) {
                let word = piece.trim_end_matches(|c: char| !is_part(c));
                if is_blob_id(word) {
                    *named.entry(word.to_owned()).or_default() |= before == OUTPUT_NAME;
                }
                if !word.is_empty() {
                    before = piece;
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| named_blobs(item, named)),
        Value::Object(fields) => {
            for (name, field) in fields {
                named_blobs(field, named);
                let is_output = name == OUTPUT_FIELD;
                if let Some(named) = field.as_str().filter(|_| is_output).and_then(|id| named.get_mut(id)) {
                    *named = true;
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

//! Selects the images and documents that a provider accepts, and makes placeholders for the rest.

use super::{DOCUMENT_FOLLOWS, IMAGE_FOLLOWS, IMAGE_OMITTED, WireRules};
use crate::model::{Block, ToolContent, ToolResult};

/// Maximum number of characters of a file name or media type that a placeholder shows to the model.
const MAX_NAME_CHARS: usize = 100;

/// Media types that a provider accepts. Each entry is one type, such as `image/png`, or a prefix and a star,
/// such as `text/*`.
///
/// ```
/// use zk_core::model::MediaTypes;
///
/// let documents = &["application/pdf", "text/*"];
/// let media = MediaTypes { images: MediaTypes::WEB, documents, largest_image: Some(4) };
/// assert!(media.takes_document("text/plain; charset=utf-8"));
/// assert!(!media.takes_image("image/svg+xml"));
/// assert!(media.is_too_large("aGVsbG8="));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaTypes {
    /// Accepted types of images.
    pub images: &'static [&'static str],
    /// Accepted types of documents.
    pub documents: &'static [&'static str],
    /// Size limit of an image in base64 bytes; `None` if no limit is known.
    pub largest_image: Option<usize>,
}

impl MediaTypes {
    /// Accepts every media type.
    pub const ANY: Self = Self { images: &["*"], documents: &["*"], largest_image: None };
    /// Image types that browsers show, and with them most services accept.
    pub const WEB: &[&str] = &["image/gif", "image/jpeg", "image/png", "image/webp"];

    /// Whether an image of this type is accepted.
    #[must_use]
    pub fn takes_image(&self, media_type: &str) -> bool {
        matches_any(self.images, media_type)
    }

    /// Whether an image with this base64 data exceeds the size limit.
    #[must_use]
    pub fn is_too_large(&self, data: &str) -> bool {
        self.largest_image.is_some_and(|largest| data.len() > largest)
    }

    /// Whether a document of this type is accepted.
    #[must_use]
    pub fn takes_document(&self, media_type: &str) -> bool {
        matches_any(self.documents, media_type)
    }
}

fn matches_any(known: &[&str], media_type: &str) -> bool {
    let plain = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    known.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => plain.starts_with(start),
        None => plain == *known,
    })
}

/// Returns the placeholder for an image or document that is not sent; `None` for a block that is sent.
pub(super) fn placeholder_for(block: &Block, rules: &WireRules) -> Option<String> {
    match block {
        Block::Image(_) if !rules.vision => Some(IMAGE_OMITTED.to_owned()),
        Block::Image(image) if !rules.media.takes_image(&image.media_type) => {
            Some(format!("[image omitted: {} is not taken here]", sanitise_name(&image.media_type)))
        }
        Block::Image(image) if rules.media.is_too_large(&image.data) => {
            let largest = rules.media.largest_image.unwrap_or_default();
            let (size, most) = (base64_megabytes(image.data.len()), base64_megabytes(largest));
            Some(format!(
                "[image omitted: it has {size:.2} MB, and no more than {most:.2} MB are taken here]"
            ))
        }
        // A model without vision can still read a text document.
        Block::Document(document)
            if rules.media.takes_document(&document.media_type) && (rules.vision || document.is_text()) =>
        {
            None
        }
        Block::Document(document) => {
            let name =
                document.name.as_deref().map(|name| format!(" {}", sanitise_name(name))).unwrap_or_default();
            Some(format!(
                "[document{name} omitted: {} is not taken here]",
                sanitise_name(&document.media_type)
            ))
        }
        Block::Image(_)
        | Block::Text(_)
        | Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Thinking(_)
        | Block::Compaction(_)
        | Block::Provider(_) => None,
    }
}

/// Returns the size in megabytes of data with this many base64 bytes.
fn base64_megabytes(encoded: usize) -> f64 {
    encoded as f64 * 0.75 / 1e6
}

/// Sanitises an untrusted name to one short line.
fn sanitise_name(name: &str) -> String {
    let shown: String = name.chars().filter(|char| !char.is_control()).take(MAX_NAME_CHARS).collect();
    if shown.trim().is_empty() { "one of no type".to_owned() } else { shown }
}

/// Takes images and documents out of a result that may not carry them: returned to be sent after all results,
/// or left out if not accepted at all. `None` if the result may stay unchanged.
pub(super) fn take_media_out(result: &ToolResult, rules: &WireRules) -> Option<(ToolResult, Vec<Block>)> {
    let ToolContent::Blocks(blocks) = &result.content else { return None };
    let may_stay = rules.image_in_tool_result && !result.is_error;
    let mut moved = Vec::new();
    let mut is_changed = false;
    let mut kept = Vec::with_capacity(blocks.len());
    for block in blocks {
        let follows = match block {
            Block::Image(_) => IMAGE_FOLLOWS,
            Block::Document(_) => DOCUMENT_FOLLOWS,
            Block::Text(_)
            | Block::ToolCall(_)
            | Block::ToolResult(_)
            | Block::Thinking(_)
            | Block::Compaction(_)
            | Block::Provider(_) => {
                kept.push(block.clone());
                continue;
            }
        };
        match placeholder_for(block, rules) {
            None if may_stay => {
                kept.push(block.clone());
                continue;
            }
            None => {
                moved.push(block.clone());
                kept.push(Block::text(follows));
            }
            Some(text) => kept.push(Block::text(text)),
        }
        is_changed = true;
    }
    let result = ToolResult { content: ToolContent::Blocks(kept), ..result.clone() };
    is_changed.then_some((result, moved))
}

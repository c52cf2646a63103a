//! Text documents, for services that accept documents only as text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zk_core::model::Document;

/// Placeholder for a document that cannot be decoded as text.
const UNREADABLE: &str = "[this document cannot be read as text]";

/// Returns the text of a text document.
pub(crate) fn text(document: &Document) -> Option<String> {
    if !document.is_text() {
        return None;
    }
    let bytes = STANDARD.decode(document.data.trim()).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.filter(|text| !text.trim().is_empty()).map(|text| text.replace('\0', "\u{fffd}"));
    Some(text.unwrap_or_else(|| UNREADABLE.to_owned()))
}

/// Returns the text of a text document below its name, to be put among other text.
pub(crate) fn inlined(document: &Document) -> Option<String> {
    let text = text(document)?;
    let name = document.name.as_deref().map(|name| name.replace(char::is_control, " "));
    Some(match name {
        Some(name) => format!("[document {name}]\n{text}"),
        None => format!("[document]\n{text}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(media_type: &str, name: Option<&str>, data: &str) -> Document {
        Document { media_type: media_type.into(), name: name.map(str::to_owned), data: data.into() }
    }

    #[test]
    fn only_text_is_decoded_and_other_content_becomes_a_placeholder() {
        let read = |media_type, data| text(&document(media_type, None, data));
        assert_eq!(read("text/plain", "w6Q=").as_deref(), Some("ä"));
        assert_eq!(read("Text/CSV; charset=utf-8", "YQBi\n").as_deref(), Some("a\u{fffd}b"));
        for broken in ["no base64!", "/w==", "", "IA=="] {
            assert_eq!(read("text/plain", broken).as_deref(), Some(UNREADABLE), "{broken:?}");
        }
        assert_eq!(read("application/pdf", "YQ=="), None);
    }

    #[test]
    fn a_document_among_text_is_named() {
        let notes = document("text/markdown", Some("no\ntes.md"), "YQ==");
        assert_eq!(inlined(&notes).as_deref(), Some("[document no tes.md]\na"));
    }
}

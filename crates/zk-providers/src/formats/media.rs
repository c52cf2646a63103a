use super::error::FormatError;
use super::node::Node;

/// The type and the base64 of a `data:` URL.
pub(super) fn inline(url: &Node<'_>) -> Result<(String, String), FormatError> {
    let text = url.text()?;
    let parts = text.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let (media_type, data) = parts.ok_or_else(|| match text.split_once(':') {
        Some(("data", _)) => url.unsupported("its bytes are not in base64: write them so"),
        Some(("http" | "https" | "file" | "gs" | "s3", _)) => url.unsupported(
            "it is an address, and a history holds bytes: fetch them and put them here as base64",
        ),
        Some(_) | None => url.unexpected("a URL that begins with `data:`"),
    })?;
    Ok((media_type.to_owned(), data.to_owned()))
}

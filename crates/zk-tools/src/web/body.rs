//! Conversion of a page for a model.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::{Encoding, UTF_8};
use zk_core::model::{Block, Document, Image, MediaTypes, ToolContent, ToolError};

use super::get::Page;
use super::{html, named};
use crate::text::{is_binary, size};
use crate::tool_names::ToolNames;

/// Bytes at the beginning of a page in which its encoding may be declared.
const DECLARED_WITHIN: usize = 2_048;

/// Content of a page: text, an image or a document.
pub(super) fn content(page: &Page, raw: bool, tools: &ToolNames) -> Result<ToolContent, ToolError> {
    let kind = page.content_type.split(';').next().unwrap_or_default().trim();
    if MediaTypes::WEB.contains(&kind) && !page.is_cut {
        let image = Image::new(kind, STANDARD.encode(&page.bytes));
        return Ok(ToolContent::Blocks(vec![Block::text(heading(page)), Block::Image(image)]));
    }
    if kind == "application/pdf" && !page.is_cut {
        let name = page.url.path_segments().and_then(Iterator::last).map(str::to_owned);
        let document = Document { media_type: kind.to_owned(), name, data: STANDARD.encode(&page.bytes) };
        return Ok(ToolContent::Blocks(vec![Block::text(heading(page)), Block::Document(document)]));
    }
    if !is_text(kind) || is_binary(&page.bytes) {
        let kind = if kind.is_empty() { "binary data" } else { kind };
        return Err(ToolError::failed(format!(
            "`{}` is {kind} of {}, which cannot be shown{}",
            named(&page.url),
            size(page.bytes.len() as u64),
            tools.advise("shell", |shell| format!("; `curl -o FILE` in {shell} keeps it in a file"))
        )));
    }
    let text = decode(&page.bytes, &page.content_type);
    let is_html = matches!(kind, "text/html" | "application/xhtml+xml")
        || (kind.is_empty() && text.trim_start().starts_with('<'));
    let (title, text) = if is_html && !raw {
        let page = html::to_markdown(&text, &page.url);
        (page.title, page.text)
    } else {
        (None, text)
    };
    let mut shown = heading(page);
    shown.extend(title.map(|title| format!("\n# {title}")));
    shown.push('\n');
    shown.push_str(if text.trim().is_empty() {
        "(the page has no text; it may need a browser)"
    } else {
        text.trim_end()
    });
    if page.is_cut {
        shown
            .push_str(&format!("\n[cut: no more than {} of a page are read]", size(page.bytes.len() as u64)));
    }
    Ok(ToolContent::Text(shown))
}

fn heading(page: &Page) -> String {
    let kind = if page.content_type.is_empty() { "no type" } else { page.content_type.as_str() };
    format!("[{}, {kind}, {}]", page.url, size(page.bytes.len() as u64))
}

fn is_text(kind: &str) -> bool {
    kind.is_empty()
        || kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || matches!(
            kind,
            "application/json"
                | "application/xml"
                | "application/javascript"
                | "application/x-javascript"
                | "application/x-ndjson"
                | "application/toml"
                | "application/yaml"
                | "application/x-yaml"
                | "application/x-sh"
                | "application/sql"
        )
}

/// Decodes text in the encoding that the server or the page declares; UTF-8 by default.
fn decode(bytes: &[u8], content_type: &str) -> String {
    let start = bytes.get(..bytes.len().min(DECLARED_WITHIN)).unwrap_or_default();
    let named =
        charset(content_type).or_else(|| charset(&String::from_utf8_lossy(start).to_ascii_lowercase()));
    let encoding = named.unwrap_or(UTF_8);
    let (text, _, _) = encoding.decode(bytes);
    text.into_owned()
}

/// Encoding after `charset=`.
fn charset(text: &str) -> Option<&'static Encoding> {
    let (_, rest) = text.split_once("charset")?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = rest
        .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | ':' | '.'))
        .unwrap_or(rest.len());
    Encoding::for_label(rest.get(..end)?.as_bytes())
}

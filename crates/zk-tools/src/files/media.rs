//! Non-text files that a model can see.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zk_core::model::{Block, Display, Document, Image, ToolContent, ToolError, ToolOutput};

use crate::files::pdf;
use crate::text::{count, size};
use crate::tool_names::ToolNames;
use crate::tool_support::io_error;

/// Bytes at the beginning of a file that identify its kind.
pub(crate) const START: usize = 16;

/// Largest image that is shown, in bytes.
const IMAGE_BYTES: u64 = 8 << 20;

/// Largest width or height of an image in pixels; providers reject requests with larger ones.
const IMAGE_PIXELS: u32 = 8_000;

/// Largest document that is shown, in bytes.
const DOCUMENT_BYTES: u64 = 20 << 20;

/// Kind of file that is passed to the model unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Image(&'static str),
    Pdf,
}

impl Media {
    /// Kind of a file that begins with `start`.
    pub(crate) fn of(start: &[u8]) -> Option<Self> {
        Some(match start {
            [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Self::Image("image/png"),
            [0xff, 0xd8, 0xff, ..] => Self::Image("image/jpeg"),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Self::Image("image/gif"),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Self::Image("image/webp"),
            [b'%', b'P', b'D', b'F', b'-', ..] => Self::Pdf,
            _ => return None,
        })
    }

    /// Content of the file for the model, or a line with the reason why it is not shown and advice.
    pub(crate) fn show(
        self,
        shown: &str,
        len: u64,
        file: &mut dyn Read,
        tools: &ToolNames,
    ) -> Result<(ToolOutput, Vec<u8>), ToolError> {
        let (kind, most, smaller) = match self {
            Self::Image(kind) => {
                (kind, IMAGE_BYTES, tools.advise("shell", |shell| format!("; make it smaller with {shell}")))
            }
            Self::Pdf => (
                "application/pdf",
                DOCUMENT_BYTES,
                tools.advise("shell", |shell| {
                    format!("; take pages or text out of it with {shell} (pdftotext, qpdf)")
                }),
            ),
        };
        let marker = |why: String| {
            let text = format!("[`{shown}` is {kind} of {}, not shown: {why}{smaller}]", size(len));
            (ToolOutput::text(text.clone()).with_display(Display::Line { text }), Vec::new())
        };
        if len > most {
            return Ok(marker(format!("no more than {} are shown", size(most))));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
        file.take(most + 1).read_to_end(&mut bytes).map_err(|error| io_error("read", shown, &error))?;
        let (block, extent) = match self {
            Self::Image(kind) => {
                let extent = dimensions(&bytes);
                if let Some((width, height)) = extent
                    && width.max(height) > IMAGE_PIXELS
                {
                    return Ok(marker(format!(
                        "it has {width}×{height} pixels, and {IMAGE_PIXELS} are the most"
                    )));
                }
                let extent = extent.map(|(width, height)| format!(", {width}×{height}"));
                (Block::Image(Image::new(kind, STANDARD.encode(&bytes))), extent.unwrap_or_default())
            }
            Self::Pdf => {
                let name = shown.rsplit('/').next().map(str::to_owned);
                let data = STANDARD.encode(&bytes);
                let pages = pdf::pages(&bytes).map(|pages| format!(", {}", count(pages as usize, "page")));
                let text = tools.advise("shell", |shell| {
                    format!("; where it cannot be shown, `pdftotext FILE -` in {shell} gives its text")
                });
                let hint = format!("{}{text}", pages.unwrap_or_default());
                (Block::Document(Document { media_type: kind.to_owned(), name, data }), hint)
            }
        };
        let line = format!("`{shown}`: {kind}, {}{extent}", size(bytes.len() as u64));
        let content = ToolContent::Blocks(vec![Block::text(format!("[{line}]")), block]);
        Ok((ToolOutput { content, display: Some(Display::Line { text: line }), details: None }, bytes))
    }
}

/// Width and height of an image, from its header.
fn dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    let big = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into());
    let little = |at: usize| Some(u32::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let whole = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    match Media::of(bytes.get(..START)?)? {
        Media::Image("image/png") => Some((whole(16)?, whole(20)?)),
        Media::Image("image/gif") => Some((little(6)?, little(8)?)),
        Media::Image("image/jpeg") => {
            // JPEG segments: marker, length, content. The first frame segment contains the size.
            let mut at = 2_usize;
            loop {
                let [0xff, mark] = *bytes.get(at..at + 2)? else { return None };
                if matches!(mark, 0xc0..=0xcf) && !matches!(mark, 0xc4 | 0xc8 | 0xcc) {
                    return Some((big(at + 7)?, big(at + 5)?));
                }
                let length: u32 = big(at + 2)?;
                at = at.checked_add(2)?.checked_add(usize::try_from(length).ok()?.max(2))?;
            }
        }
        Media::Image(_) => match bytes.get(12..16)? {
            b"VP8X" => {
                let part = |at: usize| {
                    let [a, b, c] = *bytes.get(at..at + 3)? else { return None };
                    Some(u32::from_le_bytes([a, b, c, 0]) + 1)
                };
                Some((part(24)?, part(27)?))
            }
            b"VP8 " => Some((little(26)? & 0x3fff, little(28)? & 0x3fff)),
            b"VP8L" => {
                let packed = u32::from_le_bytes(bytes.get(21..25)?.try_into().ok()?);
                Some(((packed & 0x3fff) + 1, ((packed >> 14) & 0x3fff) + 1))
            }
            _ => None,
        },
        Media::Pdf => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_an_image_is_read_from_its_header() {
        let png =
            [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &640_u32.to_be_bytes(), &480_u32.to_be_bytes()]
                .concat();
        assert_eq!(dimensions(&png), Some((640, 480)));
        let gif = [b"GIF89a".as_slice(), &3_u16.to_le_bytes(), &5_u16.to_le_bytes(), &[0; 8]].concat();
        assert_eq!(dimensions(&gif), Some((3, 5)));
        let jpeg =
            b"\xff\xd8\xff\xe0\0\x06JFIF\xff\xc0\0\x0b\x08\x01\xe0\x02\x80\x01\x01\x11\0\xff\xd9".as_slice();
        assert_eq!(dimensions(jpeg), Some((640, 480)));
        let webp =
            [b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0".as_slice(), &[0x7f, 2, 0], &[0xdf, 1, 0]].concat();
        assert_eq!(dimensions(&webp), Some((640, 480)));
        assert_eq!(dimensions(b"\xff\xd8\xff\xe0\xff\xff and then nothing"), None);
        assert_eq!(dimensions(b""), None);
    }
}

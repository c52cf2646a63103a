use zk_core::model::Image;

use super::escape::group_digits;
use crate::Limits;

/// Media types that a browser shows without running anything.
const SHOWN_MEDIA_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Images of a page, within its limits.
#[derive(Debug, Default)]
pub(super) struct Images {
    bytes: usize,
}

impl Images {
    /// Appends an image, or a remark in its place.
    pub(super) fn push(&mut self, out: &mut String, image: &Image, limits: &Limits) {
        let size = image.data.len();
        let is_base64 =
            image.data.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
        let reason = match SHOWN_MEDIA_TYPES.iter().find(|kind| **kind == image.media_type) {
            None => Some("of a kind that is not shown".to_owned()),
            Some(_) if !is_base64 => Some("that is damaged".to_owned()),
            Some(_) if size > limits.image_bytes || self.bytes + size > limits.all_image_bytes => {
                Some(format!("of {} KB is left out", group_digits(size as u64 * 3 / 4 / 1024)))
            }
            Some(kind) => {
                self.bytes += size;
                out.push_str("<img alt=\"image of the conversation\" src=\"data:");
                out.push_str(kind);
                out.push_str(";base64,");
                out.push_str(&image.data);
                out.push_str("\">");
                None
            }
        };
        if let Some(reason) = reason {
            out.push_str("<p class=\"left-out\">An image ");
            out.push_str(&reason);
            out.push_str(".</p>");
        }
    }
}

//! Images that a person attached to what is typed.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zk_core::model::{Block, Image};
use zk_core::service::{HostFiles, HostRead};

/// Maximum size of an image in bytes: most providers refuse larger ones.
pub(crate) const MAX_IMAGE_BYTES: usize = 5 << 20;

/// Maximum size of all images attached in a conversation, in bytes of base64.
const MAX_ATTACHED_BYTES: usize = 256 << 20;

/// Attached images by their marks in a text. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attachments(Arc<Mutex<Vec<(String, Image)>>>);

impl Attachments {
    /// Reads an image file and returns its mark, or the reason for a refusal.
    pub(crate) fn add(&self, files: &dyn HostFiles, cwd: &Path, path: &str) -> Result<String, String> {
        let file = cwd.join(path);
        let cannot = |why: &str| format!("cannot attach {}: {why}", file.display());
        let read = files.read(&file, &HostRead::whole(MAX_IMAGE_BYTES));
        let bytes = read.map_err(|error| cannot(&error.to_string()))?.bytes;
        let media_type = media_type(&bytes).ok_or_else(|| cannot("it is no PNG, JPEG, GIF or WebP image"))?;
        let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
        self.attach(&name.unwrap_or_default(), media_type, &bytes).map_err(|why| cannot(&why))
    }

    /// Attaches image bytes without a file and returns the mark, or the reason for a refusal.
    pub(crate) fn add_unnamed(&self, bytes: &[u8]) -> Result<String, String> {
        if bytes.len() > MAX_IMAGE_BYTES {
            let (has, most) = (bytes.len().div_ceil(1 << 20), MAX_IMAGE_BYTES >> 20);
            return Err(format!("the image has {has} MiB, and models take {most}: make it smaller"));
        }
        let media_type = media_type(bytes).ok_or("the image is no PNG, JPEG, GIF or WebP")?;
        let name =
            png_size(bytes).map_or("clipboard".to_owned(), |(width, height)| format!("{width}×{height}"));
        self.attach(&name, media_type, bytes)
    }

    fn attach(&self, name: &str, media_type: &str, bytes: &[u8]) -> Result<String, String> {
        let mut images = self.images();
        let size = bytes.len().div_ceil(3) * 4;
        if images.iter().map(|(_, image)| image.data.len()).sum::<usize>() + size > MAX_ATTACHED_BYTES {
            let most = MAX_ATTACHED_BYTES >> 20;
            return Err(format!(
                "the images of this conversation take up the {most} MiB for them: go on in another one"
            ));
        }
        let mark = format!("[image {}: {name}]", images.len() + 1);
        images.push((mark.clone(), Image::new(media_type, STANDARD.encode(bytes))));
        Ok(mark)
    }

    /// Images whose marks occur in a text.
    pub(crate) fn images_of(&self, text: &str) -> Vec<Block> {
        let images = self.images();
        let named = images.iter().filter(|(mark, _)| text.contains(mark.as_str()));
        named.map(|(_, image)| Block::Image(image.clone())).collect()
    }

    fn images(&self) -> MutexGuard<'_, Vec<(String, Image)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Width and height in the header of a PNG image.
fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let whole = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    (media_type(bytes)? == "image/png").then_some((whole(16)?, whole(20)?))
}

/// Media type of an image by its first bytes, since a name may be wrong.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_file_is_called_by_its_size() {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend([0, 0, 2, 128, 0, 0, 1, 224]);
        let attachments = Attachments::default();
        assert_eq!(attachments.add_unnamed(&png).as_deref(), Ok("[image 1: 640×480]"));
        assert_eq!(attachments.add_unnamed(b"\xff\xd8\xff\xe0").as_deref(), Ok("[image 2: clipboard]"));
        assert_eq!(attachments.images_of("see [image 1: 640×480]").len(), 1);
        assert!(attachments.add_unnamed(b"text").unwrap_err().contains("no PNG"));
    }

    #[test]
    fn an_image_is_bounded_and_so_are_all_of_a_conversation() {
        let attachments = Attachments::default();
        let image = |bytes: usize| [b"\xff\xd8\xff".to_vec(), vec![0; bytes - 3]].concat();
        assert!(attachments.add_unnamed(&image(MAX_IMAGE_BYTES + 1)).unwrap_err().contains("6 MiB"));
        let all = Image::new("image/png", "x".repeat(MAX_ATTACHED_BYTES - 4));
        attachments.images().push(("[image 1]".to_owned(), all));
        assert!(attachments.add_unnamed(&image(3)).is_ok());
        assert!(attachments.add_unnamed(&image(3)).unwrap_err().contains("another one"));
    }
}

//! Images that a person attached to what is typed.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zk_core::model::{Block, Image};
use zk_core::service::{HostFiles, HostRead};

/// The most bytes of an image: more is refused by most providers.
const MAX_IMAGE_BYTES: usize = 5 << 20;

/// Images by the marks that stand for them in a text. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attachments(Arc<Mutex<Vec<(String, Image)>>>);

impl Attachments {
    /// Reads an image and gives the mark that stands for it; or why it is none.
    pub(crate) fn add(&self, files: &dyn HostFiles, cwd: &Path, path: &str) -> Result<String, String> {
        let file = cwd.join(path);
        let cannot = |why: &str| format!("cannot attach {}: {why}", file.display());
        let read = files.read(&file, &HostRead::whole(MAX_IMAGE_BYTES));
        let bytes = read.map_err(|error| cannot(&error.to_string()))?.bytes;
        let media_type = media_type(&bytes).ok_or_else(|| cannot("it is no PNG, JPEG, GIF or WebP image"))?;
        let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
        let mut images = self.images();
        let mark = format!("[image {}: {}]", images.len() + 1, name.unwrap_or_default());
        images.push((mark.clone(), Image::new(media_type, STANDARD.encode(&bytes))));
        Ok(mark)
    }

    /// The images whose marks are in a text.
    pub(crate) fn of(&self, text: &str) -> Vec<Block> {
        let images = self.images();
        let named = images.iter().filter(|(mark, _)| text.contains(mark.as_str()));
        named.map(|(_, image)| Block::Image(image.clone())).collect()
    }

    fn images(&self) -> MutexGuard<'_, Vec<(String, Image)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the media type of an image, by its first bytes: a name may say anything.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

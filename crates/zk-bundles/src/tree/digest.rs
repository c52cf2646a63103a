use std::fmt::Write as _;

use ring::digest::{Context, Digest, SHA256, digest};

use super::Tree;

impl Tree {
    /// SHA-256 over all paths, modes and bytes, as hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut context = Context::new(&SHA256);
        for (path, file) in &self.files {
            let mode = if file.is_executable { 'x' } else { '-' };
            // Each content is preceded by its length, so that one file cannot imitate two.
            context.update(format!("{}:{path}\0{mode}{}\0", path.len(), file.bytes.len()).as_bytes());
            context.update(&file.bytes);
        }
        hex(&context.finish())
    }
}

/// SHA-256 of bytes, as hexadecimal digits.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    hex(&digest(&SHA256, bytes))
}

fn hex(digest: &Digest) -> String {
    digest.as_ref().iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

use std::io::Read as _;

use flate2::read::GzDecoder;

use super::{MAX_TREE_BYTES, Tree, TreeError, tar, zip};

/// First bytes of a gzip file, and of a zip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZIP_MAGIC: [u8; 4] = *b"PK\x03\x04";

/// Maximum size of the headers and padding of a tar archive, in bytes.
const TAR_OVERHEAD_BYTES: usize = 16 << 20;

impl Tree {
    /// Reads an archive, `.tar.gz` or `.zip`, recognised by its first bytes. If all files are below one
    /// directory, as in archives of repositories, this directory is the root.
    ///
    /// # Errors
    /// [`TreeError`] for bytes that are no such archive, and for the first entry that cannot be part of a bundle.
    pub fn read_archive(bytes: &[u8]) -> Result<Self, TreeError> {
        let tree = if bytes.starts_with(&GZIP_MAGIC) {
            let most = MAX_TREE_BYTES + TAR_OVERHEAD_BYTES;
            tar::read(&inflate(GzDecoder::new(bytes), most)?)?
        } else if bytes.starts_with(&ZIP_MAGIC) {
            zip::read(bytes)?
        } else {
            return Err(TreeError::Archive("it begins neither like .tar.gz nor like .zip".to_owned()));
        };
        Ok(tree.strip_single_root())
    }

    fn strip_single_root(self) -> Self {
        let has_manifest = self.has_dir(".claude-plugin");
        let mut tops = self.files.keys().map(|path| path.split_once('/').map(|(top, _)| top));
        let Some(Some(first)) = tops.next() else { return self };
        // A single directory with such a name, such as `skills`, is a part of a bundle without a manifest.
        let is_part = ["commands", "agents", "skills", "hooks"].contains(&first);
        if has_manifest || is_part || !tops.all(|top| top == Some(first)) {
            return self;
        }
        let first = first.to_owned();
        self.subtree(&first)
    }
}

/// Decompresses a stream to its end, up to a limit.
pub(super) fn inflate(from: impl std::io::Read, max_bytes: usize) -> Result<Vec<u8>, TreeError> {
    let mut out = Vec::new();
    let limit = u64::try_from(max_bytes).unwrap_or(u64::MAX).saturating_add(1);
    let read = from.take(limit).read_to_end(&mut out);
    read.map_err(|error| TreeError::Archive(format!("it cannot be unpacked: {error}")))?;
    if out.len() > max_bytes {
        return Err(TreeError::TooLarge { last: "the unpacked archive".to_owned() });
    }
    Ok(out)
}

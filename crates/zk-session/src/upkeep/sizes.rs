use std::fs;
use std::path::Path;

/// Bytes of the files in a directory and its subdirectories, without following links. Unreadable files count 0.
pub(super) fn size_of(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size_of(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

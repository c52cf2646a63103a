//! Gitlinks of an index: directories that git treats as submodules, and in which it obeys their own settings.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use zk_core::service::{HostFiles, HostRead};

use crate::LocalHostFiles;

/// Largest index that is read, in bytes.
const MAX_BYTES: usize = 256 << 20;
const GITLINK: u32 = 0o160_000;
/// Bytes of an index entry before its object name; the mode is at byte 24.
const STAT_BYTES: usize = 40;
const MODE_AT: usize = 24;
/// Lengths of object names in bytes, for SHA-1 and SHA-256.
const HASH_BYTES: [usize; 2] = [20, 32];

/// Gitlinks of one work tree's index at the last check.
#[derive(Debug)]
pub(super) struct Gitlinks {
    tree: PathBuf,
    /// `None` before the first check.
    seen: Option<(Option<Stamp>, BTreeSet<PathBuf>)>,
}

/// Identity and dates of an index file, to notice a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(index: &Path) -> Option<Self> {
        let found = fs::metadata(index).ok()?;
        let changed = (found.ctime(), found.ctime_nsec());
        Some(Self { inode: found.ino(), bytes: found.len(), changed })
    }
}

impl Gitlinks {
    pub(super) fn of(tree: PathBuf) -> Self {
        Self { tree, seen: None }
    }

    /// Git directory that contains the index.
    pub(super) fn directory(&self) -> PathBuf {
        self.tree.join(".git")
    }

    /// Gitlinks that were added since the last check; none at the first one. Fails with the index path if the
    /// index cannot be read.
    pub(super) fn added(&mut self) -> Result<Vec<PathBuf>, PathBuf> {
        let index = self.directory().join("index");
        let stamp = Stamp::of(&index);
        if self.seen.as_ref().is_some_and(|(seen, _)| *seen == stamp) {
            return Ok(Vec::new());
        }
        let found = match stamp {
            None => Some(BTreeSet::new()),
            Some(_) => read(&index),
        };
        let is_first = self.seen.is_none();
        let Some(found) = found else {
            let (last, _) = self.seen.get_or_insert_default();
            *last = stamp;
            return if is_first { Ok(Vec::new()) } else { Err(index) };
        };
        let known = self.seen.take().map(|(_, known)| known).unwrap_or_default();
        let added = found.difference(&known).filter(|_| !is_first).map(|path| self.tree.join(path)).collect();
        self.seen = Some((stamp, found));
        Ok(added)
    }
}

fn read(index: &Path) -> Option<BTreeSet<PathBuf>> {
    let bytes = LocalHostFiles::new().read(index, &HostRead::whole(MAX_BYTES)).ok()?.bytes;
    HASH_BYTES.iter().find_map(|hash| parse(&bytes, *hash))
}

/// Parses the paths of the gitlinks; `None` if the bytes are no index with object names of this length.
fn parse(bytes: &[u8], hash: usize) -> Option<BTreeSet<PathBuf>> {
    let mut rest = bytes.strip_prefix(b"DIRC")?;
    let version = take_u32(&mut rest)?;
    let count = take_u32(&mut rest)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let (mut found, mut name) = (BTreeSet::new(), Vec::new());
    for _ in 0..count {
        let entry = rest;
        let mode = u32::from_be_bytes(*entry.get(MODE_AT..)?.first_chunk()?);
        let flags = u16::from_be_bytes(*entry.get(STAT_BYTES + hash..)?.first_chunk()?);
        let is_extended = version > 2 && flags & 0x4000 != 0;
        let fixed = STAT_BYTES + hash + if is_extended { 4 } else { 2 };
        rest = entry.get(fixed..)?;
        if version == 4 {
            let dropped = take_varint(&mut rest)?;
            name.truncate(name.len().checked_sub(dropped)?);
        } else {
            name.clear();
        }
        let end = rest.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(rest.get(..end)?);
        rest = if version == 4 { rest.get(end + 1..)? } else { entry.get((fixed + end + 8) / 8 * 8..)? };
        let path = Path::new(OsStr::from_bytes(&name));
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
        if mode == GITLINK && is_below {
            found.insert(path.to_owned());
        }
    }
    (rest.len() >= hash && !is_split(rest)).then_some(found)
}

/// Whether the index is split, according to an extension after the entries: another file has the rest of the
/// entries.
fn is_split(mut extensions: &[u8]) -> bool {
    while let Some((name, rest)) = extensions.split_first_chunk::<4>() {
        // Only the final hash is left.
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return false };
        if name == b"link" {
            return true;
        }
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let Some(rest) = rest.get(length..) else { return false };
        extensions = rest;
    }
    false
}

fn take_u32(from: &mut &[u8]) -> Option<u32> {
    let (number, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u32::from_be_bytes(*number))
}

/// Decodes a variable-length number as git writes offsets: seven bits a byte, plus one for each continuation.
fn take_varint(from: &mut &[u8]) -> Option<usize> {
    let mut value = 0_usize;
    loop {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value = value.checked_shl(7)?.checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        value = value.checked_add(1)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_names_another_one_cannot_be_read() {
        let index = |extension: &[u8]| {
            let header = b"DIRC\0\0\0\x02\0\0\0\0";
            [header, b"TREE\0\0\0\x02xx".as_slice(), extension, [0; 20].as_slice()].concat()
        };
        assert_eq!(parse(&index(b""), 20), Some(BTreeSet::new()));
        for hash in HASH_BYTES {
            assert_eq!(parse(&index(b"link\0\0\0\x14aaaaaaaaaaaaaaaaaaaa"), hash), None);
        }
    }
}

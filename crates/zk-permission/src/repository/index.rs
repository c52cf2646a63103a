//! Gitlinks of a repository's index: directories that git treats as repositories of their own.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const SIGNATURE: &[u8] = b"DIRC";
/// Size of an entry's fields before the object name, in bytes.
const STAT_BYTES: usize = 40;
/// Offset of an entry's mode, in bytes.
const MODE_AT: usize = 24;
/// Type of a gitlink, in the upper four bits of the mode.
const GITLINK: u32 = 0o16;
const HAS_MORE_FLAGS: u16 = 0x4000;
/// Bytes of a SHA-1 object name; repositories without extensions have no others.
const HASH_BYTES: usize = 20;
const EXTENSION_HEADER_BYTES: usize = 8;

/// Paths of the gitlinks in an index; `None` if the bytes cannot be parsed, or the index is split.
pub(super) fn gitlinks(index: &[u8]) -> Option<Vec<PathBuf>> {
    let mut rest = index.strip_prefix(SIGNATURE)?;
    let version = take_u32(&mut rest)?;
    let count = take_u32(&mut rest)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let (mut found, mut name) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let entry = rest;
        let mode = entry.get(MODE_AT..).and_then(|mut mode| take_u32(&mut mode))?;
        let mut at = STAT_BYTES + HASH_BYTES;
        let flags = entry.get(at..at + 2)?.first_chunk::<2>().map(|flags| u16::from_be_bytes(*flags))?;
        at += if version >= 3 && flags & HAS_MORE_FLAGS != 0 { 4 } else { 2 };
        if version == 4 {
            let mut tail = entry.get(at..)?;
            let dropped = take_varint(&mut tail)?;
            name.truncate(name.len().checked_sub(dropped)?);
            let end = tail.iter().position(|byte| *byte == 0)?;
            name.extend_from_slice(tail.get(..end)?);
            rest = tail.get(end + 1..)?;
        } else {
            let tail = entry.get(at..)?;
            let end = tail.iter().position(|byte| *byte == 0)?;
            name = tail.get(..end)?.to_vec();
            // Padded with one to eight zeros to a multiple of eight bytes.
            let whole = (at + end + 8) / 8 * 8;
            if entry.get(at + end..whole)?.iter().any(|byte| *byte != 0) {
                return None;
            }
            rest = entry.get(whole..)?;
        }
        if mode >> 12 == GITLINK {
            found.push(PathBuf::from(OsStr::from_bytes(&name)));
        }
    }
    while rest.len() > HASH_BYTES {
        let kind = rest.get(..4)?;
        let mut size = rest.get(4..EXTENSION_HEADER_BYTES)?;
        let size = usize::try_from(take_u32(&mut size)?).ok()?;
        // A split index: another file has the rest of the entries.
        if kind == b"link" {
            return None;
        }
        rest = rest.get(EXTENSION_HEADER_BYTES.checked_add(size)?..)?;
    }
    (rest.len() == HASH_BYTES).then_some(found)
}

fn take_u32(from: &mut &[u8]) -> Option<u32> {
    let (number, rest) = from.split_first_chunk::<4>()?;
    *from = rest;
    Some(u32::from_be_bytes(*number))
}

/// Decodes a variable-length number: seven bits a byte, with the upper bit set in all bytes but the last.
fn take_varint(from: &mut &[u8]) -> Option<usize> {
    let mut value = 0_usize;
    loop {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value = value.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        value = value.checked_add(1)?;
    }
}

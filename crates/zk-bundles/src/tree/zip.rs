use flate2::read::DeflateDecoder;
use zk_core::service::visible_line;

use super::archive::inflate;
use super::{Tree, TreeError, TreeFile};

/// Signatures in a zip file: of the end record, of an entry in the central directory, and of an entry's local
/// header.
const END_MAGIC: [u8; 4] = *b"PK\x05\x06";
const ENTRY_MAGIC: [u8; 4] = *b"PK\x01\x02";
const LOCAL_MAGIC: [u8; 4] = *b"PK\x03\x04";

/// Sizes of a zip file's records without their variable parts, in bytes.
const END_BYTES: usize = 22;
const ENTRY_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;

/// Maximum length of the comment at the end of a zip file, in bytes.
const MAX_COMMENT_BYTES: usize = 1 << 16;

/// Mask of the Unix file type in the upper bits of an entry's attributes.
const KIND_MASK: u32 = 0o170_000;
const KIND_LINK: u32 = 0o120_000;
const KIND_FILE: u32 = 0o100_000;
const KIND_DIR: u32 = 0o040_000;

/// Reads a zip file by its central directory; entries are stored or deflated.
pub(super) fn read(bytes: &[u8]) -> Result<Tree, TreeError> {
    let from = bytes.len().saturating_sub(MAX_COMMENT_BYTES + END_BYTES);
    let tail = bytes.get(from..).unwrap_or_default();
    let end = tail.windows(END_MAGIC.len()).rposition(|window| window == END_MAGIC);
    let end = end.and_then(|at| tail.get(at..)).ok_or_else(|| invalid_archive("it has no directory"))?;
    let count = u16_at(end, 10)?;
    let mut at = u32_at(end, 16)? as usize;
    let mut tree = Tree::default();
    for _ in 0..count {
        let entry = bytes.get(at..).filter(|entry| entry.starts_with(&ENTRY_MAGIC));
        let entry = entry.ok_or_else(|| invalid_archive("its directory is broken"))?;
        let (name, extra, comment) = (u16_at(entry, 28)?, u16_at(entry, 30)?, u16_at(entry, 32)?);
        let path = entry
            .get(ENTRY_BYTES..ENTRY_BYTES + name)
            .ok_or_else(|| invalid_archive("a name in it is cut"))?;
        let path = std::str::from_utf8(path)
            .map_err(|_| TreeError::Name(String::from_utf8_lossy(path).into_owned()))?;
        at = at.saturating_add(ENTRY_BYTES + name + extra + comment);
        add_entry(&mut tree, bytes, entry, path)?;
    }
    Ok(tree)
}

fn add_entry(tree: &mut Tree, bytes: &[u8], entry: &[u8], path: &str) -> Result<(), TreeError> {
    let mode = u32_at(entry, 38)? >> 16;
    let kind = mode & KIND_MASK;
    if path.ends_with('/') {
        return Ok(());
    }
    if ![0, KIND_FILE, KIND_DIR].contains(&kind) {
        let what = if kind == KIND_LINK { "a link" } else { "no file" };
        return Err(TreeError::Special { path: visible_line(path), what });
    }
    if u16_at(entry, 8)? & 1 != 0 {
        return Err(invalid_archive("its files are encrypted"));
    }
    let (method, sum) = (u16_at(entry, 10)?, u32_at(entry, 16)?);
    let (packed, size) = (u32_at(entry, 20)? as usize, u32_at(entry, 24)? as usize);
    if size > tree.remaining_bytes() {
        return Err(TreeError::TooLarge { last: visible_line(path) });
    }
    let local = bytes.get(u32_at(entry, 42)? as usize..).filter(|local| local.starts_with(&LOCAL_MAGIC));
    let local = local.ok_or_else(|| invalid_archive("a file in it has no header"))?;
    let from = LOCAL_BYTES + u16_at(local, 26)? + u16_at(local, 28)?;
    let packed =
        local.get(from..from.saturating_add(packed)).ok_or_else(|| invalid_archive("a file in it is cut"))?;
    let content = match method {
        0 => packed.to_vec(),
        8 => inflate(DeflateDecoder::new(packed), size)?,
        _ => return Err(invalid_archive("it is compressed in an unknown way")),
    };
    let mut crc = flate2::Crc::new();
    crc.update(&content);
    if content.len() != size || crc.sum() != sum {
        return Err(invalid_archive("a file in it has a wrong sum"));
    }
    tree.insert(path, TreeFile { bytes: content, is_executable: mode & 0o111 != 0 })
}

fn invalid_archive(why: &str) -> TreeError {
    TreeError::Archive(why.to_owned())
}

fn u16_at(bytes: &[u8], at: usize) -> Result<usize, TreeError> {
    match bytes.get(at..at + 2) {
        Some(&[low, high]) => Ok(usize::from(u16::from_le_bytes([low, high]))),
        Some(_) | None => Err(invalid_archive("a header in it is cut")),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, TreeError> {
    match bytes.get(at..at + 4) {
        Some(&[a, b, c, d]) => Ok(u32::from_le_bytes([a, b, c, d])),
        Some(_) | None => Err(invalid_archive("a header in it is cut")),
    }
}

use zk_core::service::visible_line;

use super::{Tree, TreeError, TreeFile};

/// Size of a tar block in bytes: of a header, and the unit of contents.
const BLOCK_BYTES: usize = 512;

/// Fields of a header, each as offset and length.
const NAME: (usize, usize) = (0, 100);
const MODE: (usize, usize) = (100, 8);
const SIZE: (usize, usize) = (124, 12);
const CHECKSUM: (usize, usize) = (148, 8);
const KIND: (usize, usize) = (156, 1);
const MAGIC: (usize, usize) = (257, 5);
const PREFIX: (usize, usize) = (345, 155);

/// Reads a tar archive: ustar, with the long names of GNU and of pax.
pub(super) fn read(bytes: &[u8]) -> Result<Tree, TreeError> {
    let mut tree = Tree::default();
    let mut rest = bytes;
    let mut long_name: Option<String> = None;
    while let Some(header) = rest.get(..BLOCK_BYTES) {
        if header.iter().all(|byte| *byte == 0) {
            return Ok(tree);
        }
        verify_checksum(header)?;
        let size = parse_octal(header, SIZE)?;
        let after = rest.get(BLOCK_BYTES..).unwrap_or_default();
        let content = after.get(..size).ok_or_else(|| truncated("a file"))?;
        let padded = size.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
        rest = after.get(padded..).unwrap_or_default();
        match header_field(header, KIND).first().copied().unwrap_or(0) {
            b'L' => long_name = Some(utf8_text(content)?),
            b'x' => long_name = pax_path(content)?.or(long_name),
            // Global pax header, in which git stores the commit as a comment.
            b'g' => {}
            b'0' | 0 | b'7' => {
                let path = long_name.take().map_or_else(|| entry_name(header), Ok)?;
                let is_executable = parse_octal(header, MODE)? & 0o111 != 0;
                let path = path.strip_prefix("./").unwrap_or(&path);
                tree.insert(path, TreeFile { bytes: content.to_vec(), is_executable })?;
            }
            b'5' => long_name = None,
            kind => {
                let path = long_name.take().map_or_else(|| entry_name(header), Ok)?;
                let what = match kind {
                    b'1' | b'2' => "a link",
                    b'3' | b'4' => "a device",
                    b'6' => "a pipe",
                    _ => "of an unknown kind",
                };
                return Err(TreeError::Special { path: visible_line(&path), what });
            }
        }
    }
    if rest.is_empty() { Ok(tree) } else { Err(truncated("a header")) }
}

fn truncated(what: &str) -> TreeError {
    TreeError::Archive(format!("it ends in the middle of {what}"))
}

fn header_field(header: &[u8], (at, length): (usize, usize)) -> &[u8] {
    header.get(at..at + length).unwrap_or_default()
}

fn utf8_text(bytes: &[u8]) -> Result<String, TreeError> {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8(bytes.to_vec())
        .map_err(|error| TreeError::Name(String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn parse_octal(header: &[u8], at: (usize, usize)) -> Result<usize, TreeError> {
    let digits = utf8_text(header_field(header, at))?;
    let digits = digits.trim();
    if digits.is_empty() {
        return Ok(0);
    }
    usize::from_str_radix(digits, 8).map_err(|_| TreeError::Archive("a number in it is not octal".to_owned()))
}

fn entry_name(header: &[u8]) -> Result<String, TreeError> {
    let name = utf8_text(header_field(header, NAME))?;
    let is_ustar = header_field(header, MAGIC) == b"ustar";
    let prefix = if is_ustar { utf8_text(header_field(header, PREFIX))? } else { String::new() };
    Ok(if prefix.is_empty() { name } else { format!("{prefix}/{name}") })
}

fn verify_checksum(header: &[u8]) -> Result<(), TreeError> {
    let (from, length) = CHECKSUM;
    let is_sum = |at: usize| (from..from + length).contains(&at);
    let bytes = header.iter().enumerate();
    let sum: usize = bytes.map(|(at, byte)| usize::from(if is_sum(at) { b' ' } else { *byte })).sum();
    if parse_octal(header, CHECKSUM)? == sum {
        Ok(())
    } else {
        Err(TreeError::Archive("a header in it has a wrong sum".to_owned()))
    }
}

/// Path in a record of pax: lines of `LENGTH KEY=VALUE`.
fn pax_path(content: &[u8]) -> Result<Option<String>, TreeError> {
    let wrong = || TreeError::Archive("a long name in it cannot be read".to_owned());
    let mut rest = std::str::from_utf8(content).map_err(|_| wrong())?.trim_end_matches('\0');
    let mut path = None;
    while !rest.is_empty() {
        let (length, _) = rest.split_once(' ').ok_or_else(wrong)?;
        let length: usize = length.parse().map_err(|_| wrong())?;
        let record = rest.get(..length).filter(|_| length > 0).ok_or_else(wrong)?;
        let (_, pair) = record.split_once(' ').ok_or_else(wrong)?;
        if let Some(value) = pair.strip_prefix("path=") {
            path = Some(value.trim_end_matches('\n').to_owned());
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(path)
}

//! Page count of a PDF, as far as it is possible without resolving references.

use std::io::Read;

use flate2::read::ZlibDecoder;

/// Maximum number of inflated bytes that are searched, and of streams that are inflated.
const MAX_INFLATED_BYTES: u64 = 16 << 20;
const MAX_STREAMS: usize = 4_096;

/// Maximum number of page tree nodes that are examined, and bytes around a node's type name that may belong
/// to it.
const MAX_NODES: usize = 2_000;
const NODE_BYTES: usize = 64 << 10;

/// Page count of the largest page tree, or else the number of page objects. Takes linear time and up to 16
/// MiB for any input.
pub(crate) fn pages(bytes: &[u8]) -> Option<u64> {
    let mut found = Found::default();
    found.count_nodes(bytes);
    let (mut left, mut rest) = (MAX_INFLATED_BYTES, bytes);
    for _ in 0..MAX_STREAMS {
        let Some(at) = position(rest, b"/ObjStm") else { break };
        rest = rest.get(at + 7..).unwrap_or_default();
        let near = rest.get(..rest.len().min(1_024)).unwrap_or_default();
        let Some(begin) = position(near, b"stream") else { continue };
        let body = rest.get(begin + 6..).unwrap_or_default();
        let body = body.strip_prefix(b"\r").unwrap_or(body);
        let body = body.strip_prefix(b"\n").unwrap_or(body);
        let mut objects = Vec::new();
        // Bytes before a decoding error count.
        let _ = ZlibDecoder::new(body).take(left).read_to_end(&mut objects);
        left = left.saturating_sub(objects.len() as u64);
        found.count_nodes(&objects);
    }
    found.tree.or((found.pages > 0).then_some(found.pages))
}

#[derive(Default)]
struct Found {
    /// Count in the largest page tree node.
    tree: Option<u64>,
    nodes: usize,
    pages: u64,
}

impl Found {
    fn count_nodes(&mut self, bytes: &[u8]) {
        let mut from = 0;
        while let Some(at) = position(bytes.get(from..).unwrap_or_default(), b"/Page") {
            let at = from + at;
            from = at + 5;
            if !follows_type(bytes, at) {
                continue;
            }
            let is_end = |at: usize| bytes.get(at).is_none_or(|byte| !byte.is_ascii_alphanumeric());
            if is_end(from) {
                self.pages += 1;
            } else if bytes.get(from) == Some(&b's') && is_end(from + 1) && self.nodes < MAX_NODES {
                self.nodes += 1;
                self.tree = self.tree.max(count(dictionary(bytes, at)));
            }
        }
    }
}

/// Whether the name at `at` is the value of an object's `/Type`.
fn follows_type(bytes: &[u8], at: usize) -> bool {
    let before = bytes.get(at.saturating_sub(16)..at).unwrap_or_default();
    before.trim_ascii_end().ends_with(b"/Type")
}

/// Dictionary around `at`.
fn dictionary(bytes: &[u8], at: usize) -> &[u8] {
    let (mut depth, mut begin) = (0_usize, at);
    for _ in 0..NODE_BYTES {
        let Some(before) = begin.checked_sub(1) else { break };
        begin = before;
        match bytes.get(begin..begin + 2) {
            Some(b"<<") if depth == 0 => break,
            Some(b"<<") => depth -= 1,
            Some(b">>") => depth += 1,
            _ => continue,
        }
        // Steps back so that overlapping delimiters are not counted twice.
        begin = begin.saturating_sub(1);
    }
    let (mut depth, mut end) = (0_usize, at);
    for _ in 0..NODE_BYTES {
        match bytes.get(end..end + 2) {
            Some(b">>") if depth == 0 => break,
            Some(b">>") => depth -= 1,
            Some(b"<<") => depth += 1,
            Some(_) => {
                end += 1;
                continue;
            }
            None => break,
        }
        end += 2;
    }
    bytes.get(begin..end).unwrap_or_default()
}

/// Number of leaves according to a node's dictionary.
fn count(dictionary: &[u8]) -> Option<u64> {
    let at = position(dictionary, b"/Count")?;
    let rest = dictionary.get(at + 6..)?.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count().min(9);
    std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use proptest::prelude::*;

    use super::*;

    fn compressed(objects: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(objects).unwrap();
        let mut file = b"%PDF-1.7\n5 0 obj <</Type /ObjStm /N 3 /First 10>>\nstream\r\n".to_vec();
        file.extend(encoder.finish().unwrap());
        file.extend(b"\nendstream\nendobj\n");
        file
    }

    #[test]
    fn the_largest_page_tree_says_how_many_pages_there_are() {
        let plain = b"%PDF-1.4\n1 0 obj <</Type/Outlines/Count 90>> endobj\n\
            2 0 obj <</Kids [3 0 R] /Resources <</Font <<>>>> /Type /Pages\n /Count 12>> endobj\n\
            3 0 obj <</Type/Pages/Parent 2 0 R/Count 5>> endobj\n4 0 obj <</Type/Page/Parent 3 0 R>> endobj";
        assert_eq!(pages(plain), Some(12));
        assert_eq!(pages(b"%PDF-1.4 <</Type /Page>> <</Type/Page /X 1>> <</Type/PageLabel>>"), Some(2));
        assert_eq!(pages(b"%PDF-1.7\nall of it is text /Pages"), None);
        assert_eq!(pages(b""), None);
    }

    #[test]
    fn compressed_objects_are_looked_into_as_far_as_they_can_be_read() {
        let objects = b"1 0 2 40 <</Type/Outlines/Count 90>><</Type/Pages/Count 345/Kids[7 0 R]>>";
        let file = compressed(objects);
        assert_eq!(pages(&file), Some(345));
        assert_eq!(pages(&file[..file.len() - 40]), None, "it is cut");
    }

    #[test]
    fn a_bomb_is_inflated_to_a_bound() {
        let bomb = compressed(&vec![b' '; 64 << 20]);
        let many = bomb.repeat(3);
        assert_eq!(pages(&many), None);
        let nodes = b"<</Type/Pages".repeat(200_000);
        assert_eq!(pages(&nodes), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_at_without_a_panic(pieces in prop::collection::vec(
            prop_oneof![
                Just(b"/Type".to_vec()), Just(b"/Pages".to_vec()), Just(b"/Page".to_vec()), Just(b"<<".to_vec()),
                Just(b">>".to_vec()), Just(b"/Count 99999999999999999999".to_vec()), Just(b"/ObjStm".to_vec()),
                Just(b"stream\r\n".to_vec()), prop::collection::vec(any::<u8>(), 0..20),
            ],
            0..60,
        )) {
            pages(&pieces.concat());
        }
    }
}

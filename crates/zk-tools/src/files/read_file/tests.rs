use std::io::{self, Cursor, Read};

use fastrand::Rng;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::Bus;
use zk_core::service::{FileIdentity, FileKind, FileStat};

use super::page::{Content, Page, page};
use crate::files::read_state::Slice;
use crate::limits;
use crate::tool_names::ToolNames;

/// Reader that returns at most this number of bytes at a time.
struct Pieces {
    content: Cursor<Vec<u8>>,
    most: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = self.most.min(buffer.len());
        self.content.read(&mut buffer[..room])
    }
}

fn page_of(bytes: &[u8], slice: Slice, most: usize) -> Option<Page> {
    let stat = FileStat {
        kind: FileKind::File,
        len: bytes.len() as u64,
        modified: None,
        identity: FileIdentity::new("file"),
    };
    let tools = ToolNames::of(&Bus::new().cx());
    let file = Box::new(Pieces { content: Cursor::new(bytes.to_vec()), most });
    match page(file, &stat, "file", (slice, true), &tools, &CancellationToken::new()).unwrap() {
        Content::Text(page) => Some(page),
        Content::Binary => None,
    }
}

#[test]
fn lines_have_their_numbers() {
    let text: String = (1..=1_205).map(|n| format!("line {n}\n")).collect();
    let tools = ToolNames::of(&Bus::new().cx());
    for offset in [1, 9, 99, 1_000] {
        let slice = Slice { offset, limit: 0, max_bytes: 0, raw: false };
        let shown = page_of(text.as_bytes(), slice, usize::MAX).unwrap().render(true, &tools);
        let expected: String = (offset..=1_205).map(|n| format!("{n}\tline {n}\n")).collect();
        assert_eq!(shown, expected);
    }
}

#[test]
fn a_page_is_the_same_in_whatever_pieces_its_file_is_read() {
    let mut compared = 0;
    for seed in 0..500 {
        let mut rng = Rng::with_seed(seed);
        let mut bytes = Vec::new();
        for _ in 0..rng.usize(0..40) {
            let line = ["", "a", "\r", "grüße", "a\rb", "longer than the others, by far"][rng.usize(..6)];
            bytes.extend_from_slice(line.as_bytes());
            bytes.extend_from_slice([&b"\n"[..], b"\n", b"\r\n", b"", b"\xff"][rng.usize(..5)]);
        }
        let is_large = rng.u8(..) < 16;
        if is_large {
            bytes.extend(std::iter::repeat_n(b'x', limits::RESULT_BYTES));
            bytes.extend_from_slice(b"\nand more\n");
        }
        let slice = Slice {
            offset: rng.u64(1..12),
            limit: [0, 1, 3, 1_000][rng.usize(..4)],
            max_bytes: [0, 1, 7, 40, 1 << 20][rng.usize(..5)],
            raw: false,
        };
        let Some(whole) = page_of(&bytes, slice, usize::MAX) else { continue };
        for most in if is_large { [4_096, 9_999, 65_536] } else { [1, 2, 5] } {
            // A character in two pieces at the very beginning looks like no text.
            if let Some(page) = page_of(&bytes, slice, most) {
                assert_eq!(page, whole, "{seed}: {slice:?} {most}");
                compared += 1;
            }
        }
    }
    assert!(compared > 1_000, "{compared}");
}

//! Archives, made by the programs that people use.

use std::io::Write as _;

use proptest::prelude::*;
use zk_bundles::{Bundle, Tree};

use crate::support::{Place, files, run};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut made = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    made.write_all(bytes).unwrap();
    made.finish().unwrap()
}

/// One entry of a tar archive.
fn entry(path: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    header[..path.len()].copy_from_slice(path.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    header[148..156].copy_from_slice(b"        ");
    header[156] = kind;
    header[257..262].copy_from_slice(b"ustar");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut all = header.to_vec();
    all.extend_from_slice(content);
    all.resize(all.len().div_ceil(512) * 512, 0);
    all
}

#[test]
fn an_archive_has_the_digest_of_the_directory_that_it_was_made_of() {
    let place = Place::new();
    let dir = place.demo("made/demo");
    place.write(&format!("made/demo/skills/{}/SKILL.md", "long-name".repeat(14)), "text");
    std::os::unix::fs::symlink("x", place.path("made/link")).unwrap();
    let whole = Tree::read_dir(&dir, &files()).unwrap();
    let made = place.path("made");
    for args in [
        vec!["-czf", "a.tar.gz", "demo"],
        vec!["-czf", "a.tar.gz", "--format=pax", "demo"],
        vec!["-czf", "a.tar.gz", "-C", "demo", "."],
    ] {
        if run(&made, "tar", &args).is_none() {
            return;
        }
        let bytes = std::fs::read(made.join("a.tar.gz")).unwrap();
        assert_eq!(Tree::read_archive(&bytes).unwrap().digest(), whole.digest(), "{args:?}");
    }
    if run(&made, "python3", &["-m", "zipfile", "-c", "a.zip", "demo"]).is_some() {
        let tree = Tree::read_archive(&std::fs::read(made.join("a.zip")).unwrap()).unwrap();
        assert_eq!(tree.digest(), whole.digest());
        assert_eq!(Bundle::read(&tree, "x").unwrap().commands[0].name, "demo:one");
    }
}

#[test]
fn entries_that_lead_out_and_links_are_refused() {
    for (path, kind, why) in [
        ("../../etc/cron.d/x", b'0', "leads out"),
        ("/etc/passwd", b'0', "leads out"),
        ("a/../../b", b'0', "leads out"),
        ("link", b'2', "which is a link"),
        ("hard", b'1', "which is a link"),
        ("device", b'3', "which is a device"),
        ("pipe", b'6', "which is a pipe"),
        ("a\u{1b}[2J", b'0', "control characters"),
    ] {
        let error = Tree::read_archive(&gzip(&entry(path, kind, b"x"))).unwrap_err().to_string();
        assert!(error.contains(why), "{path}: {error}");
    }
    let twice = [entry("a", b'0', b"1"), entry("a", b'0', b"2")].concat();
    assert!(Tree::read_archive(&gzip(&twice)).unwrap_err().to_string().contains("twice"));
    let mut broken = entry("a", b'0', b"1");
    broken[0] = b'b';
    assert!(Tree::read_archive(&gzip(&broken)).unwrap_err().to_string().contains("wrong sum"));
    assert!(Tree::read_archive(b"no archive").is_err() && Tree::read_archive(b"").is_err());
}

#[test]
fn an_archive_that_unpacks_to_more_than_the_limit_is_refused() {
    let bomb = gzip(&vec![0_u8; 90 << 20]);
    assert!(bomb.len() < 1 << 20);
    assert!(Tree::read_archive(&bomb).unwrap_err().to_string().contains("64 MiB"));
}

proptest! {
    #[test]
    fn any_bytes_are_an_archive_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = Tree::read_archive(&bytes);
        let _ = Tree::read_archive(&gzip(&bytes));
        let _ = Tree::read_archive(&[b"PK\x03\x04", &bytes[..]].concat());
    }

    #[test]
    fn a_changed_byte_of_a_zip_is_no_panic(at in 0_usize..400, byte in any::<u8>()) {
        let mut zip = small_zip();
        let at = at % zip.len();
        zip[at] = byte;
        let _ = Tree::read_archive(&zip);
    }
}

/// A zip file with one stored file.
fn small_zip() -> Vec<u8> {
    let (name, content) = (b"commands/one.md", b"Do one.");
    let mut crc = flate2::Crc::new();
    crc.update(content);
    let size = (content.len() as u32).to_le_bytes();
    let common = [&20_u16.to_le_bytes()[..], &[0; 8], &crc.sum().to_le_bytes(), &size, &size].concat();
    let name_size = (name.len() as u16).to_le_bytes();
    let local = [&b"PK\x03\x04"[..], &common, &name_size, &[0; 2], name, content].concat();
    let central = [&b"PK\x01\x02"[..], &[20, 3], &common, &name_size, &[0; 16], name].concat();
    let (start, length) = ((local.len() as u32).to_le_bytes(), (central.len() as u32).to_le_bytes());
    let end = [&b"PK\x05\x06"[..], &[0; 4], &[1, 0, 1, 0], &length, &start, &[0; 2]].concat();
    [local, central, end].concat()
}

#[test]
fn the_zip_of_these_tests_is_one() {
    let tree = Tree::read_archive(&small_zip()).unwrap();
    assert_eq!(tree.get("commands/one.md").unwrap().bytes, b"Do one.");
}

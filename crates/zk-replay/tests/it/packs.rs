use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use zk_core::model::Message;
use zk_core::service::{Entry, EntryKind, Redactor};
use zk_replay::{PACK_VERSION, Pack, PackError, PackLimits, PackVersions, Recording, replay};

use crate::support::{Shape, record};

fn packed(entries: &[Entry], redactor: &Redactor) -> Pack {
    let versions = PackVersions { program: "1.2.3".to_owned(), ..PackVersions::default() };
    let settings = vec!["model = \"m\"".to_owned()];
    Pack::of("s_1".into(), entries, &settings, versions, redactor, PackLimits::default())
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_pack_has_the_session_and_replays_as_it_does() {
    for seed in [3, 60, 0x55, 0xff] {
        let live = record(Shape(seed)).await;
        let pack = packed(&live.entries, &Redactor::new());
        let read = Pack::from_bytes(&pack.to_bytes().unwrap()).unwrap();
        assert_eq!(read, pack);
        assert_eq!(Recording::of(&read.entries), Recording::of(&live.entries));
        assert_eq!(replay(&read.entries).len(), replay(&live.entries).len());
    }
}

#[test]
fn secrets_do_not_get_into_a_pack() {
    let redactor = Redactor::new();
    redactor.learn("hunter2-hunter2");
    let message =
        Message::user_text("the password is hunter2-hunter2, blob ".to_owned() + &"ab".repeat(32)).shared();
    let kind = EntryKind::Message { message, usage: None };
    let entries = [Entry { id: "e_1".into(), parent: None, time_ms: 1, kind }];
    let versions = PackVersions::default();
    let settings = vec!["base_url = \"https://hunter2-hunter2@host\"".to_owned()];
    let blob = |id: &str| (id == "ab".repeat(32)).then(|| b"log: hunter2-hunter2".to_vec());
    let limits = PackLimits::default();
    let pack = Pack::with_blobs("s_1".into(), &entries, &settings, versions, &redactor, limits, blob);
    let pack = pack.about("it leaks hunter2-hunter2", &redactor);
    let all = serde_json::to_string(&pack).unwrap();
    let blob = String::from_utf8(pack.blob(&"ab".repeat(32)).unwrap()).unwrap();
    assert!(!all.contains("hunter2") && !blob.contains("hunter2"), "{all} {blob}");
    assert!(pack.notes.left_out.iter().any(|line| line == "secrets in 2 places"), "{:?}", pack.notes);
    assert!(pack.notes.contains.iter().any(|line| line == "1 stored output"));
}

#[test]
fn an_output_that_is_neither_text_nor_an_image_has_no_secrets() {
    let redactor = Redactor::new();
    redactor.learn("hunter2-hunter2");
    let text = format!("{} {}", "ab".repeat(32), "cd".repeat(32));
    let kind = EntryKind::Message { message: Message::user_text(text).shared(), usage: None };
    let entries = [Entry { id: "e_1".into(), parent: None, time_ms: 1, kind }];
    let image = b"\x89PNG\r\n\x1a\n\xff\xfe\0".to_vec();
    let blob = |id: &str| match id.starts_with('a') {
        true => Some(b"\xff\xfe core: hunter2-hunter2 \xff".to_vec()),
        false => Some(image.clone()),
    };
    let (versions, limits) = (PackVersions::default(), PackLimits::default());
    let pack = Pack::with_blobs("s_1".into(), &entries, &[], versions, &redactor, limits, blob);
    let binary = pack.blob(&"ab".repeat(32)).unwrap();
    assert!(!String::from_utf8_lossy(&binary).contains("hunter2"), "{binary:?}");
    assert_eq!(pack.blob(&"cd".repeat(32)).unwrap(), image);
}

#[test]
fn large_and_missing_outputs_are_left_out_and_said() {
    let text = format!("{}; the whole output: {}; sha256 {}", "a".repeat(64), "b".repeat(64), "c".repeat(64));
    let kind = EntryKind::Message { message: Message::user_text(text).shared(), usage: None };
    let entries = [Entry { id: "e_1".into(), parent: None, time_ms: 1, kind }];
    let limits = PackLimits { blob_bytes: 10, all_blobs_bytes: 100 };
    let blob = |id: &str| id.starts_with('a').then(|| vec![0; 11]);
    let redactor = Redactor::new();
    let pack =
        Pack::with_blobs("s_1".into(), &entries, &[], PackVersions::default(), &redactor, limits, blob);
    assert!(pack.blobs.is_empty());
    let branches = "other branches of the session: only the present one is here";
    for line in ["1 stored output that is too large", "1 stored output that is gone", branches] {
        assert!(pack.notes.left_out.iter().any(|one| one == line), "{line}: {:?}", pack.notes.left_out);
    }
}

#[test]
fn what_is_no_pack_is_refused_in_words() {
    let kind = EntryKind::RunStart { run_id: "r_1".into() };
    let entries = [Entry { id: "e_1".into(), parent: None, time_ms: 0, kind }];
    let good = packed(&entries, &Redactor::new());
    let bytes = good.to_bytes().unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut value = serde_json::to_value(&good).unwrap();
        change(&mut value);
        gzip(&serde_json::to_vec(&value).unwrap())
    };
    let newer = changed(&|value| value["zkpack"] = json!(PACK_VERSION + 1));
    let climbing = changed(&|value| value["blobs"] = json!({"../../../.ssh/authorized_keys": "AAAA"}));
    let stray = changed(&|value| value["session"] = json!("../../home"));
    let unknown = changed(&|value| value["entries"][0]["kind"]["entry"] = json!("teleport"));
    let cut = &bytes[..bytes.len() / 2];
    let mut flipped = bytes.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0xff;
    let cases: [(&str, &[u8], &str); 10] = [
        ("empty", b"", "this is no pack"),
        ("text", b"hello", "this is no pack"),
        ("other archive", &gzip(b"./../etc/passwd\0\0\0\0"), "this is no pack"),
        ("other json", &gzip(b"{\"a\": 1}"), "this is no pack"),
        ("cut", cut, "the pack is damaged"),
        ("flipped", &flipped, "the pack is damaged"),
        ("newer", &newer, "the pack has format 2, and this zk reads up to 1; use a newer zk"),
        ("climbing", &climbing, "the pack names a stored output `../../../.ssh/authorized_keys`"),
        ("stray", &stray, "the pack names its session `../../home`"),
        ("unknown entry", &unknown, "the pack is damaged"),
    ];
    for (name, bytes, expected) in cases {
        let error = Pack::from_bytes(bytes).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{name}: {error}");
    }
}

#[test]
fn a_bomb_is_not_unpacked() {
    // 300 MiB of blanks in 300 KiB.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(b"{").unwrap();
    for _ in 0..300 {
        encoder.write_all(&[b' '; 1 << 20]).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 4 << 20);
    assert!(matches!(Pack::from_bytes(&bomb), Err(PackError::TooLarge { .. })));
}

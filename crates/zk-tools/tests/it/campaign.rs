//! Edits of real files with any bytes in them, made one by one and side by side.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use fastrand::Rng;
use serde_json::json;
use zk_core::model::Display;

use crate::support::Desk;

/// Returns the number of seeds: a hundredth of `full` unless the variable names another number.
#[expect(clippy::disallowed_methods, reason = "the size of a campaign")]
fn seeds(variable: &str, full: u64) -> u64 {
    let asked = std::env::var(variable).ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(full / 100)
}

/// Generates bytes of all kinds: text, both kinds of line ends, a byte order mark, invalid UTF-8.
fn bytes(rng: &mut Rng, most: usize) -> Vec<u8> {
    const PIECES: [&[u8]; 14] = [
        b"\r\n",
        b"\n",
        b"\r",
        b"\t",
        b" ",
        b"fn a() {",
        b"}",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\xc3",
        b"\xe2\x82",
        "ä€🦀".as_bytes(),
        b"\xc0\x80",
        b"\0",
    ];
    (0..rng.usize(0..=most))
        .filter_map(|_| PIECES.get(rng.usize(0..PIECES.len())))
        .flat_map(|piece| piece.iter().copied())
        .collect()
}

/// Reverts a diff: the text before a change, from the present text and the shown diff.
fn undone(now: &str, diff: &str) -> String {
    let mut new = now.split_inclusive('\n');
    let (mut old, mut at) = (String::new(), 0);
    let mut lines = diff.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        if let Some((_, place)) = line.strip_prefix("@@ -").and_then(|rest| rest.split_once(" +")) {
            let place = place.split(" @@").next().unwrap();
            let (begin, count) = place.split_once(',').unwrap_or((place, "1"));
            let begin: usize = begin.parse().unwrap();
            // Of no lines, the line before them is named.
            let begin = if count == "0" { begin } else { begin - 1 };
            old.extend(new.by_ref().take(begin - at));
            at = begin;
            continue;
        }
        let (tag, text) = line.split_at(1);
        let has_end = lines.next_if(|next| next.starts_with("\\ No newline")).is_none();
        let text = if has_end { text } else { text.strip_suffix('\n').unwrap() };
        if tag != "+" {
            old.push_str(text);
        }
        if tag != "-" {
            assert_eq!(new.next(), Some(text));
            at += 1;
        }
    }
    old.extend(new);
    old
}

#[tokio::test]
async fn an_edit_of_a_file_leaves_every_other_byte_as_it_was() {
    let desk = Desk::new();
    let (all, mut made) = (seeds("ZK_CAMPAIGN_BYTES", 100_000), 0);
    for seed in 0..all {
        let mut rng = Rng::with_seed(seed);
        let (before, after) = (bytes(&mut rng, 8), bytes(&mut rng, 8));
        let content = [&before, b"<here>".as_slice(), &after].concat();
        // A separate file: one changed since its edit would be refused.
        let path = format!("f{seed}");
        desk.put(&path, &content);
        std::fs::set_permissions(desk.root.join(&path), std::fs::Permissions::from_mode(0o640)).unwrap();
        let new = ["", "x", "two\nlines", "ü"][rng.usize(0..4)];
        let args = json!({ "path": path, "old_string": "<here>", "new_string": new });
        let output = desk.output("edit", args).await;
        let found = std::fs::read(desk.root.join(&path)).unwrap();
        match output {
            Ok(output) => {
                made += 1;
                // Text that is put in takes the line ends of its place.
                let dressed = new.replace('\n', "\r\n");
                let fits = [new.as_bytes(), dressed.as_bytes()]
                    .iter()
                    .any(|new| found == [&before, *new, &after].concat());
                assert!(fits, "seed {seed}: {content:?} -> {found:?}");
                match &output.display {
                    // The shown part of the change is enough to take it back.
                    Some(Display::Diff { diff, .. }) => {
                        if let (Ok(now), Ok(old)) =
                            (std::str::from_utf8(&found), std::str::from_utf8(&content))
                        {
                            assert_eq!(undone(now, diff), old, "seed {seed}: {diff}");
                        }
                    }
                    Some(Display::Line { .. }) => {}
                    other => panic!("seed {seed}: {other:?}"),
                }
            }
            // A file that is no text is left alone.
            Err(error) => assert_eq!(found, content, "seed {seed}: {error}"),
        }
        let mode = std::fs::metadata(desk.root.join(&path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o640, "seed {seed}");
        std::fs::remove_file(desk.root.join(&path)).unwrap();
    }
    let left = std::fs::read_dir(&desk.root).unwrap().count();
    assert_eq!(left, 0, "an edit left a file of its own");
    assert!(made * 2 > all, "{made} of {all} were made");
}

#[tokio::test]
async fn several_edits_of_each_shape_leave_every_other_byte_as_it_was() {
    let desk = Desk::new();
    let (all, mut made) = (seeds("ZK_CAMPAIGN_BYTES", 100_000), 0);
    for seed in 0..all {
        let mut rng = Rng::with_seed(seed);
        let [a, b, c, d, e] = std::array::from_fn(|_| bytes(&mut rng, 3));
        let with = |one: &str, every: &str, quoted: &str| {
            let (one, every, quoted) = (one.as_bytes(), every.as_bytes(), quoted.as_bytes());
            [&*a, one, &*b, every, &*c, every, &*d, quoted, &*e].concat()
        };
        let content = with("<one>", "<every>", "say “hello”");
        // A separate file: one changed since its edit would be refused.
        let path = format!("f{seed}");
        desk.put(&path, &content);
        let edits = json!([
            { "old_string": "<every>", "new_string": "22", "replace_all": true },
            { "old_string": "<one>", "new_string": "1" },
            // Found although its quotes are others.
            { "old_string": "say \"hello\"", "new_string": "said" },
        ]);
        let output = desk.output("multi_edit", json!({ "path": path, "edits": edits })).await;
        let found = std::fs::read(desk.root.join(&path)).unwrap();
        std::fs::remove_file(desk.root.join(&path)).unwrap();
        match output {
            Ok(_) => {
                assert_eq!(found, with("1", "22", "said"), "seed {seed}: {content:?}");
                made += 1;
            }
            Err(error) => assert_eq!(found, content, "seed {seed}: {error}"),
        }
    }
    assert!(made * 10 > all, "{made} of {all} were made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_edits_of_one_file_side_by_side_are_all_made_in_its_order() {
    let desk = Arc::new(Desk::new());
    for seed in 0..seeds("ZK_CAMPAIGN_PARALLEL", 1_000) {
        let mut rng = Rng::with_seed(seed);
        let mut lines: Vec<String> = (0..8).map(|n| format!("line {n}")).collect();
        let between = bytes(&mut rng, 4).into_iter().filter(|byte| *byte != 0).collect::<Vec<_>>();
        let whole = |lines: &[String]| {
            let mut all = Vec::new();
            for line in lines {
                all.extend_from_slice(line.as_bytes());
                all.extend_from_slice(b" |");
                all.extend_from_slice(&between);
                all.push(b'\n');
            }
            all
        };
        let path = format!("shared{seed}");
        desk.put(&path, whole(&lines));
        let mut order: Vec<usize> = (0..8).collect();
        rng.shuffle(&mut order);
        let mut running = Vec::new();
        for n in order {
            let (desk, path) = (desk.clone(), path.clone());
            running.push(tokio::spawn(async move {
                let args = json!({
                    "path": path, "old_string": format!("line {n} |"), "new_string": format!("line {n} of {n} |")
                });
                desk.output("edit", args).await.map(drop)
            }));
        }
        for running in running {
            running.await.unwrap().unwrap();
        }
        for (n, line) in lines.iter_mut().enumerate() {
            *line = format!("line {n} of {n}");
        }
        assert_eq!(std::fs::read(desk.root.join(&path)).unwrap(), whole(&lines), "seed {seed}");
    }
    assert_eq!(
        std::fs::read_dir(&desk.root).unwrap().count() as u64,
        seeds("ZK_CAMPAIGN_PARALLEL", 1_000),
        "a temporary file is left"
    );
}

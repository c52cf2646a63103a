//! Recorded runs of every kind, drawn: `ZK_RECORD_PATCHES=crates/zk-tui/tests/patches cargo test -p zk-harness-view scenarios` records
//! them anew.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use zk_tui::Size;
use zk_view::{Content, Patch};

use crate::person::desk_of;

/// The logs and their names.
fn logs() -> Vec<(String, Vec<Patch>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/patches");
    let mut logs: Vec<(String, Vec<Patch>)> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let patches = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            (path.display().to_string(), patches)
        })
        .collect();
    logs.sort_by(|(one, _), (other, _)| one.cmp(other));
    logs
}

/// Rows on a terminal at the end, with a number of patches for each frame.
fn draw(patches: &[Patch], size: Size, every: usize, is_full: bool) -> Vec<String> {
    let mut desk = desk_of(size);
    desk.app.set_full(is_full);
    desk.wait(20);
    for patches in patches.chunks(every.max(1)) {
        desk.app.patches(patches, desk.now);
        desk.wait(20);
    }
    if !is_full {
        let left = desk.app.leave();
        desk.emulator.send(&left);
    }
    desk.emulator.all_rows()
}

fn ink(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

#[test]
fn there_is_a_recorded_run_of_every_kind_of_content() {
    let (mut contents, mut patches) = (BTreeSet::new(), BTreeSet::new());
    for (_, log) in logs() {
        for patch in log {
            let json = serde_json::to_value(&patch).unwrap();
            patches.extend(json["patch"].as_str().map(str::to_owned));
            let types = [&json["block"]["content"]["type"]];
            contents.extend(types.into_iter().filter_map(Value::as_str).map(str::to_owned));
        }
    }
    for kind in ["answer", "call", "end", "injected", "note", "plugin", "thinking", "user"] {
        assert!(contents.contains(kind), "{kind} is not in {contents:?}");
    }
    for kind in ["open", "grow", "change", "close", "status", "agents"] {
        assert!(patches.contains(kind), "{kind} is not in {patches:?}");
    }
}

#[test]
fn a_recorded_run_leaves_the_same_rows_however_its_patches_come() {
    let size = Size::new(100, 150);
    for (name, patches) in logs() {
        // Rows of sub-agents keep their order of arrival, before or after the call that started them.
        let has_agents = patches.iter().any(|patch| matches!(patch, Patch::Agents { .. }));
        let draw = |every| {
            let mut rows = draw(&patches, size, every, false);
            if has_agents {
                rows.sort_unstable();
            }
            rows
        };
        let one_by_one = draw(1);
        assert!(one_by_one.len() > 3, "{name}: {one_by_one:#?}");
        for every in [1, 3, patches.len()] {
            assert_eq!(draw(every), one_by_one, "{name}, {every} at once");
        }
    }
}

#[test]
fn a_recorded_run_leaves_its_answers_once_on_a_screen_of_any_size() {
    for (width, height) in [(80, 24), (40, 8), (20, 5)] {
        let size = Size::new(width, height);
        for (name, patches) in logs() {
            let rows = draw(&patches, size, 1, false);
            assert_eq!(draw(&patches, size, 1, false), rows, "{name} at {width}x{height}");
            let shown = ink(&rows.join(""));
            for patch in &patches {
                if let Patch::Close { block } = patch
                    && let Content::User { text, .. } = &block.content
                    && block.agent.is_none()
                {
                    assert!(
                        shown.contains(&ink(text.as_str())),
                        "{name} at {width}x{height}: {text}\n{rows:#?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_recorded_run_looks_the_same_in_full_screen_however_its_patches_come() {
    for (width, height) in [(80, 24), (40, 10), (120, 60)] {
        let size = Size::new(width, height);
        for (name, patches) in logs() {
            let one_by_one = draw(&patches, size, 1, true);
            for every in [1, 3, patches.len()] {
                assert_eq!(
                    draw(&patches, size, every, true),
                    one_by_one,
                    "{name}, {every} at {width}x{height}"
                );
            }
        }
    }
}

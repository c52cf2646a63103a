use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use zk_undo::UndoError;

use crate::fixtures::Place;

/// Interleavings without `ZK_UNDO_INTERLEAVINGS`.
const INTERLEAVINGS: u64 = 100;

const STEPS: usize = 14;

const NAMES: [&str; 9] = ["a", "b", "c", "d/a", "d/b", "d/e/a", "x/y", "lib.rs", "bin"];

/// One random change of files; nobody cares whether it works.
pub(crate) fn change(random: &mut fastrand::Rng, root: &Path, mark: &str) {
    let path = |random: &mut fastrand::Rng| root.join(NAMES[random.usize(..NAMES.len())]);
    let at = path(random);
    if let Some(parent) = at.parent() {
        let _ = fs::create_dir_all(parent);
    }
    // Ignored files are not covered: a command that renames one leaves no trace of where it was.
    let is_covered = |path: &Path| !path.ends_with("bin");
    let mark = if is_covered(&at) { mark } else { "ignored" };
    match random.u8(..10) {
        0..=3 => {
            let _ = fs::write(&at, format!("{mark} {}\n", random.u16(..)).repeat(random.usize(1..4)));
        }
        4 => {
            let _ = fs::remove_file(&at);
        }
        5 => {
            let to = path(random);
            if is_covered(&at) && is_covered(&to) {
                let _ = fs::rename(&at, to);
            }
        }
        6 => {
            let mode = [0o644, 0o600, 0o755][random.usize(..3)];
            if at.symlink_metadata().is_ok_and(|found| found.is_file()) {
                let _ = fs::set_permissions(&at, fs::Permissions::from_mode(mode));
            }
        }
        7 => {
            let _ = fs::remove_file(&at);
            let _ = symlink(["a", "d", "/nowhere"][random.usize(..3)], &at);
        }
        8 => {
            if at.symlink_metadata().is_ok_and(|found| found.is_file()) {
                let _ = fs::OpenOptions::new().write(true).open(&at).and_then(|file| file.set_len(1));
            }
        }
        _ => {
            let dir = ["d", "d/e", "x"][random.usize(..3)];
            let _ = fs::remove_dir_all(root.join(dir));
        }
    }
}

/// Contents of all regular files.
fn contents(root: &Path) -> BTreeSet<(PathBuf, Vec<u8>)> {
    let files = crate::fixtures::tree(root);
    files
        .into_keys()
        .filter(|path| root.join(path).symlink_metadata().is_ok_and(|found| found.is_file()))
        .map(|path| (path.clone(), fs::read(root.join(&path)).unwrap()))
        .collect()
}

fn interleave(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut place = Place::new();
    let root = place.root.clone();
    if random.bool() {
        fs::write(root.join(".gitignore"), "bin\n").unwrap();
    }
    for _ in 0..6 {
        change(&mut random, &root, "first");
    }
    for step in 0..STEPS {
        match random.u8(..8) {
            0..=1 => {
                for _ in 0..random.usize(1..3) {
                    change(&mut random, &root, &format!("person {step}"));
                }
            }
            2..=3 => {
                let mut choice = random.fork();
                place.command(|root| {
                    for _ in 0..choice.usize(1..5) {
                        change(&mut choice, root, &format!("shell {step}"));
                    }
                });
            }
            4..=5 => {
                let name = NAMES[random.usize(..NAMES.len())];
                let path = root.join(name);
                let is_free = path.symlink_metadata().map_or(true, |found| found.is_file());
                let parents = path.ancestors().skip(1).take_while(|dir| *dir != root);
                let are_dirs = parents
                    .into_iter()
                    .all(|dir| dir.symlink_metadata().map_or(true, |found| found.is_dir()));
                if is_free && are_dirs {
                    place.tool(name, format!("tool {step} {}\n", random.u16(..)).as_bytes());
                }
            }
            _ => check_undo(&place, random.usize(1..4), seed),
        }
    }
    check_undo(&place, 1, seed);
}

/// Undoes and takes that back: files of the person stay, and everything is as before then.
fn check_undo(place: &Place, count: usize, seed: u64) {
    let (before, bytes) = (place.tree(), contents(&place.root));
    let plan = match place.journal.plan_undo(count) {
        Err(UndoError::NothingToUndo) => return,
        plan => plan.unwrap(),
    };
    let touched: BTreeSet<PathBuf> =
        plan.items.iter().filter(|item| item.refused.is_none()).map(|item| item.path.clone()).collect();
    let outcome = place.journal.apply(&plan).unwrap();
    for (path, bytes) in &bytes {
        let whole = place.root.join(path);
        let is_left = fs::read(&whole).is_ok_and(|now| now == *bytes);
        assert!(
            is_left || touched.contains(&whole),
            "seed {seed}: {} was no part of the undo",
            path.display()
        );
    }
    let after: BTreeSet<Vec<u8>> = contents(&place.root).into_iter().map(|(_, bytes)| bytes).collect();
    for (path, bytes) in bytes.iter().filter(|(_, bytes)| bytes.starts_with(b"person")) {
        assert!(
            after.contains(bytes),
            "seed {seed}: the bytes of {} are nowhere\n{plan:#?}\n{outcome:#?}",
            path.display()
        );
    }
    for path in place.tree().keys() {
        assert!(!path.to_string_lossy().contains(".zk"), "seed {seed}: {} was left", path.display());
    }
    if outcome.changes.is_empty() {
        assert_eq!(place.tree(), before, "seed {seed}");
        return;
    }
    let back = place.redo();
    assert_eq!(back.refused, Vec::<String>::new(), "seed {seed}");
    assert_eq!(place.tree(), before, "seed {seed}: an undo that was taken back left another tree");
}

#[test]
fn no_interleaving_loses_bytes_of_the_person() {
    let count = std::env::vars().find(|(name, _)| name == "ZK_UNDO_INTERLEAVINGS");
    let count = count.map_or(INTERLEAVINGS, |(_, count)| count.parse().unwrap());
    let first = std::env::vars()
        .find(|(name, _)| name == "ZK_UNDO_SEED")
        .map_or(0, |(_, seed)| seed.parse().unwrap());
    let seeds = first..first + count;
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut seeds = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed))
                    .take_while(|seed| *seed < seeds.end);
                seeds.by_ref().for_each(interleave);
            });
        }
    });
    println!("{count} interleavings from seed {first} on");
}

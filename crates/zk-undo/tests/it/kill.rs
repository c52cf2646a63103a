//! Processes that are killed in the middle of a call that changes files, of an undo and of a redo.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zk_undo::{CallScope, Journal, TurnLabel, UndoError, UndoSettings};

use crate::fixtures::{journal, tree};
use crate::interleavings::change;

/// Variable that gives a started test program its role: a seed and the directory of the workspace and its journal.
const PART: &str = "ZK_UNDO_TEST_PART";

/// Kills without `ZK_UNDO_KILLS`.
const KILLS: u64 = 100;
/// Number of kills that each workspace survives.
const LIVES: u64 = 10;
/// Most files that one command changes.
const MAX_CHANGES: usize = 8;

type Tree = BTreeMap<PathBuf, String>;

/// Line of the process about what it is about to do.
#[derive(Debug, Serialize, Deserialize)]
struct Begin {
    /// Files before.
    before: Tree,
    /// Paths that an undo or a redo brings back; empty for a command.
    paths: Vec<PathBuf>,
    /// Whether it is a redo, which several undos take back.
    is_redo: bool,
}

fn kills() -> u64 {
    let count = std::env::vars().find(|(name, _)| name == "ZK_UNDO_KILLS");
    count.map_or(KILLS, |(_, count)| count.parse().unwrap())
}

fn open(dir: &Path) -> (Journal, PathBuf) {
    let root = dir.join("project");
    std::fs::create_dir_all(&root).unwrap();
    (journal(dir, &root, UndoSettings::default()), root)
}

fn start(dir: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::part_worker", "--nocapture"])
        .env(PART, format!("{seed}={}", dir.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Process that changes files, undoes and redoes as fast as possible. It says what it begins, and when it is done.
#[test]
fn part_worker() {
    let Some((_, part)) = std::env::vars().find(|(name, _)| name == PART) else { return };
    let (seed, dir) = part.split_once('=').unwrap();
    let (journal, root) = open(Path::new(dir));
    let mut random = fastrand::Rng::with_seed(seed.parse().unwrap());
    journal.recover().unwrap();
    for step in 0.. {
        let is_redo = random.u8(..4) == 0;
        let plan = match random.u8(..5) {
            _ if is_redo => Some(journal.plan_redo()),
            0..=1 => None,
            _ => Some(journal.plan_undo(random.usize(1..4))),
        };
        let begin = |paths| {
            let begin = Begin { before: tree(&root), paths, is_redo };
            say(&format!("begin {}", serde_json::to_string(&begin).unwrap()));
        };
        match plan {
            None => {
                begin(Vec::new());
                let run = format!("{seed}.{step}");
                let turn = TurnLabel { run: run.clone(), turn: run.clone(), prompt: "p".into() };
                journal.begin(&turn, "call", &CallScope::Workspace).unwrap();
                for _ in 0..random.usize(1..MAX_CHANGES) {
                    change(&mut random, &root, &format!("shell {run}"));
                }
                journal.end("call").unwrap();
            }
            Some(Err(UndoError::NothingToUndo | UndoError::NothingToRedo)) => continue,
            Some(plan) => {
                let plan = plan.unwrap();
                let (brought, refused): (Vec<_>, Vec<_>) =
                    plan.items.iter().partition(|item| item.refused.is_none());
                // A directory stays when a path in it does.
                let is_kept = |dir: &Path| refused.iter().any(|item| item.path.starts_with(dir));
                let brought = brought.into_iter().map(|item| item.path.clone());
                begin(brought.filter(|path| !is_kept(path)).collect());
                journal.apply(&plan).unwrap();
            }
        }
        say("done");
    }
}

/// Lines about the paths that differ.
fn differences(before: &Tree, after: &Tree) -> String {
    let names: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    let line = |name: &&PathBuf| {
        let (before, after) = (before.get(*name), after.get(*name));
        (before != after).then(|| format!("{}: {before:?} became {after:?}\n", name.display()))
    };
    names.iter().filter_map(line).collect()
}

/// A killed undo is finished or never began, and everything that a killed call did can be taken back.
#[test]
fn a_killed_process_leaves_no_undo_half_done() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    let (mut done, mut finished, mut taken_back) = (0, 0, 0);
    for round in 0..kills() {
        let dir = dir.path().canonicalize().unwrap().join(format!("{}", round / LIVES));
        let mut child = start(&dir, round);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let (heard, hears) = mpsc::channel();
        let listener = std::thread::spawn(move || lines.for_each(|line| heard.send(line).unwrap()));
        let mut lines: Vec<String> = Vec::new();
        while !lines.iter().any(|line| line.starts_with("begin ")) {
            lines.push(hears.recv_timeout(Duration::from_secs(60)).unwrap());
        }
        std::thread::sleep(Duration::from_micros(random.u64(..30_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        listener.join().unwrap();
        lines.extend(hears.try_iter());
        done += lines.iter().filter(|line| *line == "done").count();

        let (journal, root) = open(&dir);
        let told = journal.recover().unwrap();
        let now = tree(&root);
        let left: Vec<&PathBuf> = now.keys().filter(|path| path.to_string_lossy().contains(".zk-")).collect();
        assert_eq!(left, Vec::<&PathBuf>::new(), "round {round}: files of an undo were left");
        let mut own = lines.iter().filter(|line| line.starts_with("begin ") || *line == "done");
        let Some(begin) = own.next_back().and_then(|line| line.strip_prefix("begin ")) else { continue };
        // A line that was cut off was followed by nothing.
        let Ok(Begin { before, paths, is_redo }) = serde_json::from_str(begin) else { continue };
        if now == before {
            continue;
        }
        if paths.is_empty() {
            let plan = journal.plan_undo(1).unwrap();
            assert_eq!(plan.refusals().collect::<Vec<_>>(), Vec::<String>::new(), "round {round}");
            journal.apply(&plan).unwrap();
            taken_back += 1;
        } else {
            let name = |path: &PathBuf| path.strip_prefix(&root).unwrap().to_owned();
            // A directory stays with files in it that no call of zk made.
            let has_foreign = |dir: &PathBuf| now.keys().any(|path| path != dir && path.starts_with(dir));
            let is_same = |name: &PathBuf| before.get(name) == now.get(name) && !has_foreign(name);
            let stayed: Vec<&PathBuf> = paths.iter().filter(|path| is_same(&name(path))).collect();
            let all = differences(&before, &now);
            assert_eq!(
                stayed,
                Vec::<&PathBuf>::new(),
                "round {round}: the undo is half done\n{told:?}\n{all}"
            );
            finished += 1;
            if is_redo {
                continue;
            }
            let plan = journal.plan_redo().unwrap();
            assert_eq!(plan.refusals().collect::<Vec<_>>(), Vec::<String>::new(), "round {round}");
            journal.apply(&plan).unwrap();
        }
        let differing = differences(&before, &tree(&root));
        assert_eq!(
            differing,
            "",
            "round {round}: what was done is not taken back\n{told:?}\n{}",
            differences(&before, &now)
        );
    }
    println!("{} kills, {done} steps, {finished} undos finished, {taken_back} calls taken back", kills());
    assert!(done > 0, "each process was killed before its first step");
}

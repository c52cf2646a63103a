//! Commands that the judge lets run as reads, run with the real programs: they leave everything as it was.

mod generator;
mod throwaway;
mod walled;

use std::path::Path;

use zk_core::model::Effects;

use crate::classifier::TextPathClassifier;
use crate::judge::{Call, Circumstances, judge};
use crate::mode::Mode;
use crate::rules::{Decision, Rules};
use throwaway::{changes_by, print_skipped};

/// Number of generated commands in an ordinary test run; the variable `ZK_JUDGE_COMMANDS` overrides it.
const TESTED_COMMANDS: usize = 1_000;

/// Seed of the generated commands.
const SEED: u64 = 26;

/// Commands that are judged together.
const ROUND_COMMANDS: usize = 2_000;

/// Whether a command runs without a question if only reads are allowed.
pub(super) fn is_read(command: &str) -> bool {
    let classifier = TextPathClassifier::new(["/p"]);
    let here = Circumstances {
        cwd: Path::new("/p"),
        classifier: &classifier,
        is_contained: false,
        holds_reads: true,
        trusts_repository: true,
    };
    let effects = Effects::executes(command);
    judge(&Call { tool: "shell", effects: &effects }, Mode::Ask, &Rules::new(), &here).decision
        == Decision::Allow
}

/// Generated commands that are judged reads, and how many had to be judged for them.
fn reads(random: &mut fastrand::Rng, wanted: usize) -> (Vec<String>, usize) {
    let (mut commands, mut judged) = (Vec::new(), 0);
    while commands.len() < wanted {
        judged += 1;
        commands.extend(Some(generator::command(random)).filter(|command| is_read(command)));
    }
    (commands, judged)
}

/// Descriptions of the changes that commands made; `None` if they cannot be run.
pub(super) fn describe_changes(commands: &[String]) -> Option<Vec<String>> {
    match changes_by(commands) {
        Err(why) => {
            print_skipped(&why);
            None
        }
        Ok(found) => {
            Some(found.iter().map(|(command, names)| format!("{command:?} changed {names:?}")).collect())
        }
    }
}

#[test]
fn every_row_that_reads_leaves_all_files_refs_and_sockets_untouched() {
    let table = include_str!("../../../tests/it/verdicts.tsv");
    let control = [('␊', '\n'), ('␍', '\r'), ('␀', '\0'), ('␛', '\u{1b}'), ('␇', '\u{7}')];
    let commands: Vec<String> = table
        .lines()
        .filter_map(|line| line.strip_prefix("ask\tallow\t"))
        .map(|text| {
            control.iter().fold(text.to_owned(), |text, (sign, c)| text.replace(*sign, &c.to_string()))
        })
        .collect();
    assert!(commands.len() >= 900, "{} rows", commands.len());
    let found = describe_changes(&commands).unwrap_or_default();
    assert!(
        found.is_empty(),
        "{} of {} changed something:\n{}",
        found.len(),
        commands.len(),
        found.join("\n")
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how a whole campaign is asked for")]
fn generated_commands_that_are_judged_reads_leave_all_files_refs_and_sockets_untouched() {
    let wanted =
        std::env::var("ZK_JUDGE_COMMANDS").ok().and_then(|text| text.parse().ok()).unwrap_or(TESTED_COMMANDS);
    let seed = std::env::var("ZK_JUDGE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(SEED);
    let kept = std::env::var_os("ZK_JUDGE_KEEP");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut ran, mut judged, mut found) = (0, 0, Vec::new());
    while ran < wanted {
        let (commands, tries) = reads(&mut random, ROUND_COMMANDS.min(wanted - ran));
        judged += tries;
        ran += commands.len();
        if let Some(file) = &kept {
            use std::io::Write as _;
            let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
            file.write_all(commands.join("\0").as_bytes()).unwrap();
            file.write_all(b"\0").unwrap();
        }
        let Some(more) = describe_changes(&commands) else { return };
        found.extend(more);
    }
    println!("{ran} of {judged} generated commands were judged reads and ran");
    assert!(found.is_empty(), "{} changed something:\n{}", found.len(), found.join("\n"));
}

use std::collections::BTreeMap;

use crate::support::Setup;

const TABLE: &str = include_str!("verdicts.tsv");

/// Rows of setup, verdict and command.
pub(crate) fn rows() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    TABLE.lines().filter(|line| !line.starts_with("# ")).map(|line| {
        let mut cells = line.splitn(3, '\t');
        let mut cell = || cells.next().unwrap_or_else(|| panic!("a cell is missing: {line}"));
        let (setup, verdict) = (cell(), cell());
        let control = [('␊', '\n'), ('␍', '\r'), ('␀', '\0'), ('␛', '\u{1b}'), ('␇', '\u{7}')];
        let control: BTreeMap<char, char> = control.into();
        (setup, verdict, cell().chars().map(|c| control.get(&c).copied().unwrap_or(c)).collect())
    })
}

#[test]
fn every_command_of_the_table_gets_its_verdict() {
    let mut setups = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (name, wanted, command) in rows() {
        count += 1;
        let setup: &Setup = setups.entry(name).or_insert_with(|| Setup::named(name));
        let verdict = setup.command(&command);
        if verdict.decision.name() != wanted {
            wrong.push(format!("{name}: `{}` should be {wanted}: {verdict}", command.escape_debug()));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 2_000, "{count} rows");
}

#[test]
fn a_long_text_that_is_not_understood_is_judged_in_time_that_its_length_allows() {
    let setup = Setup::named("auto");
    let begun = std::time::Instant::now();
    for line in ["rm x git -C git status foo\n", "unknown words of a document\n", "git branch --list\n"] {
        let text = format!("cat <<'E' > out\n{}E\n", line.repeat(300_000 / line.len()));
        setup.command(&text);
    }
    // A copy of all later words for each word would take hours.
    assert!(begun.elapsed() < std::time::Duration::from_secs(120));
    assert_eq!(
        setup.command(&format!("cat <<E\n{}rm -rf x\nE", "rm x\n".repeat(9_000))).decision.name(),
        "ask"
    );
}

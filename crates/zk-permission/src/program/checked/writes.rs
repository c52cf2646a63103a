use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use zk_core::model::Effect;

use super::{Takes, flags, output, reading_rows};
use crate::program::inspect_program;
use crate::program::tried::{describe_changes, is_read};
use crate::program::writers::{Role, WRITERS};
use crate::shell::quote_all;

/// Number of commands in an ordinary test run; the variable `ZK_JUDGE_FLAGS` overrides it.
const TESTED_COMMANDS: usize = 100;

/// Values that are tried for a flag.
const VALUES: [&str; 2] = ["1", "out"];

/// Operands tried after a flag.
const OPERANDS: [&[&str]; 2] = [&["a"], &["a", "b"]];

/// Every flag in each form of its value.
fn spellings(spec: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (flag, takes) in flags(spec) {
        match takes {
            Takes::Nothing => found.push(vec![flag.clone()]),
            Takes::NextWord => found.extend(VALUES.map(|value| vec![flag.clone(), value.to_owned()])),
        }
        // Optional values are part of the same word.
        let joined = if flag.starts_with("--") { format!("{flag}=out") } else { format!("{flag}out") };
        found.push(vec![joined]);
    }
    found
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how a whole campaign is asked for")]
fn every_flag_that_a_table_calls_a_read_leaves_all_files_untouched() {
    let mut commands = Vec::new();
    let (mut tried, mut all) = (0, 0);
    for (program, spec) in reading_rows() {
        if program == ["sleep"] {
            continue;
        }
        for spelling in spellings(spec) {
            // `shuf --repeat` never ends.
            if program == ["shuf"]
                && spelling.iter().any(|word| word.starts_with("-r") || word.starts_with("--rep"))
            {
                continue;
            }
            let lines = OPERANDS.map(|operands| {
                let words = program.iter().map(|word| (*word).to_owned()).chain(spelling.iter().cloned());
                quote_all(&words.chain(operands.iter().map(|word| (*word).to_owned())).collect::<Vec<_>>())
            });
            let reads: Vec<String> = lines.into_iter().filter(|line| is_read(line)).collect();
            all += 1;
            tried += usize::from(!reads.is_empty());
            commands.extend(reads);
        }
    }
    println!("{} commands with {tried} of {all} spellings of flags that are called reads", commands.len());
    let wanted = std::env::var("ZK_JUDGE_FLAGS").ok().and_then(|text| text.parse().ok());
    let step = commands.len().div_ceil(wanted.unwrap_or(TESTED_COMMANDS)).max(1);
    let commands: Vec<String> = commands.into_iter().step_by(step).collect();
    println!("{} of them run", commands.len());
    let Some(found) = describe_changes(&commands) else { return };
    assert!(found.is_empty(), "{} changed something:\n{}", found.len(), found.join("\n"));
}

/// Commands that the tables call writes, and that are not in the table of writers.
const WRITING: [&str; 16] = [
    "sort -o out a",
    "sort --output=out a",
    "sed -i s/1/2/ a",
    "sed --in-place=.bak s/1/2/ a",
    "sed -n 'w out' a",
    "uniq a out",
    "xxd a out",
    "xxd a -p",
    "find . -name b -delete",
    "find . -fprint out",
    "find . -exec touch out ;",
    "tree -o out",
    "git branch made",
    "git tag made",
    "git diff --output=out",
    "git config a.b c",
];

#[test]
fn commands_that_the_tables_call_writes_write() {
    let mut wrong = Vec::new();
    for line in WRITING {
        let words: Vec<String> = line.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect();
        let words = if line.contains("'w out'") {
            ["sed", "-n", "w out", "a"].map(str::to_owned).to_vec()
        } else {
            words
        };
        if is_read(&quote_all(&words)) {
            wrong.push(format!("{line}: it is called a read"));
        }
        let Some(changed) = changed_by(&words) else { continue };
        if changed.is_empty() {
            wrong.push(format!("{line}: it writes nothing"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every file below a directory with its time and content.
fn files(directory: &Path) -> BTreeMap<PathBuf, (u64, Vec<u8>)> {
    use std::os::unix::fs::MetadataExt as _;
    let (mut found, mut open) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(inside) = open.pop() {
        for entry in fs::read_dir(&inside).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            let (content, time) = if about.is_dir() {
                open.push(path.clone());
                (Vec::new(), 0)
            } else {
                let stamp = about.mtime().cast_unsigned() ^ about.mtime_nsec().cast_unsigned();
                // A pipe would be waited for.
                let content = if about.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
                (content, stamp ^ about.ino())
            };
            let more = u64::from(about.mode()) << 32;
            found.insert(path.strip_prefix(directory).unwrap().to_owned(), (more ^ time, content));
        }
    }
    found
}

/// Paths created, changed and removed by a program in a separate directory; `None` if the program is missing.
fn changed_by(words: &[String]) -> Option<Vec<PathBuf>> {
    let temp = tempfile::tempdir().unwrap();
    let is_of_git = words.first().is_some_and(|word| word == "git");
    let directory = if is_of_git { super::repository(temp.path()) } else { temp.path().join("directory") };
    fs::create_dir_all(directory.join("sub")).unwrap();
    fs::create_dir(directory.join("hollow")).unwrap();
    for name in ["a", "b", "sub/x"] {
        fs::write(directory.join(name), "1\n1\n").unwrap();
    }
    if is_of_git {
        output(&["git", "add", "a"], &directory);
    }
    fs::write(directory.join("a"), "1\n1\n2\n").unwrap();
    let before = files(&directory);
    let argv: Vec<&str> = words.iter().map(String::as_str).collect();
    output(&argv, &directory)?;
    let after = files(&directory);
    let is_other = |path: &&PathBuf| before.get(*path) != after.get(*path);
    let mut changed: Vec<PathBuf> = before.keys().chain(after.keys()).filter(is_other).cloned().collect();
    changed.sort();
    changed.dedup();
    Some(changed)
}

/// A path without `.` in it.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

#[test]
fn every_program_that_the_tables_call_a_writer_writes_what_its_words_name_and_nothing_else() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (program, role, spec) in WRITERS {
        let operands: &[&str] = match (role, *program) {
            (Role::WrittenBehindMode, "chmod") => &["600", "a"],
            (Role::WrittenBehindMode, _) => &["0", "a"],
            (_, "rmdir") => &["hollow"],
            (_, "mkdir" | "mkfifo") => &["new"],
            (Role::Written, _) => &["a"],
            (Role::Copied | Role::Moved | Role::Linked, _) => &["a", "new"],
        };
        let mut written = false;
        for flag in std::iter::once(Vec::new()).chain(spellings(spec)) {
            let mut words: Vec<String> = vec![(*program).to_owned()];
            words.extend(flag);
            words.extend(operands.iter().map(|word| (*word).to_owned()));
            let line = quote_all(&words);
            if is_read(&line) {
                wrong.push(format!("{line}: it is called a read"));
            }
            let Some(changed) = changed_by(&words) else { continue };
            count += 1;
            written |= !changed.is_empty();
            let leaves = inspect_program(&words);
            if leaves.iter().any(|leaf| leaf.unseen.files) {
                continue;
            }
            let named = leaves.iter().flat_map(|leaf| &leaf.effects).flat_map(|effect| match effect {
                Effect::Writes { paths } => paths.clone(),
                _ => Vec::new(),
            });
            let deep = leaves.iter().flat_map(|leaf| &leaf.deep_writes).map(PathBuf::from);
            let named: Vec<PathBuf> = named.chain(deep).map(|path| plain(&path)).collect();
            let is_named =
                |path: &PathBuf| named.iter().any(|named| path.starts_with(named) || named.starts_with(path));
            if let Some(path) = changed.iter().find(|path| !is_named(path)) {
                wrong.push(format!("{line}: it changes {}, and its row says {named:?}", path.display()));
            }
        }
        if !written && !matches!(*program, "chown" | "chgrp") {
            wrong.push(format!("{program}: it writes nothing"));
        }
    }
    println!("{count} commands of writers compared");
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

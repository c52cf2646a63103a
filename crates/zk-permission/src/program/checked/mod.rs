mod permutes;
mod writes;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{expressions, git, processes, scripts, table, writers};

/// A flag that no program has.
const STRANGE_FLAG: &str = "--zzzbogus";

/// Time that one program gets.
const PROGRAM_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    NextWord,
    Nothing,
}

/// Every flag of a table as written, and its use of the next word.
fn flags(spec: &str) -> Vec<(String, Takes)> {
    let mut found = Vec::new();
    for word in spec.split_ascii_whitespace().filter(|word| *word != "#") {
        if word.starts_with('-') {
            let takes = if word.ends_with(['=', '<', '!']) { Takes::NextWord } else { Takes::Nothing };
            found.push((word.trim_end_matches(['=', '<', '?', '!']).to_owned(), takes));
            continue;
        }
        let takes = if word.ends_with([':', '<', ';']) { Takes::NextWord } else { Takes::Nothing };
        let letters = word.chars().filter(|c| c.is_ascii_alphanumeric());
        found.extend(letters.map(|letter| (format!("-{letter}"), takes)));
    }
    found
}

/// Output of a program that runs in a separate directory; `None` if it is missing or does not end.
#[expect(
    clippy::disallowed_methods,
    reason = "the table is compared with the programs themselves, without the harness"
)]
fn output(argv: &[&str], directory: &Path) -> Option<String> {
    let (program, args) = argv.split_first()?;
    let text = std::fs::File::create(directory.join("../output")).ok()?;
    let mut child = Command::new(program)
        .args(args)
        .current_dir(directory)
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_PAGER", "cat")
        .stdin(Stdio::null())
        .stdout(text.try_clone().ok()?)
        .stderr(text)
        .spawn()
        .ok()?;
    let begun = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if begun.elapsed() > PROGRAM_LIMIT {
            child.kill().ok()?;
            child.wait().ok()?;
            return None;
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    let bytes = std::fs::read(directory.join("../output")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a program reports an unknown flag.
fn reports_unknown_flag(output: &str, flag: &str) -> bool {
    let name = flag.trim_start_matches('-');
    let complaints = [
        "unrecognized option",
        "unknown option",
        "unknown switch",
        "unrecognized argument",
        "unknown flag",
        "unrecognized flag",
        "invalid option",
        "unexpected argument",
        "not recognized",
        "Unknown option",
        "not an option",
        "unknown argument",
        "unsupported option",
        "illegal option",
    ];
    output.lines().any(|line| {
        let is_named = line.contains(flag)
            || line.contains(&format!("`{name}'"))
            || line.contains(&format!("'{name}'"))
            || line.contains(&format!("`{name}`"));
        let is_dash = flag == STRANGE_FLAG && (line.contains("-- '-'") || line.ends_with("-- -"));
        complaints.iter().any(|complaint| line.contains(complaint)) && (is_named || is_dash)
    })
}

/// Programs of the tables that only read, with their subcommand, and their flags.
fn reading_rows() -> Vec<(Vec<&'static str>, &'static str)> {
    let mut rows: Vec<(Vec<&str>, &str)> =
        table::READERS.iter().map(|row| (vec![row.name], row.flags)).collect();
    rows.extend(git::READERS.iter().map(|(name, flags, _)| match *name {
        // The table's flags are those of `git stash list` and `git worktree list`.
        "stash" | "worktree" => (vec!["git", *name, "list"], *flags),
        name => (vec!["git", name], *flags),
    }));
    rows.push((vec!["fd"], expressions::FD_FLAGS));
    rows.push((vec!["fdfind"], expressions::FD_FLAGS));
    rows.push((vec!["sed"], scripts::SED_FLAGS));
    rows.push((vec!["jq"], scripts::JQ_FLAGS));
    rows.push((vec!["ps"], processes::PS_FLAGS));
    rows
}

/// Directory that contains only a repository.
fn repository(temp: &Path) -> std::path::PathBuf {
    let directory = temp.join("empty");
    std::fs::create_dir(&directory).unwrap();
    for argv in [
        &["git", "init", "-q"][..],
        &["git", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "x"],
    ] {
        output(argv, &directory);
    }
    directory
}

#[test]
fn every_flag_of_the_tables_takes_of_the_next_word_what_its_program_takes() {
    let temp = tempfile::tempdir().unwrap();
    let directory = repository(temp.path());
    let mut rows = reading_rows();
    rows.extend(writers::WRITERS.iter().map(|(name, _, flags)| (vec![*name], *flags)));
    let (mut wrong, mut count, mut missing, mut seen) = (Vec::new(), 0, Vec::new(), Vec::new());
    for (program, spec) in rows {
        let name = program.join(" ");
        let argv = |more: &[&str]| program.iter().chain(more).copied().map(str::to_owned).collect::<Vec<_>>();
        let run = |more: &[&str]| {
            let argv = argv(more);
            output(&argv.iter().map(String::as_str).collect::<Vec<_>>(), &directory)
        };
        let Some(control) = run(&[STRANGE_FLAG]) else {
            missing.push(name);
            continue;
        };
        if !reports_unknown_flag(&control, STRANGE_FLAG) {
            // Program without flags, or one that takes all words for text.
            continue;
        }
        if !seen.contains(&program[0]) {
            seen.push(program[0]);
            let version = output(&[program[0], "--version"], &directory).unwrap_or_default();
            println!("{}: {}", program[0], version.lines().next().unwrap_or_default());
        }
        for (flag, takes) in flags(spec) {
            let Some(told) = run(&[&flag, STRANGE_FLAG]) else { continue };
            if told.starts_with("usage:") {
                continue;
            }
            if reports_unknown_flag(&told, &flag) {
                println!("{name} {flag}: not known to this version");
                continue;
            }
            count += 1;
            let took =
                if reports_unknown_flag(&told, STRANGE_FLAG) { Takes::Nothing } else { Takes::NextWord };
            if took == Takes::NextWord
                && takes == Takes::Nothing
                && run(&[&flag]).is_some_and(|alone| alone == told)
            {
                // The flag makes the program ignore the words after it, such as `--help`.
                continue;
            }
            if took != takes {
                let said = told.lines().next().unwrap_or_default();
                wrong.push(format!("{name} {flag}: the row says {takes:?}, the program {took:?}: {said}"));
            }
        }
    }
    println!("{count} flags compared; missing here: {}", missing.join(", "));
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

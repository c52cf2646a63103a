use super::{STRANGE_FLAG, output, reading_rows, reports_unknown_flag, repository};
use crate::program::{table, writers};

#[test]
fn every_program_takes_flags_behind_operands_where_its_row_says_so() {
    let temp = tempfile::tempdir().unwrap();
    let directory = repository(temp.path());
    std::fs::write(directory.join("a"), "1\n").unwrap();
    let mut rows: Vec<Vec<&str>> = reading_rows().into_iter().map(|(program, _)| program).collect();
    rows.extend(writers::WRITERS.iter().map(|(name, ..)| vec![*name]));
    let (mut wrong, mut count) = (Vec::new(), 0);
    for program in rows {
        let run = |more: &[&str]| output(&[&program, more].concat(), &directory);
        if !run(&[STRANGE_FLAG]).is_some_and(|told| reports_unknown_flag(&told, STRANGE_FLAG)) {
            // Program that is missing, has no flags, or takes all words for text.
            continue;
        }
        // Behind a file, git refuses flags and does not take them for operands.
        let operands: &[&str] = match program.as_slice() {
            ["git", "notes"] => &["list", "HEAD"],
            ["git", "remote"] => &["get-url", "a"],
            ["git", ..] => &["HEAD"],
            _ => &["a"],
        };
        let Some(told) = run(&[operands, &[STRANGE_FLAG]].concat()) else { continue };
        if told.contains("must come before non-option arguments") {
            // The program reports a wrong position and not an unknown flag.
            continue;
        }
        count += 1;
        let is_refused = reports_unknown_flag(&told, STRANGE_FLAG) || told.starts_with("usage:");
        let (name, permutes) = (program.join(" "), is_refused);
        println!("{name}: {}", if permutes { "flags anywhere" } else { "flags before operands" });
        if permutes != table::permutes(&name) {
            wrong.push(format!("{name}: the row says {}, the program {permutes}: {told}", !permutes));
        }
    }
    println!("{count} programs take flags as their rows say");
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

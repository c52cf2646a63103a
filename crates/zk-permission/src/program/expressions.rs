use super::flags::{Until, scan};
use super::{Inner, Outcome};
use crate::classifier::TreeWalk;

/// Outcome for programs whose arguments are a language of their own: conditions, directories, formats.
pub(super) fn outcome(name: &str, args: &[String]) -> Option<Outcome> {
    Some(match name {
        "[" | "test" => test_outcome(name, args),
        "cd" => cd_outcome(args),
        "printf" => printf_outcome(args),
        "set" => set_outcome(args),
        // `command NAME` is handled elsewhere.
        "command" => command_outcome(args),
        "fd" | "fdfind" => fd_outcome(args),
        _ => return None,
    })
}

fn test_outcome(name: &str, args: &[String]) -> Outcome {
    let (last, inside) = match args.split_last() {
        Some((last, inside)) if name == "[" => (Some(last.as_str()), inside),
        _ => (None, args),
    };
    if name == "[" && last != Some("]") {
        return Outcome::asks("`[` without `]`");
    }
    let mut reads = Vec::new();
    let mut words = inside.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "-e" | "-f" | "-d" | "-r" | "-w" | "-x" | "-s" | "-L" | "-h" | "-b" | "-c" | "-p" | "-S"
            | "-u" | "-g" | "-k" | "-O" | "-G" | "-N" => reads.extend(words.next()),
            "-n" | "-z" | "-t" => drop(words.next()),
            "=" | "==" | "!=" | "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" | "-nt" | "-ot" | "-ef"
            | "!" | "-a" | "-o" => {}
            // `-v` and `-R` evaluate the name that follows.
            flag if flag.starts_with('-') => return Outcome::asks(format!("`{name} {flag}` is not judged")),
            _ => {}
        }
    }
    Outcome::reads(reads)
}

fn cd_outcome(args: &[String]) -> Outcome {
    match scan("LP", args, Until::Dashes) {
        Ok(scanned) => match scanned.operands.as_slice() {
            [target] if !target.is_empty() && *target != "-" => {
                Outcome { goes_to: Some((*target).to_owned()), ..Outcome::reads([*target]) }
            }
            _ => Outcome { changes_shell: true, ..Outcome::asks("`cd` without a literal directory") },
        },
        Err(why) => Outcome { changes_shell: true, ..Outcome::asks(format!("`cd`: {why}")) },
    }
}

/// `-v` and `%n` set variables; `%(…)T` is rare and not supported.
fn printf_outcome(args: &[String]) -> Outcome {
    let refuse = |why: &str| Outcome { changes_shell: true, ..Outcome::asks(why.to_owned()) };
    let format = match args {
        [dashes, format, ..] if dashes == "--" => format,
        [format, ..] if !format.starts_with('-') => format,
        _ => return refuse("`printf` with a flag can set a variable"),
    };
    let mut rest = format.as_str();
    while let Some((_, behind)) = rest.split_once('%') {
        let conversion = behind.trim_start_matches(|c: char| c.is_ascii_digit() || "-+ #.*'".contains(c));
        let mut letters = conversion.chars();
        if !letters.next().is_some_and(|letter| "%sdiouxXcbqQeEfFgG".contains(letter)) {
            return refuse("`printf` with this format can set a variable");
        }
        rest = letters.as_str();
    }
    Outcome::default()
}

fn set_outcome(args: &[String]) -> Outcome {
    let mut words = args.iter().map(String::as_str);
    let mut is_harmless = !args.is_empty();
    while let Some(word) = words.next() {
        is_harmless &= match word {
            "-e" | "-u" | "-eu" | "-ue" | "+e" | "+u" => true,
            "-o" | "+o" | "-eo" | "-euo" | "-ueo" => {
                matches!(words.next(), Some("pipefail" | "errexit" | "nounset"))
            }
            _ => false,
        };
    }
    if is_harmless {
        return Outcome::default();
    }
    Outcome { changes_shell: true, ..Outcome::asks("`set` changes the shell itself") }
}

fn command_outcome(args: &[String]) -> Outcome {
    match args {
        [flag, names @ ..]
            if matches!(flag.as_str(), "-v" | "-V") && names.iter().all(|n| !n.starts_with('-')) =>
        {
            Outcome::default()
        }
        _ => Outcome::opaque("`command` without a program"),
    }
}

pub(super) const FD_FLAGS: &str = "HIsiagpLF01uq detESjc: --hidden --no-ignore --no-ignore-vcs --case-sensitive --ignore-case --glob --regex \
        --fixed-strings --absolute-path --follow --full-path --print0 --max-depth= --min-depth= --exact-depth= \
        --exclude= --type= --extension= --size= --changed-within= --changed-before= --color= --threads= \
        --max-results= --quiet --show-errors --unrestricted --one-file-system --prune --strip-cwd-prefix";

fn fd_outcome(args: &[String]) -> Outcome {
    if super::asks_about_itself(args) {
        return Outcome::default();
    }
    match scan(FD_FLAGS, args, Until::Dashes) {
        Ok(scanned) => {
            let roots = scanned.operands.get(1..).unwrap_or_default();
            let walk = TreeWalk {
                follows_links: scanned.has(&["L", "follow"]),
                reads_contents: false,
                skips_hidden: !scanned.has(&["H", "hidden", "u", "unrestricted"]),
                splits_names: false,
            };
            Outcome { trees: super::trees(roots, walk), ..Outcome::reads(roots.iter().copied()) }
        }
        Err(why) => Outcome::asks(format!("`fd`: {why}")),
    }
}

/// Tests of `find`, by the number of their arguments. Actions that start programs, delete or write are left
/// out.
const TESTS: &[(usize, &[&str])] = &[
    (
        0,
        &[
            "!",
            "(",
            ")",
            ",",
            "-a",
            "-and",
            "-o",
            "-or",
            "-not",
            "-daystart",
            "-depth",
            "-d",
            "-empty",
            "-executable",
            "-false",
            "-follow",
            "-ignore_readdir_race",
            "-ls",
            "-mount",
            "-nogroup",
            "-noleaf",
            "-nouser",
            "-print",
            "-print0",
            "-prune",
            "-quit",
            "-readable",
            "-true",
            "-warn",
            "-nowarn",
            "-writable",
            "-xdev",
        ],
    ),
    (
        1,
        &[
            "-amin",
            "-anewer",
            "-atime",
            "-cmin",
            "-cnewer",
            "-ctime",
            "-fstype",
            "-gid",
            "-group",
            "-ilname",
            "-iname",
            "-inum",
            "-ipath",
            "-iregex",
            "-iwholename",
            "-links",
            "-lname",
            "-maxdepth",
            "-mindepth",
            "-mmin",
            "-mtime",
            "-name",
            "-newer",
            "-path",
            "-perm",
            "-printf",
            "-regex",
            "-regextype",
            "-samefile",
            "-size",
            "-type",
            "-uid",
            "-used",
            "-user",
            "-wholename",
            "-xtype",
        ],
    ),
];

/// Actions of `find` that start a program.
const STARTS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// Programs that `find` starts, one for each `-exec`.
pub(super) fn find(args: &[String]) -> Option<Result<Inner, Outcome>> {
    let mut at = 0;
    let mut starts = Vec::new();
    let mut compared = Vec::new();
    let mut walk = TreeWalk::default();
    // Flags for links, then the paths to search.
    while let Some(word) = args.get(at) {
        match word.as_str() {
            "-L" => walk.follows_links = true,
            "-H" | "-P" => {}
            word if word.starts_with('-') || matches!(word, "!" | "(" | ")" | ",") => break,
            word => starts.push(word),
        }
        at += 1;
    }
    let mut ranges = Vec::new();
    let (mut only_files, mut is_one_chain) = (false, true);
    while let Some(word) = args.get(at).map(String::as_str) {
        if let Some((takes, _)) = TESTS.iter().find(|(_, names)| names.contains(&word)) {
            if args.len() - at <= *takes {
                return Some(Err(Outcome::asks(format!("`find {word}` without a value"))));
            }
            walk.follows_links |= word == "-follow";
            is_one_chain &= !matches!(word, "!" | "(" | ")" | "," | "-o" | "-or" | "-not");
            only_files |=
                word == "-type" && ranges.is_empty() && args.get(at + 1).is_some_and(|kind| kind == "f");
            if matches!(word, "-anewer" | "-cnewer" | "-newer" | "-samefile") {
                compared.extend(args.get(at + 1).map(String::as_str));
            }
            at += 1 + takes;
            continue;
        }
        if !STARTS.contains(&word) {
            let why = format!("`find {word}` is not known to be harmless");
            let starts_more = args.iter().skip(at).any(|word| STARTS.contains(&word.as_str()));
            // A program after such an action is not judged.
            let what = if starts_more { Outcome::opaque(why) } else { Outcome::asks(why) };
            let hazard = (word == "-delete").then_some(super::Hazard::Discards);
            return Some(Err(Outcome { hazard, ..what }));
        }
        let begin = at + 1;
        let length = args.get(begin..).unwrap_or_default().iter().position(|word| word == ";");
        let plus = args
            .get(begin..)
            .unwrap_or_default()
            .windows(2)
            .position(|pair| matches!(pair, [a, b] if a == "{}" && b == "+"));
        let (end, next) = match (length, plus) {
            (Some(semicolon), Some(plus)) if plus + 1 < semicolon => (begin + plus + 1, begin + plus + 2),
            (None, Some(plus)) => (begin + plus + 1, begin + plus + 2),
            (Some(semicolon), _) => (begin + semicolon, begin + semicolon + 1),
            (None, None) => return Some(Err(Outcome::opaque(format!("`find {word}` without an end")))),
        };
        // Index 0 of the arguments is index 1 of the command. A found name must not be the program.
        if args.get(begin).is_none_or(|program| program.contains("{}")) || begin == end {
            return Some(Err(Outcome::opaque(format!("`find {word}` runs what it finds"))));
        }
        ranges.push((begin + 1, end + 1));
        at = next;
    }
    let trees = super::trees(&starts, walk);
    // A program that opens a found link follows it.
    let follows_links = walk.follows_links || !only_files || !is_one_chain;
    let opened = super::trees(&starts, TreeWalk { follows_links, reads_contents: true, ..walk });
    let outcome = Outcome { trees, ..Outcome::reads(starts.into_iter().chain(compared)) };
    Some(Ok(Inner::Many { outcome, opened, ranges }))
}

/// Whether a command certainly only reads, so that it may run concurrently.
///
/// An argument grammar, not a list of prefixes: one plain program with flags known to be harmless. Every
/// character with a meaning to the shell, and every unlisted flag, counts as a change. Only decides about
/// concurrency, never about permission.
pub(super) fn only_reads(command: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b" _./,:@%+-=^".contains(&byte);
    if !command.bytes().all(plain) {
        return false;
    }
    let mut words = command.split_ascii_whitespace();
    let Some(program) = words.next() else { return false };
    let words: Vec<&str> = words.collect();
    if program == "git" {
        return git_only_reads(&words);
    }
    PROGRAMS.iter().any(|(name, flags)| *name == program && flags_known(&words, flags))
}

/// Programs with their harmless flags. Letters are single flags, which may be joined; words are long flags.
/// Digits after a letter, and `=value` after a word, belong to the flag.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("basename", &["a", "s", "z"]),
    ("cat", &["A", "b", "e", "E", "n", "s", "t", "T", "v", "number"]),
    ("cmp", &["b", "l", "s", "n"]),
    ("comm", &["1", "2", "3"]),
    ("cut", &["b", "c", "d", "f", "s", "complement"]),
    ("df", &["a", "h", "H", "i", "k", "l", "T"]),
    ("diff", &["b", "B", "c", "i", "q", "r", "s", "u", "U", "w", "y", "brief", "unified"]),
    ("dirname", &["z"]),
    ("du", &["a", "c", "d", "h", "k", "m", "s", "x", "max-depth"]),
    ("echo", &["n"]),
    ("egrep", GREP),
    ("false", &[]),
    ("fgrep", GREP),
    ("file", &["b", "i", "L", "mime-type"]),
    ("grep", GREP),
    ("head", &["c", "n", "q", "v", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]),
    ("id", &["g", "G", "n", "u"]),
    (
        "ls",
        &[
            "1",
            "a",
            "A",
            "C",
            "d",
            "F",
            "g",
            "G",
            "h",
            "i",
            "l",
            "L",
            "n",
            "o",
            "p",
            "r",
            "R",
            "s",
            "S",
            "t",
            "u",
            "x",
            "X",
            "all",
            "recursive",
            "human-readable",
        ],
    ),
    ("md5sum", &["b"]),
    ("nl", &["b"]),
    ("nproc", &[]),
    ("od", &["A", "c", "j", "N", "t", "v", "x"]),
    ("pwd", &["L", "P"]),
    ("readlink", &["e", "f", "m", "n"]),
    ("realpath", &["e", "m", "s", "relative-to"]),
    ("seq", &["s", "w"]),
    ("sha256sum", &["b"]),
    ("stat", &["c", "f", "L", "t", "format"]),
    ("strings", &["a", "n"]),
    ("tail", &["c", "n", "q", "v", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]),
    ("true", &[]),
    ("uname", &["a", "m", "n", "o", "p", "r", "s", "v"]),
    ("wc", &["c", "l", "L", "m", "w"]),
    ("which", &["a"]),
    ("whoami", &[]),
];

const GREP: &[&str] = &[
    "a",
    "A",
    "B",
    "c",
    "C",
    "e",
    "E",
    "F",
    "G",
    "h",
    "H",
    "i",
    "I",
    "l",
    "L",
    "m",
    "n",
    "o",
    "q",
    "r",
    "s",
    "v",
    "w",
    "x",
    "z",
    "include",
    "exclude",
    "exclude-dir",
    "color",
    "count",
    "max-count",
    "context",
];

/// Subcommands of git and their flags; no flag before the subcommand, and none that runs a program.
const GIT: &[(&str, &[&str])] = &[
    ("blame", &["L", "w", "s"]),
    ("ls-files", &["c", "d", "m", "o", "s", "t", "exclude-standard"]),
    ("rev-parse", &["abbrev-ref", "short", "show-toplevel", "git-dir", "is-inside-work-tree"]),
];

fn git_only_reads(words: &[&str]) -> bool {
    let Some((subcommand, rest)) = words.split_first() else { return false };
    // `status`, `log`, `diff` and `show` run programs of the repository's configuration (fsmonitor, text
    // conversion, pagers), and `status` writes the index.
    GIT.iter().any(|(name, flags)| name == subcommand && flags_known(rest, flags))
}

fn flags_known(words: &[&str], known: &[&str]) -> bool {
    words.iter().all(|word| {
        if let Some(long) = word.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            return name.is_empty() || (name.len() > 1 && known.contains(&name));
        }
        match word.strip_prefix('-') {
            None | Some("") => true,
            Some(letters) => {
                let digits = letters.trim_end_matches(|char: char| char.is_ascii_digit());
                let letters = if digits.is_empty() { letters } else { digits };
                letters.chars().all(|letter| known.iter().any(|flag| flag.chars().eq([letter])))
            }
        }
    })
}

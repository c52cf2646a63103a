use fastrand::Rng;

use crate::program::{expressions, git, scripts, table};

/// Words for any position: files, revisions, patterns, and words that look like flags.
const WORDS: [&str; 68] = [
    "a",
    "b",
    "a.txt",
    "b.txt",
    "names.txt",
    "src",
    "src/main.rs",
    "tests",
    "sub",
    ".",
    "./a",
    "link",
    "a.json",
    "a.bin",
    "new",
    "made",
    "out",
    "sub/out",
    "/p/a.txt",
    "/p",
    "HEAD",
    "HEAD~1",
    "main",
    "feature",
    "v1",
    "v2",
    "main..feature",
    "HEAD:a.txt",
    "origin/main",
    "stash@{0}",
    "refs/heads/main",
    "origin",
    "x",
    "fn",
    "TODO",
    "one",
    "1",
    "2",
    "5",
    "10",
    "3,4",
    "-",
    "--",
    "-1",
    "-x",
    "-o",
    "-w",
    "-D",
    "-d",
    "-f",
    "--output=out",
    "--output",
    "--delete",
    "list",
    "show",
    "add",
    "get-url",
    "%h",
    "+%F",
    "a=b",
    "''",
    "'a b'",
    "'*.rs'",
    "@a.txt",
    "*.txt",
    "src/*.rs",
    "a*",
    "-5",
];

/// Flags with which some programs write, delete, connect or start others.
const LOUD: [&str; 72] = [
    "-o",
    "-oout",
    "-o out",
    "--output=out",
    "--output out",
    "--outp=out",
    "-i",
    "-i.bak",
    "--in-place",
    "-w",
    "-W",
    "-D",
    "-d",
    "-m",
    "-M",
    "-c",
    "-C",
    "-f",
    "-F",
    "-O",
    "-Oout",
    "-x",
    "-X",
    "-e",
    "-s",
    "-S",
    "-T.",
    "-t",
    "-l",
    "-u",
    "-n",
    "-r",
    "-R",
    "-U",
    "-L",
    "-z",
    "-Z",
    "--delete",
    "--del",
    "--move",
    "--force",
    "--edit",
    "--edit-description",
    "--set-upstream-to=origin/main",
    "--unset-upstream",
    "--ext-diff",
    "--textconv",
    "--contents=a",
    "--write",
    "--index",
    "--refresh",
    "--no-index",
    "--stdin",
    "--exec='touch made'",
    "--pre='touch made'",
    "--compress-program='touch made'",
    "--open-files-in-pager='touch made'",
    "--upload-pack='touch made'",
    "--files0-from=a",
    "--output-directory=out",
    "--compile",
    "--set=0",
    "--follow",
    "--batch",
    "--gpg-sign",
    "--show-signature",
    "--create-reflog",
    "--track",
    "--recurse-submodules",
    "--expire=now",
    "--prune",
    "--no-optional-locks",
];

/// Values of flags.
const VALUES: [&str; 40] = [
    "1",
    "2",
    "10",
    "0",
    "x",
    "a",
    "a.txt",
    "out",
    "made",
    "src",
    "auto",
    "always",
    "never",
    "short",
    "full",
    "iso",
    "oneline",
    "'%h %s'",
    "'%(refname)'",
    "refname",
    "-refname",
    "HEAD",
    "main",
    "2020-01-01",
    "yesterday",
    "M",
    "A",
    "rs",
    "'*.rs'",
    "-o",
    "--output=out",
    "-D",
    "--",
    "=",
    "u",
    "1,3",
    "1,3:a.txt",
    "k",
    "f",
    "d",
];

/// Parts of scripts for `sed`.
const SED: [&str; 26] = [
    "p",
    "1p",
    "2,3p",
    "$p",
    "/one/p",
    "/one/,/two/p",
    "1d",
    "d",
    "q",
    "=",
    "n",
    "1!G",
    "h",
    "$!d",
    "s/one/two/",
    "s/one/two/gp",
    "s/one/two/w out",
    "s/one/touch made/e",
    "e touch made",
    "1e touch made",
    "w out",
    "$w out",
    "r a",
    "W out",
    "y/on/no/",
    "s|a|b|I",
];

/// Parts of scripts for `awk`.
const AWK: [&str; 20] = [
    "{print $1}",
    "{print}",
    "NR==2",
    "/one/",
    "END{print NR}",
    "{print > \"out\"}",
    "{print >> \"out\"}",
    "{print | \"sh\"}",
    "BEGIN{system(\"touch made\")}",
    "{\"touch made\" | getline}",
    "{s+=$1} END{print s}",
    "{printf \"%s\\n\", $2}",
    "$1 ~ /o/",
    "BEGIN{FS=\":\"}",
    "length($0) > 2",
    "{n=split($0,a,\":\"); print a[n]}",
    "BEGIN{printf \"x\" > \"/p/out\"}",
    "!seen[$0]++",
    "{gsub(/o/,\"0\")}1",
    "BEGIN{ARGV[1]=\"b\"}{print}",
];

/// Parts of scripts for `jq`.
const JQ: [&str; 8] = [".", ".a", ".items[].name", "keys", "length", "input", "env", ".a | map(. + 1)"];

/// Expressions of `find`.
const FIND: [&str; 40] = [
    "-name '*.rs'",
    "-type f",
    "-type d",
    "-maxdepth 1",
    "-mindepth 1",
    "-print",
    "-print0",
    "-ls",
    "-delete",
    "-fprint out",
    "-fprint0 out",
    "-fprintf out x",
    "-fls out",
    "-exec touch made ';'",
    "-exec cat {} ';'",
    "-exec grep -l one {} +",
    "-execdir ls {} ';'",
    "-ok touch made ';'",
    "-empty",
    "-newer a",
    "-size +1c",
    "-mtime -1",
    "-path ./src -prune",
    "-o",
    "!",
    "'(' -name a ')'",
    "-regex '.*'",
    "-printf '%p\\n'",
    "-perm 644",
    "-quit",
    "-L",
    "-follow",
    "-xdev",
    "-samefile a",
    "-user 0",
    "-not",
    "-iname A",
    "-links 1",
    "-depth",
    "-true",
];

/// Programs without a flag table, and programs that write.
const OTHERS: [&str; 44] = [
    "rm", "mv", "cp", "mkdir", "touch", "ln", "chmod", "tee", "dd", "truncate", "install", "tar", "gzip",
    "patch", "split", "make", "python3", "perl", "curl", "ssh", "test", "[", "printf", "cd", "set",
    "command", "column", "bc", "printenv", "ps", "env", "base64", "shuf", "getconf", "locale", "nm",
    "readelf", "objdump", "size", "ldd", "cal", "look", "iconv", "zcat",
];

/// Subcommands of git that the judge's tables lack, or describe with few flags.
const SUBCOMMANDS: [&str; 24] = [
    "add",
    "commit",
    "config",
    "config --get",
    "config --list",
    "checkout",
    "switch",
    "reset",
    "fetch",
    "gc",
    "fsck",
    "notes",
    "notes list",
    "update-index",
    "update-ref",
    "hash-object",
    "rev-parse",
    "submodule",
    "worktree",
    "apply",
    "archive",
    "bundle",
    "help",
    "bisect",
];

fn pick<'a>(random: &mut Rng, of: &[&'a str]) -> &'a str {
    of[random.usize(..of.len())]
}

/// A value for a flag or an operand.
fn value(random: &mut Rng) -> &'static str {
    if random.bool() { pick(random, &VALUES) } else { pick(random, &WORDS) }
}

/// Flag of a table in one of its written forms.
fn flag(random: &mut Rng, spec: &str) -> String {
    let words: Vec<&str> = spec.split_ascii_whitespace().collect();
    if words.is_empty() || random.u8(..12) == 0 {
        return pick(random, &LOUD).to_owned();
    }
    let word = words[random.usize(..words.len())];
    if word == "#" {
        return format!("-{}", random.u8(..30));
    }
    if word.starts_with('-') {
        let name = word.trim_end_matches(['=', '<', '?', '!']);
        let takes = name.len() < word.len();
        // Sometimes abbreviated, as `getopt_long` accepts it.
        let name = if random.u8(..6) == 0 && name.len() > 5 {
            name.get(..random.usize(5..name.len())).unwrap_or(name)
        } else {
            name
        };
        return match random.u8(..6) {
            0 => format!("{name} {}", value(random)),
            1 | 2 if takes => format!("{name}={}", value(random)),
            3 if takes => format!("{name} {}", value(random)),
            4 => format!("{name}={}", value(random)),
            _ => name.to_owned(),
        };
    }
    let letters: Vec<char> = word.chars().filter(char::is_ascii_alphanumeric).collect();
    let letter = letters[random.usize(..letters.len())];
    let takes = !word.ends_with(|c: char| c.is_ascii_alphanumeric());
    match random.u8(..8) {
        0 => format!("-{letter} {}", value(random)),
        1 | 2 if takes => format!("-{letter}{}", value(random)),
        3 | 4 if takes => format!("-{letter} {}", value(random)),
        5 => format!("-{letter}{}", letters[random.usize(..letters.len())]),
        6 => format!("-{letter}{}", value(random)),
        _ => format!("-{letter}"),
    }
}

/// Flags and operands in any order.
fn words(random: &mut Rng, spec: &str, first: &[String]) -> String {
    let mut words: Vec<String> = first.to_vec();
    for _ in 0..random.usize(..4) {
        words.push(flag(random, spec));
    }
    for _ in 0..random.usize(..4) {
        words.push(pick(random, &WORDS).to_owned());
    }
    if random.bool() {
        random.shuffle(&mut words);
    }
    words.join(" ")
}

fn script(random: &mut Rng, parts: &[&str], separator: &str) -> String {
    let count = random.usize(1..3);
    let text: Vec<&str> = (0..count).map(|_| pick(random, parts)).collect();
    format!("'{}'", text.join(separator))
}

fn program(random: &mut Rng) -> String {
    match random.u8(..20) {
        0..=6 => {
            let (name, flags, _) = git::READERS[random.usize(..git::READERS.len())];
            let before = if random.u8(..10) == 0 {
                pick(random, &["--no-pager ", "-P ", "-C sub ", "-C . ", "-c core.pager=x "])
            } else {
                ""
            };
            let first = match name {
                "stash" | "worktree" | "reflog" | "remote" if random.bool() => {
                    vec![
                        pick(random, &["list", "show", "get-url", "HEAD", "exists", "prune", "add"])
                            .to_owned(),
                    ]
                }
                _ => Vec::new(),
            };
            format!("git {before}{name} {}", words(random, flags, &first))
        }
        7 => format!(
            "git {} {}",
            pick(random, &SUBCOMMANDS),
            words(random, "q v --list --get --all --stdin", &[])
        ),
        8 => format!("sed {}", {
            let text = script(random, &SED, ";");
            words(random, scripts::SED_FLAGS, &[text])
        }),
        9 => format!("{} {}", pick(random, &["awk", "mawk", "gawk"]), {
            let text = script(random, &AWK, " ");
            words(random, "F: --field-separator= v:", &[text])
        }),
        10 => format!("jq {}", {
            let text = script(random, &JQ, " | ");
            words(random, scripts::JQ_FLAGS, &[text])
        }),
        11 => {
            let roots = pick(random, &["", ".", "src", "a sub", "-L .", "-P src"]);
            let tests: Vec<&str> = (0..random.usize(..4)).map(|_| pick(random, &FIND)).collect();
            format!("find {roots} {}", tests.join(" "))
        }
        12 => format!("{} {}", pick(random, &["fd", "fdfind"]), words(random, expressions::FD_FLAGS, &[])),
        13 if random.u8(..4) == 0 => {
            format!(
                "ps {}",
                words(random, "abcefhjlmnorstuvwxzATENOUkp --sort= --format= --forest", &["aux".to_owned()])
            )
        }
        13 => format!(
            "{} {}",
            pick(random, &OTHERS),
            words(random, "abcdefhilnopqrstuvwxz --list --help --version --decode", &[])
        ),
        _ => {
            let row = table::READERS[random.usize(..table::READERS.len())];
            // A `sleep` would only wait.
            if row.name == "sleep" {
                "true".to_owned()
            } else {
                format!("{} {}", row.name, words(random, row.flags, &[]))
            }
        }
    }
}

/// A command line.
pub(super) fn command(random: &mut Rng) -> String {
    let own = program(random);
    match random.u8(..24) {
        0 => format!("env {own}"),
        1 => format!("timeout 9 {own}"),
        2 => format!("{own} | {}", program(random)),
        3 => format!("cd src && {own}"),
        4 => format!("{own} 2>&1 > {}", pick(random, &["out", "/dev/null", "made"])),
        5 => format!("bash -c \"{own}\""),
        6 => format!("{own} < {}", pick(random, &WORDS)),
        7 => format!("command {own}"),
        8 => {
            let names = [
                "find src -type f",
                "find . -type f -print0",
                "grep -rl one .",
                "rg --files src",
                "ls",
                "cat a",
            ];
            let flags = pick(random, &["", "", "-0", "-n 1", "-r", "-I{}"]);
            format!("{} | xargs {flags} {own}", pick(random, &names))
        }
        _ => own,
    }
}

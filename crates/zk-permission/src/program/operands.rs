use super::flags::{Until, scan};
use super::{Inner, Tree, asks_about_itself, base_name, expressions, outcome, table, trees, wrappers};
use crate::classifier::TreeWalk;
use crate::shell::{Command, Redirect};

/// Whether a program only reads the files that replace `{}`, however many there are. Their paths begin with a
/// directory, so none looks like a flag.
pub(super) fn reads_all_operands(argv: &[String]) -> bool {
    let Some((word, args)) = argv.split_first() else { return false };
    let reads = table::find(base_name(word)).is_some_and(|row| match row.operands {
        table::Operands::Files | table::Operands::PatternThenFiles(_) => {
            !matches!(row.name, "strings" | "tree")
        }
        _ => false,
    });
    reads && args.iter().all(|arg| arg == "{}" || !arg.contains("{}"))
}

/// Whether a program starts no other program, whatever words it gets.
pub(super) fn takes_any_words(name: &str) -> bool {
    matches!(
        name,
        "basename"
            | "cat"
            | "chmod"
            | "chown"
            | "cp"
            | "cut"
            | "dirname"
            | "du"
            | "echo"
            | "file"
            | "grep"
            | "head"
            | "ls"
            | "md5sum"
            | "mkdir"
            | "mv"
            | "realpath"
            | "rm"
            | "rmdir"
            | "sha256sum"
            | "stat"
            | "tail"
            | "touch"
            | "wc"
    )
}

/// Whether a program only reads all words that are appended to these; none of them is a flag.
pub(super) fn reads_appended_words(argv: &[String]) -> bool {
    let Some((word, args)) = argv.split_first() else { return false };
    reads_all_operands(argv) && outcome(base_name(word), args, false).changes.is_none()
}

/// Whether a program only reads the files that it names, even if a file name becomes several words.
pub(crate) fn reads_whatever_it_names(argv: &[String]) -> bool {
    let Some((word, args)) = argv.split_first() else { return false };
    (reads_all_operands(argv) || base_name(word) == "sed") && !asks_about_itself(args)
}

/// Flags of `grep` with which it still prints file names only.
const GREP_NAME_FLAGS: &str = "lLrinwFEGPIsHTZ e: --files-with-matches --files-without-match --fixed-strings --ignore-case \
    --word-regexp --recursive --null --regexp= --include= --exclude= --exclude-dir=";

/// Flags of `rg` with which it still prints file names only. Its `-L` follows links.
const RG_NAME_FLAGS: &str = "linwFPIsSuH0 egtT: --files --files-with-matches --files-without-match --fixed-strings \
    --ignore-case --word-regexp --hidden --no-ignore --null --regexp= --glob= --iglob= --type= --type-not= --max-depth=";

/// Trees whose file names are the whole output of a command, as the following `xargs` reads it; `None` for
/// any other output or input.
pub(crate) fn printed_names(command: &Command, xargs: &Command) -> Option<Vec<Tree>> {
    let ends_with_nul = wrappers::reads_names_until_nul(&xargs.words)?;
    let is_quiet =
        |redirect: &Redirect| matches!(redirect, Redirect::Write { path, .. } if path == "/dev/null");
    if !command.assignments.is_empty() || !command.redirects.iter().all(is_quiet) {
        return None;
    }
    let (name, args) = command.words.split_first()?;
    let found = match base_name(name) {
        "find" => {
            // A file name that does not end as `xargs` expects becomes part of a word, or several words.
            let other_end = if ends_with_nul { "-print" } else { "-print0" };
            let prints_more = |word: &String| matches!(word.as_str(), "-printf" | "-ls") || word == other_end;
            if ends_with_nul && !args.iter().any(|word| word == "-print0") {
                return None;
            }
            match expressions::find(args)?.ok()? {
                Inner::Many { opened, ranges, .. } if ranges.is_empty() && !args.iter().any(prints_more) => {
                    opened
                }
                _ => return None,
            }
        }
        name @ ("grep" | "rg") => {
            let spec = if name == "rg" { RG_NAME_FLAGS } else { GREP_NAME_FLAGS };
            let scanned = scan(spec, args, Until::Dashes).ok()?;
            let lists_all = name == "rg" && scanned.has(&["files"]);
            if !lists_all && !scanned.has(&["l", "files-with-matches", "files-without-match"]) {
                return None;
            }
            if ends_with_nul != scanned.has(&["null", if name == "rg" { "0" } else { "Z" }]) {
                return None;
            }
            let has_pattern = lists_all || scanned.has(&["e", "regexp"]);
            let roots = scanned.operands.get(usize::from(!has_pattern)..).unwrap_or_default();
            trees(roots, TreeWalk { reads_contents: true, ..TreeWalk::default() })
        }
        _ => return None,
    };
    // File names begin with the directory; one that begins with `-` or `@` would be more than a name.
    let is_word = |tree: &Tree| {
        !tree.root.starts_with(['-', '@'])
            && tree.root.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/+=@,".contains(&byte))
    };
    let split = |tree: Tree| Tree { walk: TreeWalk { splits_names: true, ..tree.walk }, ..tree };
    found.iter().all(is_word).then(|| found.into_iter().map(split).collect())
}

use super::flags::{Until, scan};
use super::{Inner, Tree, asks_about_itself, base_name, expressions, outcome, table, trees, wrappers};
use crate::classifier::TreeWalk;
use crate::shell::{Command, Redirect};

/// Whether a program only reads what stands for `{}`, however many files that are. Their names begin with a directory, so
/// that none looks like a flag.
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

/// Whether a program starts no other whatever words it is given.
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

/// Whether a program reads all words that are put behind these, of which none is a flag.
pub(super) fn reads_more(argv: &[String]) -> bool {
    let Some((word, args)) = argv.split_first() else { return false };
    reads_all_operands(argv) && outcome(base_name(word), args, false).changes.is_none()
}

/// Whether a program only reads the files that it names, however many words a name becomes.
pub(crate) fn reads_whatever_it_names(argv: &[String]) -> bool {
    let Some((word, args)) = argv.split_first() else { return false };
    (reads_all_operands(argv) || base_name(word) == "sed") && !asks_about_itself(args)
}

/// Flags of `grep` that leave it so that the output is names of files.
const GREP_NAME_FLAGS: &str = "lLrinwFEGPIsHTZ e: --files-with-matches --files-without-match --fixed-strings --ignore-case \
    --word-regexp --recursive --null --regexp= --include= --exclude= --exclude-dir=";

/// Flags of `rg` that leave it so that the output is names of files. Its `-L` follows links.
const RG_NAME_FLAGS: &str = "linwFPIsSuH0 egtT: --files --files-with-matches --files-without-match --fixed-strings \
    --ignore-case --word-regexp --hidden --no-ignore --null --regexp= --glob= --iglob= --type= --type-not= --max-depth=";

/// Trees whose names are all that a command prints, as `xargs` behind it reads them; nothing if it prints or gets
/// anything else.
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
            // A name that ends otherwise than `xargs` expects is a part of a word, or of more than one.
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
    // The names begin as the directory does, and `-` and `@` make more of a word than a name.
    let is_word = |tree: &Tree| {
        !tree.root.starts_with(['-', '@'])
            && tree.root.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/+=@,".contains(&byte))
    };
    let split = |tree: Tree| Tree { walk: TreeWalk { splits_names: true, ..tree.walk }, ..tree };
    found.iter().all(is_word).then(|| found.into_iter().map(split).collect())
}

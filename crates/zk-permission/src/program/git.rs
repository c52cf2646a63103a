use super::flags::{Scanned, Until, scan};
use super::{Hazard, Outcome, Tree, Unseen};
use crate::classifier::TreeWalk;
use zk_core::model::Effect;

/// Operands of a read-only subcommand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// Any revisions and paths.
    Any,
    None,
    AtMost(usize),
    /// Any operands, with one of these flags; without it the subcommand writes.
    Only(&'static [&'static str]),
    /// Any operands after one of these flags; none without it.
    WithFlag(&'static [&'static str]),
    /// Any operands after a first word out of these.
    First(&'static [&'static str]),
}

const LOG: &str = "pusbwaRizqmcvtrgEFP nGSlL: O< U? M? C? B? D? # --oneline --graph --all --branches? --tags? --remotes? --stat? \
    --numstat --shortstat --dirstat? --summary --name-only --name-status --patch --no-patch --raw --color? --no-color \
    --abbrev-commit --no-abbrev-commit --abbrev? --decorate? --no-decorate --date= --format? --pretty? --since= \
    --after= --until= --before= --author= --committer= --grep= --all-match --invert-grep --regexp-ignore-case \
    --extended-regexp --fixed-strings --perl-regexp --max-count= --skip= --reverse --first-parent --merges \
    --no-merges --follow --full-history --topo-order --date-order --author-date-order --left-right --cherry-pick \
    --cherry-mark --cherry --boundary --not --unified? --word-diff? --word-diff-regex= --color-words? --ignore-all-space \
    --ignore-space-change --ignore-space-at-eol --ignore-blank-lines --ignore-cr-at-eol --minimal --patience \
    --histogram --diff-algorithm= --diff-filter= --find-renames? --find-copies? --no-renames --full-index --binary \
    --text --exit-code --quiet --check --cached --staged --merge-base --no-ext-diff --no-textconv --relative? \
    --no-relative --inter-hunk-context= --function-context --no-prefix --source --walk-reflogs --simplify-by-decoration \
    --ancestry-path --parents --children --no-notes --notes? --submodule? --ignore-submodules? --compact-summary \
    --no-walk? --do-walk --left-only --right-only --objects --max-parents? --min-parents? --no-commit-id --cc --full-diff --reflog \
    --show-pulls --expand-tabs? --no-expand-tabs --no-graph --src-prefix= --dst-prefix= --line-prefix= --ws-error-highlight= \
    --pickaxe-all --pickaxe-regex --no-color-moved --color-moved? --encoding= --count --no-mailmap --mailmap";

const BLAME: &str = "lstpcfnweb M? C? L: S< --porcelain --line-porcelain --root --show-stats --date= --abbrev? --show-name \
    --show-number --show-email --color-lines --color-by-age --since= --incremental --score-debug --first-parent";

/// Read-only subcommands, with the flags that keep them read-only.
pub(super) const READERS: &[(&str, &str, Operands)] = &[
    ("annotate", BLAME, Operands::Any),
    (
        "apply",
        "p: Rv --stat --numstat --summary --check --recount --reverse --verbose --unidiff-zero",
        Operands::Only(&["stat", "numstat", "summary", "check"]),
    ),
    ("blame", BLAME, Operands::Any),
    (
        "branch",
        "arvl --all --remotes --list --show-current --verbose --contains! --no-contains! --merged! --no-merged! \
        --points-at= --sort= --format= --color? --no-color --column? --no-column --abbrev? --no-abbrev --ignore-case",
        Operands::WithFlag(&["l", "list", "contains", "no-contains", "merged", "no-merged"]),
    ),
    ("cat-file", "tspe --batch-check? --batch? --allow-unknown-type", Operands::Any),
    ("check-attr", "az --all --cached --source=", Operands::Any),
    ("check-ignore", "qvn --quiet --verbose --non-matching --no-index", Operands::Any),
    (
        "check-ref-format",
        "--branch --normalize --allow-onelevel --no-allow-onelevel --refspec-pattern",
        Operands::Any,
    ),
    ("cherry", "v --abbrev?", Operands::Any),
    ("count-objects", "vH --verbose --human-readable", Operands::None),
    (
        // Without `--dirty` and `--broken`, which rewrite the index.
        "describe",
        "--all --tags --contains --abbrev? --candidates= --exact-match --always --long --match= --exclude= \
        --first-parent",
        Operands::Any,
    ),
    ("diff", LOG, Operands::Any),
    ("diff-files", LOG, Operands::Any),
    ("diff-index", LOG, Operands::Any),
    ("diff-tree", LOG, Operands::Any),
    (
        "for-each-ref",
        "--count= --sort= --format= --contains! --merged! --no-merged! --points-at= --ignore-case",
        Operands::Any,
    ),
    (
        "grep",
        "acEFGhHiIlLnoPpqvwWz ABCem: f< # --cached --untracked --no-index --count --line-number --column \
        --files-with-matches --name-only --files-without-match --null --only-matching --quiet --break --heading \
        --show-function --context= --after-context= --before-context= --function-context --ignore-case --word-regexp \
        --invert-match --full-name --extended-regexp --basic-regexp --perl-regexp --fixed-strings --all-match --and \
        --or --not --text --color? --no-color --max-depth= --max-count= --recurse-submodules --threads=",
        Operands::Any,
    ),
    ("hash-object", "t: --no-filters", Operands::Any),
    ("log", LOG, Operands::Any),
    (
        "ls-files",
        "cdmoistukvfz x: X< --cached --deleted --modified --others --ignored --stage --unmerged --killed \
        --exclude= --exclude-standard --error-unmatch --full-name --abbrev? --eol --deduplicate --directory \
        --no-empty-directory --recurse-submodules --format= --with-tree=",
        Operands::Any,
    ),
    (
        "ls-tree",
        "drtlz --long --name-only --name-status --object-only --full-name --full-tree --abbrev? --format=",
        Operands::Any,
    ),
    ("merge-base", "a --all --octopus --independent --is-ancestor --fork-point", Operands::Any),
    ("name-rev", "--tags --refs= --exclude= --all --always --name-only", Operands::Any),
    ("notes", "", Operands::First(&["list", "show"])),
    ("range-diff", LOG, Operands::Any),
    ("reflog", LOG, Operands::First(&["show", "HEAD", "exists"])),
    ("remote", "v --verbose --all --push", Operands::First(&["get-url"])),
    ("rev-list", LOG, Operands::Any),
    (
        "rev-parse",
        "q --abbrev-ref? --short? --verify --quiet --show-toplevel --show-prefix --show-cdup --git-dir \
        --git-common-dir --absolute-git-dir --is-inside-work-tree --is-inside-git-dir --is-bare-repository --symbolic \
        --symbolic-full-name --all --branches? --tags? --remotes? --is-shallow-repository --show-object-format? \
        --git-path= --show-superproject-working-tree --not",
        Operands::Any,
    ),
    (
        "shortlog",
        "nsec w? --numbered --summary --email --committer --group= --since= --until= --author= --all --no-merges",
        Operands::Any,
    ),
    ("show", LOG, Operands::Any),
    (
        "show-branch",
        "ar --all --remotes --current --topo-order --sparse --list --merge-base --sha1-name --no-name",
        Operands::Any,
    ),
    (
        "show-ref",
        "dqs --head --heads --branches --tags --dereference --hash? --abbrev? --verify --quiet --exists",
        Operands::Any,
    ),
    ("stash", LOG, Operands::First(&["list", "show"])),
    (
        "status",
        "sbvz u? M? --short --branch --show-stash --porcelain? --long --verbose --untracked-files? \
        --ignore-submodules? --ignored? --column? --no-column --ahead-behind --no-ahead-behind --renames --no-renames \
        --find-renames?",
        Operands::Any,
    ),
    ("symbolic-ref", "q --quiet --short", Operands::AtMost(1)),
    (
        "tag",
        "ln? i --list --contains! --no-contains! --merged! --no-merged! --points-at= --sort= --format= --column? \
        --no-column --color? --ignore-case",
        Operands::WithFlag(&["l", "list", "contains", "no-contains", "merged", "no-merged"]),
    ),
    ("var", "", Operands::AtMost(1)),
    ("version", "--build-options", Operands::None),
    ("whatchanged", LOG, Operands::Any),
    ("worktree", "v --porcelain --verbose z", Operands::First(&["list"])),
];

/// Flags before the subcommand that do not affect the programs that run.
pub(crate) const HARMLESS_BEFORE: [&str; 5] =
    ["--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"];

/// Flags before the subcommand with a value in the next word.
const VALUE_BEFORE: [&str; 8] =
    ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--super-prefix"];

/// Hazard of a git command whose end is unknown; `Err` with a subcommand that has no hazard at any later
/// position either.
pub(super) fn hazard_of_open_text(args: &[String]) -> Result<Hazard, &str> {
    let near = args.get(..MAX_OPEN_WORDS).unwrap_or(args);
    let Some((at, _)) = subcommand(near) else {
        return if near.len() < args.len() { Ok(Hazard::Discards) } else { Err("") };
    };
    let of_setting = near.iter().take(at).enumerate().find_map(|(before, word)| {
        let (_, alias) = word.split_once('=')?;
        hazard(alias, near.get(before + 1..).unwrap_or_default())
    });
    if let Some(hazard) = of_setting {
        return Ok(hazard);
    }
    let name = args.get(at).map(String::as_str).unwrap_or_default();
    let Some(found) = hazard(name, args.get(at + 1..).unwrap_or_default()) else { return Err(name) };
    let is_reader = near.len() == args.len() && outcome(args).hazard.is_none();
    if is_reader { Err("") } else { Ok(found) }
}

/// Maximum number of words that are tried as flags before a subcommand, in a text that cannot be parsed.
const MAX_OPEN_WORDS: usize = 64;

/// Index of the subcommand, and whether all flags before it are harmless.
pub(crate) fn subcommand(args: &[String]) -> Option<(usize, bool)> {
    let mut at = 0;
    let mut is_harmless = true;
    while let Some(word) = args.get(at).map(String::as_str) {
        if !word.starts_with('-') {
            return Some((at, is_harmless));
        }
        is_harmless &= HARMLESS_BEFORE.contains(&word);
        at += if VALUE_BEFORE.contains(&word) { 2 } else { 1 };
    }
    None
}

pub(super) fn outcome(args: &[String]) -> Outcome {
    if matches!(args, [only] if only == "--version") {
        return Outcome::default();
    }
    if let [flag, directory, rest @ ..] = args
        && flag == "-C"
        && !directory.is_empty()
        && rest.first().is_some_and(|word| !word.starts_with('-'))
    {
        // Judged as if git ran in that directory.
        let inside = outcome(rest);
        if inside.changes.is_none() {
            return Outcome { git_directory: Some(directory.clone()), ..inside };
        }
    }
    let Some((at, is_harmless)) = subcommand(args) else { return asks("`git` without a subcommand", None) };
    let name = args.get(at).map(String::as_str).unwrap_or_default();
    let rest = args.get(at + 1..).unwrap_or_default();
    if !is_harmless {
        let before = args.get(..at).unwrap_or_default();
        let hazard = hazard(name, rest).or_else(|| before.iter().find_map(|word| hazard_of_setting(word)));
        return asks("`git` with flags before its subcommand can run programs", hazard);
    }
    if name == "config" && shows_plain_key(rest) {
        return Outcome { reads_repository: true, ..Outcome::default() };
    }
    let Some((_, flags, operands)) = READERS.iter().find(|(known, ..)| *known == name) else {
        let asks = asks(&format!("`git {name}` changes something or is not known"), hazard(name, rest));
        let unseen = if starts_no_named_program(name, rest) { Unseen::FILES } else { Unseen::ALL };
        return Outcome { unseen, ..asks };
    };
    let permutes = super::table::permutes(&format!("git {name}"));
    let until = if permutes { Until::Dashes } else { Until::Operand };
    let scanned = match scan(flags, rest, until) {
        Ok(scanned) => scanned,
        Err(why) => return asks(&format!("`git {name}`: {why}"), hazard(name, rest)),
    };
    let count = scanned.operands.len();
    let fits = match operands {
        Operands::Any => true,
        Operands::None => count == 0,
        Operands::AtMost(most) => count <= *most,
        Operands::Only(names) => scanned.has(names),
        Operands::WithFlag(names) => count == 0 || scanned.has(names),
        // After a flag, `list` is no longer a subcommand but a path to stash.
        Operands::First(names) if count > 0 => {
            rest.first().is_some_and(|first| names.contains(&first.as_str()))
        }
        Operands::First(_) => !matches!(name, "stash" | "worktree"),
    };
    if !fits {
        return asks(&format!("`git {name}` with these operands may change something"), hazard(name, rest));
    }
    // `%G` verifies signatures with a program that the configuration names.
    let formats = ["format", "pretty", "sort"];
    if scanned.values(&formats).any(|format| format.contains("%G") || format.contains("signature")) {
        return asks(&format!("`git {name}` with this format runs a program"), None);
    }
    let mut trees = Vec::new();
    if name == "grep" && scanned.has(&["untracked", "no-index"]) {
        trees.push(Tree {
            root: ".".to_owned(),
            walk: TreeWalk { reads_contents: true, ..TreeWalk::default() },
        });
    }
    let outside =
        rest.iter().map(String::as_str).filter(|word| !word.starts_with('-') && may_leave_repository(word));
    let read = Outcome::reads(outside.chain(scanned.reads.iter().copied()));
    let (mentions, unseen) = shown_contents(name, rest, &scanned);
    Outcome { reads_repository: true, trees, mentions, unseen, ..read }
}

/// Whether `git config` only prints values of a section without credentials.
fn shows_plain_key(args: &[String]) -> bool {
    let scopes = ["--global", "--local", "--system", "--worktree"];
    let mut words = args.iter().map(String::as_str).filter(|word| !scopes.contains(word)).peekable();
    let is_pattern = words.next_if_eq(&"--get-regexp").is_some();
    words.next_if(|word| !is_pattern && matches!(*word, "--get" | "--get-all" | "get"));
    let sections = [
        "branch", "color", "commit", "core", "diff", "fetch", "init", "merge", "pull", "push", "remote",
        "user",
    ];
    match (words.next(), words.next()) {
        (Some(pattern), None) if is_pattern => pattern.strip_prefix('^').is_some_and(|pattern| {
            let (section, name) = pattern.split_once('.').unwrap_or_default();
            sections.contains(&section.strip_suffix('\\').unwrap_or(section))
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-./_\\$".contains(&byte))
        }),
        (Some(key), None) => key.split_once('.').is_some_and(|(section, name)| {
            sections.contains(&section)
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-./_".contains(&byte))
        }),
        _ => false,
    }
}

/// Files whose contents a read-only subcommand shows, of any revision; and whether further files are
/// possible.
fn shown_contents(name: &str, rest: &[String], scanned: &Scanned<'_>) -> (Vec<String>, Unseen) {
    let patch = [
        "p",
        "u",
        "c",
        "L",
        "G",
        "S",
        "U",
        "patch",
        "unified",
        "word-diff",
        "color-words",
        "function-context",
    ];
    let shows = match name {
        "annotate" | "blame" | "cat-file" | "diff" | "diff-files" | "diff-index" | "diff-tree" | "grep"
        | "range-diff" | "show" => true,
        "log" | "reflog" | "rev-list" | "stash" | "whatchanged" => scanned.has(&patch),
        _ => false,
    };
    let is_brief =
        scanned.has(&["stat", "name-only", "name-status", "numstat", "shortstat", "s", "no-patch", "t", "e"]);
    if !shows || (is_brief && !scanned.has(&patch)) {
        return (Vec::new(), Unseen::default());
    }
    let of_dashes = rest.iter().position(|word| word == "--").and_then(|at| rest.get(at + 1..));
    let of_words =
        || scanned.operands.iter().map(|word| word.split_once(':').map_or(*word, |(_, path)| path));
    let mentions: Vec<String> =
        of_words().map(|word| if word.is_empty() { "." } else { word }.to_owned()).collect();
    let lines =
        scanned.values(&["L"]).filter_map(|value| value.rsplit_once(':')).map(|(_, path)| path.to_owned());
    let names_all = match of_dashes {
        Some(paths) => !paths.is_empty() && paths.iter().all(|path| !path.starts_with(':')),
        None => {
            matches!(name, "annotate" | "blame")
                || (!scanned.operands.is_empty()
                    && scanned
                        .operands
                        .iter()
                        .all(|word| word.split_once(':').is_some_and(|(_, path)| !path.is_empty())))
        }
    };
    let unseen = if names_all { Unseen::default() } else { Unseen::FILES };
    (mentions.into_iter().chain(lines).collect(), unseen)
}

/// Whether a writing subcommand starts no program that its arguments name. Hooks are not considered.
fn starts_no_named_program(name: &str, args: &[String]) -> bool {
    const QUIET: [&str; 24] = [
        "add",
        "apply",
        "branch",
        "checkout",
        "cherry-pick",
        "clean",
        "commit",
        "gc",
        "init",
        "merge",
        "mv",
        "notes",
        "prune",
        "rebase",
        "reset",
        "restore",
        "revert",
        "rm",
        "sparse-checkout",
        "stash",
        "switch",
        "tag",
        "update-index",
        "worktree",
    ];
    let names_program = |word: &&String| {
        ["--exec", "--strategy", "--strategy-option", "--template", "--edit", "--interactive"]
            .iter()
            .any(|flag| is_abbreviation(word, flag))
            || ["-x", "-s", "-X", "-i"].iter().any(|flag| {
                word.starts_with(flag) && matches!(name, "rebase" | "merge" | "cherry-pick" | "revert")
            })
            || (name == "rebase"
                && word.starts_with('-')
                && !word.starts_with("--")
                && word.contains(['x', 's', 'X', 'i']))
    };
    QUIET.contains(&name) && !args.iter().any(|word| names_program(&word))
}

/// Whether a word is a long flag or an abbreviation of it, with or without a value.
fn is_abbreviation(word: &str, flag: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    name.len() > 2 && flag.starts_with(name)
}

/// Hazard of a setting before the subcommand, since it may define an alias.
fn hazard_of_setting(setting: &str) -> Option<Hazard> {
    let (_, value) = setting.split_once('=')?;
    let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
    let of_alias = words.split_first().and_then(|(name, rest)| hazard(name, rest));
    of_alias.or_else(|| super::hazard_in(value.trim_start_matches('!')))
}

/// Whether an operand may be a file outside of the repository, which commands such as `git diff` would read.
fn may_leave_repository(word: &str) -> bool {
    word.starts_with('/') || word.split('/').any(|part| part == "..")
}

fn asks(why: &str, hazard: Option<Hazard>) -> Outcome {
    let argv = vec!["git".to_owned()];
    let mut effects = vec![Effect::Executes { command: None, argv }];
    if matches!(hazard, Some(Hazard::Network | Hazard::Publishes)) {
        effects.push(Effect::Network { hosts: Vec::new() });
    }
    Outcome { effects, hazard, ..Outcome::asks(why) }
}

fn hazard(name: &str, args: &[String]) -> Option<Hazard> {
    let has = |words: &[&str]| {
        let is_one = |arg: &str, word: &str| match word.strip_prefix("--") {
            Some(_) => is_abbreviation(arg, word),
            None if word.len() == 2 && word.starts_with('-') => {
                let letter = word.chars().nth(1).unwrap_or('-');
                arg.starts_with('-') && !arg.starts_with("--") && arg.contains(letter)
            }
            None => arg == word,
        };
        args.iter().any(|arg| words.iter().any(|word| is_one(arg, word)))
    };
    match name {
        "push" | "send-email" | "send-pack" => Some(Hazard::Publishes),
        "clone" | "fetch" | "pull" | "ls-remote" | "remote" | "submodule" | "fetch-pack" => {
            Some(Hazard::Network)
        }
        "clean" | "checkout" | "restore" | "rm" | "filter-branch" | "gc" | "prune" | "reflog"
        | "update-ref" => Some(Hazard::Discards),
        "reset" => has(&["--hard", "--merge", "--keep"]).then_some(Hazard::Discards),
        "switch" => has(&["-f", "--force", "--discard-changes", "-C"]).then_some(Hazard::Discards),
        "stash" => has(&["drop", "clear", "pop"]).then_some(Hazard::Discards),
        "branch" => has(&["-d", "-D", "--delete"]).then_some(Hazard::Discards),
        "worktree" => has(&["remove", "prune"]).then_some(Hazard::Discards),
        _ => None,
    }
}

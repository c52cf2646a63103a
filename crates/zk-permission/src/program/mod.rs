//! Effects of a command according to its words: a table of well-known programs, and code for the few that
//! need more.

mod archives;
#[cfg(test)]
mod checked;
mod expressions;
mod flags;
mod git;
mod known;
mod operands;
mod plain;
mod processes;
mod scripts;
mod table;
#[cfg(test)]
mod tried;
mod wrappers;
mod writers;

use std::collections::HashSet;

use zk_core::model::Effect;

use crate::classifier::TreeWalk;
use crate::connections;
use crate::shell::{Assignment, Command, Redirect, is_builtin};

pub(crate) use git::subcommand as git_subcommand;
pub(crate) use known::{Hazard, is_network_program};
pub(crate) use operands::{printed_names, reads_whatever_it_names};
pub(crate) use plain::starts_nothing_by_itself;

/// Maximum number of levels of programs that start programs.
const MAX_PROGRAM_DEPTH: usize = 6;

/// Program that a command runs, with the programs that start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// Command line as each program on the way sees it, the outermost first; at least one.
    pub(crate) forms: Vec<Form>,
    /// Variables that are set for the program.
    pub(crate) assignments: Vec<Assignment>,
    /// Effects of the program.
    pub(crate) effects: Vec<Effect>,
    /// Reason why the program needs a question; `None` if it only reads.
    pub(crate) changes: Option<String>,
    /// Whether the program may start others that its words do not reveal, so that rules cannot see all of
    /// them.
    pub(crate) is_opaque: bool,
    /// Whether it changes the meaning of later commands in the same shell.
    pub(crate) changes_shell: bool,
    pub(crate) hazard: Option<Hazard>,
    /// New working directory, if the program is `cd`.
    pub(crate) goes_to: Option<String>,
    /// Whether it runs programs that the configuration of a repository may name.
    pub(crate) reads_repository: bool,
    /// Directory in which git runs, according to its flags.
    pub(crate) git_directory: Option<String>,
    /// Directories that it walks completely.
    pub(crate) trees: Vec<Tree>,
    /// Directories below which it writes or removes any files.
    pub(crate) deep_writes: Vec<String>,
    /// Files that its words may name, and whose contents it shows.
    pub(crate) mentions: Vec<String>,
    pub(crate) unseen: Unseen,
}

/// Actions of a program that its words do not reveal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// Starting other programs, or connecting to hosts.
    pub(crate) programs: bool,
    /// Reading and writing files.
    pub(crate) files: bool,
}

impl Unseen {
    pub(crate) const ALL: Self = Self { programs: true, files: true };
    pub(crate) const FILES: Self = Self { programs: false, files: true };
}

/// Directory that a program walks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) root: String,
    pub(crate) walk: TreeWalk,
}

/// Program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) argv: Vec<String>,
    /// Index of the inner program in the arguments, if there is one.
    pub(crate) inner: Option<usize>,
    /// Whether further arguments follow that are not known yet.
    pub(crate) has_unknown_tail: bool,
    /// Whether the shell runs it as a builtin.
    pub(crate) is_builtin: bool,
    /// Whether it gives its child more rights or a longer life, so that an allow rule has to name it.
    pub(crate) has_to_be_named: bool,
}

impl Leaf {
    pub(crate) fn innermost(&self) -> &[String] {
        self.forms.last().map(|form| form.argv.as_slice()).unwrap_or_default()
    }
}

/// Effects of one program, before the programs that it starts are examined.
#[derive(Debug, Default)]
struct Outcome {
    effects: Vec<Effect>,
    changes: Option<String>,
    is_opaque: bool,
    changes_shell: bool,
    hazard: Option<Hazard>,
    goes_to: Option<String>,
    reads_repository: bool,
    git_directory: Option<String>,
    trees: Vec<Tree>,
    deep_writes: Vec<String>,
    mentions: Vec<String>,
    unseen: Unseen,
}

impl Outcome {
    fn reads<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let paths: Vec<_> = paths.into_iter().filter(|path| *path != "-").map(Into::into).collect();
        let effects = if paths.is_empty() { Vec::new() } else { vec![Effect::Reads { paths }] };
        Self { effects, ..Self::default() }
    }

    fn asks(why: impl Into<String>) -> Self {
        Self { changes: Some(why.into()), unseen: Unseen::ALL, ..Self::default() }
    }

    fn opaque(why: impl Into<String>) -> Self {
        Self { is_opaque: true, ..Self::asks(why) }
    }
}

/// Programs that a command of a script runs; never empty. `words` are the trees whose file names make up its
/// input; empty for unknown input.
pub(crate) fn inspect(command: &Command, words: Vec<Tree>) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    let assignments = command.assignments.clone();
    let context = Context { forms: Vec::new(), assignments, in_shell: true, words };
    inspect_argv(&command.words, context, false, &mut leaves);
    leaves
}

/// Programs that run when this command line is executed without a shell; never empty.
pub(crate) fn inspect_program(argv: &[String]) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    let context = Context { forms: Vec::new(), assignments: Vec::new(), in_shell: false, words: Vec::new() };
    inspect_argv(argv, context, false, &mut leaves);
    leaves
}

/// Context of the examined program.
#[derive(Clone)]
struct Context {
    forms: Vec<Form>,
    assignments: Vec<Assignment>,
    /// Whether a shell starts it, which has builtins.
    in_shell: bool,
    /// Trees whose file names make up its input; empty for unknown input.
    words: Vec<Tree>,
}

/// Program or shell text that another program starts.
enum Inner {
    /// Program at this index of the arguments, with variables and possibly unknown further arguments.
    Program {
        at: usize,
        assignments: Vec<Assignment>,
        has_unknown_tail: bool,
        note: Option<String>,
        hazard: Option<Hazard>,
    },
    /// Shell text at this index.
    Script { at: usize },
    /// Programs inside an expression, between these indexes, run in addition to the program itself.
    Many {
        outcome: Outcome,
        /// Directories of the paths that they receive, if they open them.
        opened: Vec<Tree>,
        ranges: Vec<(usize, usize)>,
    },
}

fn inspect_argv(argv: &[String], context: Context, has_unknown_tail: bool, leaves: &mut Vec<Leaf>) {
    let depth = context.forms.len();
    let in_shell = context.in_shell;
    let word = argv.first().map(String::as_str).unwrap_or_default();
    let is_own = in_shell && is_builtin(word);
    let form = |inner| Form {
        argv: argv.to_vec(),
        inner,
        has_unknown_tail,
        is_builtin: is_own,
        has_to_be_named: false,
    };
    let leaf = |outcome: Outcome, context: Context, form: Form| {
        let mut forms = context.forms;
        forms.push(form);
        Leaf {
            forms,
            assignments: context.assignments,
            effects: outcome.effects,
            changes: outcome.changes,
            is_opaque: outcome.is_opaque,
            changes_shell: outcome.changes_shell,
            hazard: outcome.hazard,
            goes_to: outcome.goes_to,
            reads_repository: outcome.reads_repository,
            git_directory: outcome.git_directory,
            trees: outcome.trees,
            deep_writes: outcome.deep_writes,
            mentions: outcome.mentions,
            unseen: outcome.unseen,
        }
    };
    let name = base_name(word);
    let args = argv.get(1..).unwrap_or_default();
    if depth >= MAX_PROGRAM_DEPTH {
        leaves.push(leaf(Outcome::opaque("too many programs start one another"), context, form(None)));
        return;
    }
    match wrappers::inner(name, argv, in_shell) {
        None => {
            let mut outcome = outcome(name, args, is_own);
            // A builtin that takes the name of a variable evaluates the text in its brackets.
            outcome.is_opaque |=
                is_own && outcome.changes.is_some() && args.iter().any(|arg| arg.contains(['$', '`']));
            if has_unknown_tail && outcome.changes.is_none() {
                outcome.changes = Some(format!("`{name}` gets arguments that are not known yet"));
            }
            leaves.push(leaf(outcome, context, form(None)));
        }
        Some(Err(outcome)) => {
            let changes_shell = is_own || outcome.changes_shell;
            leaves.push(leaf(Outcome { changes_shell, ..outcome }, context, form(None)));
        }
        Some(Ok(Inner::Program { at, assignments, has_unknown_tail: tail, note, hazard })) => {
            let mut inside = context;
            let words = std::mem::take(&mut inside.words);
            let is_fed = name == "xargs" && depth == 0 && !words.is_empty() && tail;
            let is_mighty = matches!(name, "nohup" | "setsid" | "exec" | "sudo" | "doas" | "busybox");
            inside.forms.push(Form { has_to_be_named: is_mighty, ..form(Some(at)) });
            inside.assignments.extend(assignments);
            // These run in the shell; other inner programs do not.
            inside.in_shell = in_shell && matches!(name, "command" | "builtin" | "time");
            let before = leaves.len();
            inspect_argv(argv.get(at..).unwrap_or_default(), inside, has_unknown_tail || tail, leaves);
            for leaf in leaves.get_mut(before..).unwrap_or_default() {
                let word = leaf.innermost().first().map(|word| base_name(word));
                if name == "xargs"
                    && matches!(word, Some("echo" | "basename" | "dirname"))
                    && leaf.forms.len() == depth + 2
                {
                    // The program prints any words that it gets.
                    leaf.changes = None;
                    continue;
                }
                if is_fed && leaf.forms.len() == depth + 2 && operands::reads_appended_words(leaf.innermost())
                {
                    leaf.changes = None;
                    leaf.trees.extend(words.iter().cloned());
                    leaf.unseen.files = true;
                    continue;
                }
                leaf.changes = note.clone().or(leaf.changes.take());
                leaf.hazard = hazard.or(leaf.hazard);
                if name == "xargs" {
                    leaf.unseen.files = true;
                    // A flag among the received words can make most programs start another one.
                    let word = leaf.forms.last().and_then(|form| form.argv.first());
                    leaf.unseen.programs |=
                        !word.is_some_and(|word| operands::takes_any_words(base_name(word)));
                }
            }
        }
        Some(Ok(Inner::Script { at })) => {
            let text = argv.get(at).map(String::as_str).unwrap_or_default();
            match crate::shell::Script::parse(text) {
                Err(why) => {
                    let why = format!("the text given to `{name}` is not understood: {why}");
                    leaves.push(leaf(Outcome::opaque(why), context, form(None)));
                }
                Ok(script)
                    if script.commands.iter().flat_map(|command| &command.redirects).any(keeps_output) =>
                {
                    let why = format!("the text given to `{name}` redirects");
                    leaves.push(leaf(Outcome::opaque(why), context, form(None)));
                }
                Ok(script) => {
                    for command in &script.commands {
                        let mut inside = context.clone();
                        inside.forms.push(form(Some(at)));
                        inside.assignments.extend(command.assignments.iter().cloned());
                        inside.in_shell = true;
                        inspect_argv(&command.words, inside, false, leaves);
                    }
                }
            }
        }
        Some(Ok(Inner::Many { outcome, opened, ranges })) => {
            for (begin, end) in ranges {
                let mut inside = context.clone();
                inside.forms.push(form(Some(begin)));
                inside.in_shell = false;
                let before = leaves.len();
                inspect_argv(argv.get(begin..end).unwrap_or_default(), inside, false, leaves);
                for leaf in leaves.get_mut(before..).unwrap_or_default() {
                    leaf.unseen.files = true;
                    if leaf.changes.is_none()
                        && leaf.forms.len() == depth + 2
                        && operands::reads_all_operands(leaf.innermost())
                        // The programs of binutils read arguments from `@FILE`.
                        && !opened.iter().any(|tree| tree.root.starts_with('@'))
                    {
                        leaf.trees.extend(opened.iter().cloned());
                        continue;
                    }
                    leaf.changes.get_or_insert_with(|| format!("`{name}` runs it for what it finds"));
                }
            }
            leaves.push(leaf(outcome, context, form(None)));
        }
    }
}

/// Whether a redirection does more than joining or discarding output.
fn keeps_output(redirect: &Redirect) -> bool {
    match redirect {
        Redirect::Duplicate => false,
        Redirect::Write { path, .. } => path != "/dev/null",
        Redirect::Read { .. } => true,
    }
}

/// Hazard of any part of a text that cannot be parsed: each word is tried as a program with the words after
/// it. Quotes hide no word, but expansions do.
pub(crate) fn hazard_in(text: &str) -> Option<Hazard> {
    let words = words_of_open_text(text);
    // Words after a later position are a subset of those after an earlier one, so a name without a hazard
    // stays harmless.
    let mut harmless = HashSet::new();
    let mut harmless_git = HashSet::new();
    for (at, word) in words.iter().enumerate() {
        let rest = words.get(at + 1..).unwrap_or_default();
        // A variable may later stand for the program: `x=rm; $x -rf src`.
        let name = base_name(word.rsplit('=').next().unwrap_or(word).trim_start_matches('!'));
        if name == "git" {
            let next = rest.first().map(String::as_str).unwrap_or_default();
            if harmless_git.contains(next) {
                continue;
            }
            match git::hazard_of_open_text(rest) {
                Ok(hazard) => return Some(hazard),
                Err("") => {}
                Err(subcommand) => drop(harmless_git.insert(subcommand)),
            }
            continue;
        }
        // Decided by the subcommand, which differs each time.
        if connections::registries::connects(name, rest) {
            return Some(Hazard::Network);
        }
        if !harmless.insert(name) {
            continue;
        }
        let hazard = match name {
            "sudo" | "doas" => Some(Hazard::Privilege),
            "find" => rest.iter().any(|word| word == "-delete").then_some(Hazard::Discards),
            name => known::hazard(name, rest),
        };
        if hazard.is_some() {
            return hazard;
        }
    }
    None
}

/// Words of a shell text that cannot be parsed; quotes are ignored.
pub(crate) fn words_of_open_text(text: &str) -> Vec<String> {
    split_open_text(text, ";|&()<>{}`$#")
}

/// Words of a text that cannot be parsed; white space and the characters of `ends` end a word.
pub(crate) fn split_open_text(text: &str, ends: &str) -> Vec<String> {
    let plain: String = text.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    let ends_word = |c: char| c.is_whitespace() || c.is_control() || ends.contains(c);
    plain.split(ends_word).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Name of a program without its directory.
pub(crate) fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn outcome(name: &str, args: &[String], is_own: bool) -> Outcome {
    if let Some(special) = expressions::outcome(name, args).or_else(|| scripts::outcome(name, args)) {
        return special;
    }
    if let Some(listed) = archives::outcome(name, args).or_else(|| processes::outcome(name, args)) {
        return listed;
    }
    if name == "git" {
        return git::outcome(args);
    }
    if let Some(row) = table::find(name) {
        return reader_outcome(row, args);
    }
    if is_own {
        let is_opaque = matches!(
            name,
            "." | "alias"
                | "enable"
                | "eval"
                | "exec"
                | "fc"
                | "hash"
                | "mapfile"
                | "readarray"
                | "source"
                | "trap"
        );
        let changes = Outcome::asks(format!("`{name}` changes the shell itself"));
        return Outcome { changes_shell: true, is_opaque, ..changes };
    }
    known::outcome(name, args)
}

fn reader_outcome(row: &table::Row, args: &[String]) -> Outcome {
    use table::Operands;
    // `xxd F -p` writes a file named `-p`; the programs of binutils read arguments from `@FILE`.
    let until = if table::permutes(row.name) { flags::Until::Dashes } else { flags::Until::Operand };
    let is_of_binutils = matches!(row.name, "nm" | "objdump" | "readelf" | "size" | "strings");
    if is_of_binutils && args.iter().any(|arg| arg.starts_with('@')) {
        return Outcome::asks(format!("`{}` reads its arguments from a file", row.name));
    }
    // All words of `echo` are text, even if they look like flags.
    if row.name == "echo" || asks_about_itself(args) {
        return Outcome::default();
    }
    let scanned = match flags::scan(row.flags, args, until) {
        Ok(scanned) => scanned,
        Err(why) => return Outcome::asks(format!("`{}`: {why}", row.name)),
    };
    let operands = scanned.operands.as_slice();
    let files = match row.operands {
        Operands::Files => operands,
        Operands::AtMost(most) if operands.len() <= most => operands,
        Operands::AtMost(most) => {
            return Outcome::asks(format!("`{}` may write the file behind its first {most}", row.name));
        }
        Operands::Text => &[],
        Operands::PatternThenFiles(flags) if scanned.has(flags) => operands,
        Operands::PatternThenFiles(_) => operands.get(1..).unwrap_or_default(),
        Operands::None if operands.is_empty() => &[],
        Operands::Format if operands.iter().all(|operand| operand.starts_with('+')) => &[],
        Operands::None | Operands::Format => {
            return Outcome::asks(format!("`{}` with an operand may set something", row.name));
        }
    };
    let unseen = if is_list(row, &scanned) { Unseen::FILES } else { Unseen::default() };
    let trees = table::walk(row.name, &scanned).map(|walk| trees(files, walk)).unwrap_or_default();
    Outcome { trees, unseen, ..Outcome::reads(files.iter().chain(&scanned.reads).copied()) }
}

/// Whether the program reads a list that names the files to compare.
fn is_list(row: &table::Row, scanned: &flags::Scanned<'_>) -> bool {
    row.flags == table::HASH && scanned.has(&["c", "check"])
}

/// Whether a program reads the files that a list names.
pub(crate) fn reads_listed_files(argv: &[String]) -> bool {
    let Some((word, args)) = argv.split_first() else { return false };
    let row = table::find(base_name(word));
    let scanned = row.and_then(|row| Some((row, flags::scan(row.flags, args, flags::Until::Dashes).ok()?)));
    scanned.is_some_and(|(row, scanned)| is_list(row, &scanned))
}

/// Whether a program only prints its version or help.
fn asks_about_itself(args: &[String]) -> bool {
    matches!(args, [only] if only == "--version" || only == "--help")
}

/// Trees at these roots, or at the working directory.
fn trees(roots: &[&str], walk: TreeWalk) -> Vec<Tree> {
    let roots = if roots.is_empty() { &["."] } else { roots };
    roots.iter().map(|root| Tree { root: (*root).to_owned(), walk }).collect()
}

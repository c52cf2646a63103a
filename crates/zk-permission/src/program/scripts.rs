use super::flags::{Until, scan};
use super::{Outcome, asks_about_itself};
use zk_core::model::Effect;

/// Outcome for programs that run a small script in their arguments.
pub(super) fn outcome(name: &str, args: &[String]) -> Option<Outcome> {
    Some(match name {
        "sed" => sed(args),
        "awk" | "gawk" | "mawk" | "nawk" => awk(name, args),
        "jq" => jq(args),
        _ => return None,
    })
}

pub(super) const SED_FLAGS: &str = "nErsuz e: --quiet --silent --regexp-extended --separate --unbuffered --null-data --posix --sandbox \
                --expression=";

fn sed(args: &[String]) -> Outcome {
    // A suffix with a slash is the path of another file.
    let is_suffix = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '~');
    let in_place = |word: &&String| {
        word.strip_prefix("-i").or_else(|| word.strip_prefix("--in-place=")).is_some_and(is_suffix)
            || word.as_str() == "--in-place"
    };
    if args.iter().any(|word| in_place(&word)) {
        let others: Vec<String> = args.iter().filter(|word| !in_place(word)).cloned().collect();
        return sed_in_place(&others);
    }
    if asks_about_itself(args) {
        return Outcome::default();
    }
    let scanned = match scan(SED_FLAGS, args, Until::Dashes) {
        Ok(scanned) => scanned,
        Err(why) => return Outcome::asks(format!("`sed`: {why}")),
    };
    let expressions = ["e", "expression"];
    let has_flag = scanned.has(&expressions);
    let first = if has_flag { None } else { scanned.operands.first().copied() };
    let mut scripts = scanned.values(&expressions).chain(first);
    if (!has_flag && first.is_none()) || !scripts.all(is_harmless_sed) {
        return Outcome::asks("the script of `sed` is not known to be harmless");
    }
    Outcome::reads(scanned.operands.get(usize::from(!has_flag)..).unwrap_or_default().iter().copied())
}

/// `sed -i`; its other flags are those of a read-only `sed`.
fn sed_in_place(others: &[String]) -> Outcome {
    let read = sed(others);
    if let Some(why) = read.changes {
        return Outcome::asks(why);
    }
    let written = read.effects.iter().flat_map(|effect| match effect {
        Effect::Reads { paths } => paths.clone(),
        _ => Vec::new(),
    });
    let written = written.collect();
    let effects = read.effects.into_iter().chain([Effect::Writes { paths: written }]).collect();
    Outcome { effects, changes: Some("`sed -i` changes files".to_owned()), ..Outcome::default() }
}

/// Whether a script only has addresses, blocks, labels, `s`, `y`, added text, and single-letter commands that
/// print or keep lines. Commands such as `e`, `w` and `r` run, write and read.
fn is_harmless_sed(script: &str) -> bool {
    !script.contains('\n') && script.split_sed().is_some_and(|commands| !commands.is_empty())
}

trait SplitSed {
    fn split_sed(&self) -> Option<Vec<char>>;
}

impl SplitSed for str {
    /// Splits a script into its command letters; `None` if it has a command that is not supported.
    fn split_sed(&self) -> Option<Vec<char>> {
        let mut rest = self.trim();
        let mut commands = Vec::new();
        let mut blocks = 0_usize;
        while !rest.is_empty() {
            rest = after_address(rest)?;
            if let Some(second) = rest.strip_prefix(',') {
                rest = after_address(second.strip_prefix(['+', '~']).unwrap_or(second))?;
            }
            rest = rest.trim_start_matches([' ', '!']);
            let command = rest.chars().next()?;
            rest = rest.get(1..)?;
            match command {
                'p' | 'd' | '=' | 'n' | 'h' | 'H' | 'g' | 'G' | 'x' | 'N' | 'P' | 'D' | 'F' | 'z' => {}
                'q' | 'Q' | 'l' => rest = rest.trim_start_matches(|c: char| c.is_ascii_digit()),
                '{' => {
                    blocks += 1;
                    rest = rest.trim_start_matches([' ', ';']);
                    continue;
                }
                '}' => blocks = blocks.checked_sub(1)?,
                ':' | 'b' | 't' | 'T' => {
                    let label = rest.trim_start_matches(' ');
                    rest = label.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
                    if command == ':' && rest.len() == label.len() {
                        return None;
                    }
                }
                // The rest of the line is text, which a backslash continues on the next line.
                'a' | 'i' | 'c' if !rest.trim().is_empty() && !rest.ends_with('\\') => rest = "",
                's' | 'y' => rest = after_substitution(rest, command == 's')?,
                _ => return None,
            }
            commands.push(command);
            rest = rest.trim_start_matches(' ');
            if rest.starts_with('}') {
                continue;
            }
            rest = match rest.strip_prefix(';') {
                Some(next) => next.trim_start_matches([' ', ';']),
                None if rest.is_empty() => rest,
                None => return None,
            };
        }
        (blocks == 0).then_some(commands)
    }
}

fn after_address(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('$') {
        return Some(rest);
    }
    if let Some(rest) = text.strip_prefix('/') {
        let (_, rest) = until_delimiter(rest, '/', true)?;
        return Some(rest.trim_start_matches(['I', 'M']));
    }
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    match rest.strip_prefix('~') {
        Some(step) if rest.len() < text.len() => Some(step.trim_start_matches(|c: char| c.is_ascii_digit())),
        _ => Some(rest),
    }
}

fn after_substitution(text: &str, has_flags: bool) -> Option<&str> {
    let delimiter =
        text.chars().next().filter(|c| c.is_ascii_punctuation() && !matches!(c, '\\' | ';' | '['))?;
    let (_, rest) = until_delimiter(text.get(1..)?, delimiter, true)?;
    let (_, rest) = until_delimiter(rest, delimiter, false)?;
    Some(if has_flags {
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || "gpiI".contains(c))
    } else {
        rest
    })
}

/// Splits a text at an unescaped delimiter. Implementations differ about a delimiter in brackets, so brackets
/// must be closed before it.
fn until_delimiter(text: &str, delimiter: char, is_pattern: bool) -> Option<(&str, &str)> {
    let mut escaped = false;
    let mut in_brackets = false;
    for (at, found) in text.char_indices() {
        match found {
            _ if escaped => escaped = false,
            '\\' if !in_brackets => escaped = true,
            // In brackets, implementations differ about a backslash.
            '\\' => return None,
            '[' if is_pattern => in_brackets = true,
            ']' => in_brackets = false,
            found if found == delimiter && in_brackets => return None,
            found if found == delimiter => return Some((text.get(..at)?, text.get(at + 1..)?)),
            _ => {}
        }
    }
    None
}

fn awk(name: &str, args: &[String]) -> Outcome {
    if asks_about_itself(args) {
        return Outcome::default();
    }
    let scanned = match scan("Fv: --field-separator= --assign=", args, Until::Operand) {
        Ok(scanned) => scanned,
        Err(why) => return Outcome::asks(format!("`{name}`: {why}")),
    };
    let Some((script, files)) = scanned.operands.split_first() else {
        return Outcome::asks(format!("`{name}` without a script"));
    };
    let banned = [
        "@", "\n", "system", "getline", "ARGV", "ARGC", "ENVIRON", "SYMTAB", "FUNCTAB", "PROCINFO", "close",
        "fflush", "load", "include",
    ];
    // Only output goes to a file or a program: before the first `print`, `>` and `|` are comparisons and
    // patterns.
    let printed = script.find("print").and_then(|at| script.get(at..)).unwrap_or_default();
    if banned.iter().any(|word| script.contains(word)) || printed.contains(['|', '>']) {
        return Outcome::asks(format!("the script of `{name}` is not known to be harmless"));
    }
    Outcome::reads(files.iter().copied())
}

pub(super) const JQ_FLAGS: &str = "rcesnSMCaj --raw-output --compact-output --exit-status --slurp --null-input --sort-keys \
                --monochrome-output --color-output --ascii-output --join-output --tab";

/// Words without the flags that take following words as values.
fn words_without_flags(args: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut rest = args;
    while let Some((word, behind)) = rest.split_first() {
        let takes = match word.as_str() {
            "--arg" | "--argjson" => 2,
            "--indent" => 1,
            _ => 0,
        };
        let values = behind.get(..takes).filter(|values| !values.iter().any(|value| value.starts_with('-')));
        // Versions differ about words after `--`.
        rest = match values.filter(|_| takes > 0 && !kept.iter().any(|kept: &String| kept == "--")) {
            Some(_) => behind.get(takes..).unwrap_or_default(),
            None => {
                kept.push(word.clone());
                behind
            }
        };
    }
    kept
}

fn jq(args: &[String]) -> Outcome {
    if asks_about_itself(args) {
        return Outcome::default();
    }
    let args = &words_without_flags(args);
    let scanned = match scan(JQ_FLAGS, args, Until::Dashes) {
        Ok(scanned) => scanned,
        Err(why) => return Outcome::asks(format!("`jq`: {why}")),
    };
    let Some((script, files)) = scanned.operands.split_first() else {
        return Outcome::asks("`jq` without a script");
    };
    if [
        "import",
        "include",
        "env",
        "ENV",
        "input",
        "get_search_list",
        "modulemeta",
        "halt",
        "debug",
        "stderr",
    ]
    .iter()
    .any(|word| script.contains(word))
    {
        return Outcome::asks("the script of `jq` is not known to be harmless");
    }
    Outcome::reads(files.iter().copied())
}

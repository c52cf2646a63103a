use std::collections::{HashMap, HashSet};

use super::Findings;
use super::vendors::{character, literal};
use crate::workspace::Text;

/// Number of equal lines that count as duplicated code.
const RUN: usize = 12;
/// Fewest different kinds of lines in such a run; with fewer it is a table.
const KINDS: usize = 5;

/// Line of code with its position.
struct Line<'a> {
    number: usize,
    code: &'a str,
}

/// Finds duplicated code outside of tests: equal lines, or lines that differ only in names and literals.
/// Declarations, fields and table rows are skipped, since they repeat by nature.
pub(super) fn check(texts: &[Text], findings: &mut Findings) {
    let files: Vec<(&str, Vec<Line<'_>>)> = texts
        .iter()
        .filter(|file| file.path.ends_with(".rs") && !is_test(&file.path))
        .map(|file| (file.path.as_str(), code(&file.text)))
        .collect();
    let same = |line: &Line<'_>| Some(line.code.to_owned()).filter(|code| !is_thin(code));
    let alike = |line: &Line<'_>| Some(shape(line.code)).filter(|_| has_logic(line.code));
    report(&files, same, "these lines stand a second time", findings);
    report(&files, alike, "these lines stand a second time with other names", findings);
}

fn report(
    files: &[(&str, Vec<Line<'_>>)],
    key: impl Fn(&Line<'_>) -> Option<String>,
    what: &str,
    findings: &mut Findings,
) {
    let mut ids: HashMap<String, usize> = HashMap::new();
    let mut first: HashMap<[usize; RUN], (&str, usize, usize)> = HashMap::new();
    for (path, lines) in files {
        let keyed: Vec<(usize, usize)> = lines
            .iter()
            .filter_map(|line| {
                let fresh = ids.len();
                Some((line.number, *ids.entry(key(line)?).or_insert(fresh)))
            })
            .collect();
        let mut told = 0;
        for (place, run) in keyed.windows(RUN).enumerate() {
            let Ok(run) = <[(usize, usize); RUN]>::try_from(run) else { continue };
            let keys = run.map(|(_, id)| id);
            if HashSet::from(keys).len() < KINDS {
                continue;
            }
            let [(begin, _), .., (end, _)] = run;
            let (of, at, line) = *first.entry(keys).or_insert((path, place, begin));
            // A run overlaps itself, and further runs begin inside of it.
            let is_other = of != *path || place >= at + RUN;
            if is_other && place >= told {
                told = place + RUN;
                let message = format!("{what}, first at {of}:{line}; make one function of them");
                findings.error(format_args!("{path}:{begin}-{end}"), message);
            }
        }
    }
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || ["/tests/", "/benches/", "fuzz/"].iter().any(|part| path.contains(part))
}

/// Lines of a file before its tests, without blank lines, comments, attributes and imports.
fn code(text: &str) -> Vec<Line<'_>> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut in_import = false;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.trim();
        let is_import = in_import || code.trim_start_matches("pub").trim_start().starts_with("use ");
        in_import = is_import && !code.ends_with(';');
        if !is_import && !code.is_empty() && !code.starts_with("//") && !code.starts_with('#') {
            lines.push(Line { number: number + 1, code });
        }
    }
    lines
}

/// Whether a line is only punctuation.
fn is_thin(code: &str) -> bool {
    code == "} else {" || !code.contains(char::is_alphanumeric)
}

/// Whether a line has logic: a call, a binding, a decision or a computation.
fn has_logic(code: &str) -> bool {
    const DECLARES: [&str; 7] = ["const ", "static ", "type ", "struct ", "enum ", "trait ", "mod "];
    let unmarked = code.strip_prefix("pub(crate) ").or_else(|| code.strip_prefix("pub(super) "));
    let unmarked = unmarked.or_else(|| code.strip_prefix("pub ")).unwrap_or(code);
    if is_thin(code) || (DECLARES.iter().any(|word| unmarked.starts_with(word)) && !unmarked.contains("fn "))
    {
        return false;
    }
    // Field: `name: Type,` or `name: value,`.
    let name =
        unmarked.split_once(": ").filter(|(name, _)| name.chars().all(|c| c.is_alphanumeric() || c == '_'));
    if name.is_some_and(|(_, value)| value.ends_with(',') && !value.contains('(')) {
        return false;
    }
    let shape = shape(code);
    let words = [
        "let", "if", "match", "return", "for", "while", "loop", "fn", "impl", "=>", "=", "+=", "+", "?", "x(",
    ];
    shape.split(' ').any(|token| words.contains(&token))
}

const KEYWORDS: [&str; 27] = [
    "as", "async", "await", "break", "continue", "dyn", "else", "enum", "false", "fn", "for", "if", "impl",
    "in", "let", "loop", "match", "move", "mut", "pub", "ref", "return", "self", "true", "unsafe", "where",
    "while",
];

/// Line with one letter for every name and one for every literal.
fn shape(code: &str) -> String {
    let (mut rest, mut tokens) = (code, Vec::new());
    while let Some(first) = rest.chars().next() {
        let is_literal = ['"', 'b', 'r'].contains(&first);
        let length = if rest.starts_with("//") {
            break;
        } else if let Some((_, whole)) = is_literal.then(|| literal(rest)).flatten() {
            tokens.push("l".to_owned());
            whole
        } else if first == '\'' {
            character(rest)
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            tokens.push(match word {
                word if KEYWORDS.contains(&word) => word.to_owned(),
                word if word.starts_with(|c: char| c.is_ascii_digit()) => "l".to_owned(),
                _ if after.starts_with('(') => "x(".to_owned(),
                _ => "x".to_owned(),
            });
            end
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = rest.split_at(length).1;
    }
    tokens.join(" ")
}

use super::Findings;
use crate::workspace::Text;

/// Folder of the files that name vendors: a new vendor is a row there.
const CATALOGUE: &str = "crates/zk-providers/src/catalogue/";
const TABLE: &str = "crates/zk-providers/src/catalogue/vendors/table.rs";

/// Other files that may name vendors, with the reasons.
const ALLOWED: [(&str, &str); 6] = [
    ("crates/zk-testkit/src/", "its server plays them"),
    ("crates/zk-transcripts/src/", "programs of these names write transcripts"),
    ("crates/zk-args/src/actions.rs", "their transcripts are imported by name"),
    ("crates/zk-cli/src/commands/sessions/import.rs", "their transcripts are imported by name"),
    ("crates/zk-core/src/service/redact/shapes.rs", "a key begins with its vendor's name"),
    ("crates/zk-core/src/service/files/guarded_paths.rs", "files of other programs are called so"),
];

/// Vendors whose name is also that of a protocol, and of a dialect's folder.
const PROTOCOLS: [&str; 3] = ["anthropic", "gemini", "ollama"];
/// Parts of vendor names that describe a protocol.
const KINDS: [&str; 2] = ["chat", "compat"];
/// Vendor names that are common English words, which only count as a whole string.
const ORDINARY: [&str; 1] = ["together"];

/// Names of the table's vendors, as words that no code may contain.
pub(super) fn names(texts: &[Text]) -> Vec<String> {
    let Some(table) = texts.iter().find(|file| file.path == TABLE) else { return Vec::new() };
    let mut names: Vec<String> = ["service(", "server(", "name: "]
        .iter()
        .flat_map(|before| table.text.split(before).skip(1))
        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        .flat_map(|name| name.split('_'))
        .filter(|name| !PROTOCOLS.contains(name) && !KINDS.contains(name))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Checks that the code of libraries and the program names no vendor, so that a new vendor is only a new row.
pub(super) fn check(file: &Text, names: &[String], findings: &mut Findings) {
    let path = file.path.as_str();
    let is_code = path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
    let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
    let is_allowed = path.starts_with(CATALOGUE) || ALLOWED.iter().any(|(start, _)| path.starts_with(start));
    if !is_code || is_test || is_allowed {
        return;
    }
    for (number, token) in tokens(&file.text) {
        let found = match &token {
            Token::Word(word) => {
                let words = words_of(word);
                names.iter().find(|name| !ORDINARY.contains(&name.as_str()) && words.contains(*name))
            }
            Token::Literal(text) => names.iter().find(|name| is_in(&text.to_lowercase(), name)),
        };
        if let Some(name) = found {
            let message =
                format!("code names the vendor `{name}`: put what is special about it into {CATALOGUE}");
            findings.error(format_args!("{path}:{number}"), message);
        }
    }
}

fn is_in(text: &str, name: &str) -> bool {
    if ORDINARY.contains(&name) || name.contains('.') {
        return text == name;
    }
    text.split(|c: char| !c.is_alphanumeric()).any(|word| word == name)
}

/// Words of `likeThis`, `LikeThis` and `LIKE_THIS`, in lower case.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        if let Some(word) = words.last_mut().filter(|_| c != '_') {
            word.extend(c.to_lowercase());
        }
    }
    words
}

enum Token<'a> {
    Word(&'a str),
    Literal(&'a str),
}

/// Names and string literals of a file before its tests, with their lines; comments are skipped.
fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let mut rest = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let (mut tokens, mut number) = (Vec::new(), 1);
    while let Some(first) = rest.chars().next() {
        let mut token = None;
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some((inside, whole)) = literal(rest) {
            token = Some(Token::Literal(inside));
            whole
        } else if first == '\'' {
            character(rest)
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            token = Some(Token::Word(rest.split_at(end).0));
            end
        } else {
            first.len_utf8()
        };
        tokens.extend(token.map(|token| (number, token)));
        let (passed, after) = rest.split_at(length);
        number += passed.matches('\n').count();
        rest = after;
    }
    tokens
}

/// Content of the string literal at the beginning of `rest`, and the literal's length.
pub(super) fn literal(rest: &str) -> Option<(&str, usize)> {
    let marked = rest.strip_prefix('b').unwrap_or(rest);
    let (opening, end) = match marked.strip_prefix('r') {
        Some(raw) => {
            let hashes = "#".repeat(raw.len() - raw.trim_start_matches('#').len());
            (format!("r{hashes}\""), format!("\"{hashes}"))
        }
        None => ("\"".to_owned(), "\"".to_owned()),
    };
    let inside = marked.strip_prefix(&opening)?;
    let mut escaped = false;
    let length = match opening.starts_with('r') {
        true => inside.find(&end)?,
        false => inside.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })?,
    };
    Some((inside.split_at(length).0, rest.len() - inside.len() + length + end.len()))
}

/// Length of the character literal or lifetime mark at the beginning of `rest`.
pub(super) fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        // An escaped character never ends the literal.
        (Some((_, '\\')), Some(_)) => chars.find(|(_, c)| *c == '\'').map_or(1, |(end, _)| end + 1),
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 1,
    }
}

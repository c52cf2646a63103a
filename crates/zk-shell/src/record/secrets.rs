use zk_core::service::{REDACTED, Redactor};

/// Suffixes of variable names whose values are secrets, in lower case.
const SECRET_NAMES: [&str; 10] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "api_key",
    "access_key",
    "private_key",
    "credentials",
];

/// Text of the shell without secrets: those that the redactor finds, and values of variables that are named like secrets,
/// which a dump of the environment shows.
pub(crate) fn redact_shell_text(text: &str, redactor: Option<&Redactor>) -> String {
    let text = redactor.map_or_else(|| text.to_owned(), |redactor| redactor.redact(text).into_owned());
    let mut clean = String::with_capacity(text.len());
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            clean.push('\n');
        }
        push_redacted_line(&mut clean, line);
    }
    clean
}

/// Adds a line, with the values of its secret variables replaced.
fn push_redacted_line(clean: &mut String, line: &str) {
    let mut rest = line;
    while let Some((before, value)) = rest.split_once('=') {
        clean.push_str(before);
        clean.push('=');
        let start =
            before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').map_or(0, |at| at + 1);
        let name = before.get(start..).unwrap_or(before).to_ascii_lowercase();
        let is_dumped = rest.len() == line.len()
            && ["", "export ", "declare -x ", "typeset -x "].contains(&before.get(..start).unwrap_or("?"));
        rest = value;
        if SECRET_NAMES.iter().any(|secret| name.ends_with(secret)) {
            let len = if is_dumped { value.len() } else { word_len(line, value) };
            // A reference such as `$TOKEN` is no secret. A dump of the environment has no references.
            let word = value.get(..len).unwrap_or_default();
            if !is_dumped && word.starts_with('$') && !word.contains(['\'', '"']) {
                continue;
            }
            rest = value.get(len..).unwrap_or_default();
            clean.push_str(if len > 0 { REDACTED } else { "" });
        }
    }
    clean.push_str(rest);
}

/// Length of the shell word that `value`, the end of `line`, begins with, in bytes. An open quote reaches to the end of the
/// line, but a quote that was open before the value ends it.
fn word_len(line: &str, value: &str) -> usize {
    let before = line.strip_suffix(value).unwrap_or_default();
    let is_open = |quote: char| before.matches(quote).count() % 2 == 1;
    let mut rest = value;
    loop {
        if rest.len() < value.len() && rest.starts_with(|c| matches!(c, '\'' | '"') && is_open(c)) {
            return value.len() - rest.len();
        }
        let behind = behind_quoted(rest).unwrap_or_else(|| match rest.strip_prefix('\\') {
            Some(escaped) => {
                escaped.get(escaped.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default()
            }
            None => rest.get(plain_len(rest)..).unwrap_or_default(),
        });
        if behind.len() == rest.len() {
            return value.len() - rest.len();
        }
        rest = behind;
    }
}

/// Length of the part of a word without quotes and escapes, in bytes.
fn plain_len(text: &str) -> usize {
    text.find(|c: char| c.is_whitespace() || "&;|)'\"\\".contains(c)).unwrap_or(text.len())
}

/// Rest of a line behind the quoted text that it begins with.
fn behind_quoted(text: &str) -> Option<&str> {
    let inner = |open: &str| text.strip_prefix(open).map(|inner| (open.len() > 1, inner));
    for quote in ['\'', '"'] {
        let Some((is_extended, inner)) = inner(&format!("${quote}")).or_else(|| inner(&quote.to_string()))
        else {
            continue;
        };
        let (has_escapes, mut is_escaped) = (is_extended || quote == '"', false);
        let end = inner.find(|c: char| {
            let is_end = c == quote && !is_escaped;
            is_escaped = c == '\\' && has_escapes && !is_escaped;
            is_end
        });
        return Some(end.and_then(|end| inner.get(end + 1..)).unwrap_or_default());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_that_are_named_like_secrets_are_left_out() {
        for (text, expected) in [
            ("DB_PASSWORD=two words\nHOME=/root", "DB_PASSWORD=[redacted]\nHOME=/root"),
            (
                "declare -x API_TOKEN=\"abc\"\nexport MY_SECRET=x y",
                "declare -x API_TOKEN=[redacted]\nexport MY_SECRET=[redacted]",
            ),
            ("run --password='a b' --name=c", "run --password=[redacted] --name=c"),
            ("run --token=abc'd e' -v", "run --token=[redacted] -v"),
            ("run --token=abc\\ def -v", "run --token=[redacted] -v"),
            ("run --token=$X\"secret\" -v", "run --token=[redacted] -v"),
            ("sh -c 'TOKEN=abc run' && ls", "sh -c 'TOKEN=[redacted] run' && ls"),
            ("sh -c 'run --token=abc' && ls", "sh -c 'run --token=[redacted]' && ls"),
            ("I don't know; run --token='a b' -v", "I don't know; run --token=[redacted] -v"),
            ("API_TOKEN=\"a\" b", "API_TOKEN=[redacted]"),
            ("curl 'http://h/?token=abc&x=1'", "curl 'http://h/?token=[redacted]&x=1'"),
            ("A=1 GH_TOKEN=abc make; ls", "A=1 GH_TOKEN=[redacted] make; ls"),
            ("run --token=$(pass x)", "run --token=$(pass x)"),
            ("TOKEN=$2b$10$abc", "TOKEN=[redacted]"),
            ("run --password=$'a b' -v", "run --password=[redacted] -v"),
            ("run --password=$\"a b\" -v", "run --password=[redacted] -v"),
            ("A=1 TOKEN=\"abc def", "A=1 TOKEN=[redacted]"),
            ("run --token=\"a\\\" b\" -v", "run --token=[redacted] -v"),
            ("run --token='a\\' -v", "run --token=[redacted] -v"),
            ("run --token='a'\\''b c'\"d\"e -v", "run --token=[redacted] -v"),
            ("max_tokens=5 token= PWD=/x", "max_tokens=5 token= PWD=/x"),
            ("https://me:hunter2@host/", "https://me:[redacted]@host/"),
            ("==", "=="),
            ("API_KEY=$'a b'", "API_KEY=[redacted]"),
        ] {
            assert_eq!(redact_shell_text(text, Some(&Redactor::new())), expected);
        }
    }
}

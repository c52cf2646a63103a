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
        // A reference such as `$TOKEN` is no secret. A dump of the environment has no references.
        let is_reference = !is_dumped && value.starts_with('$') && behind_quoted(value).is_none();
        rest = value;
        if !is_reference && SECRET_NAMES.iter().any(|secret| name.ends_with(secret)) {
            let len = value_len(value, is_dumped);
            rest = value.get(len..).unwrap_or_default();
            clean.push_str(if len > 0 { REDACTED } else { "" });
        }
    }
    clean.push_str(rest);
}

/// Length of a value in bytes: of a word that begins with a quoted text, of a whole line of a dump, or of a plain word.
/// An open quote reaches to the end of the line.
fn value_len(value: &str, is_dumped: bool) -> usize {
    let Some(mut rest) = behind_quoted(value) else {
        return if is_dumped { value.len() } else { plain_len(value) };
    };
    loop {
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

/// Length of a word without quotes, in bytes.
fn plain_len(text: &str) -> usize {
    text.find(|c: char| c.is_whitespace() || "&;|)'\"".contains(c)).unwrap_or(text.len())
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

use zk_core::service::{REDACTED, Redactor};

/// Ends of names whose values are secrets, in lower case.
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
        push_line(&mut clean, line);
    }
    clean
}

/// Adds a line, with the values of its secret variables replaced.
fn push_line(clean: &mut String, line: &str) {
    let mut rest = line;
    while let Some((before, value)) = rest.split_once('=') {
        clean.push_str(before);
        clean.push('=');
        let start =
            before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').map_or(0, |at| at + 1);
        let name = before.get(start..).unwrap_or(before).to_ascii_lowercase();
        let is_dumped = rest.len() == line.len()
            && ["", "export ", "declare -x ", "typeset -x "].contains(&before.get(..start).unwrap_or("?"));
        let len = value_len(value, is_dumped);
        // A reference to a secret is none.
        let is_reference = value.starts_with('$') && !value.starts_with("$'");
        rest = value;
        if len > 0 && !is_reference && SECRET_NAMES.iter().any(|secret| name.ends_with(secret)) {
            rest = value.get(len..).unwrap_or_default();
            clean.push_str(REDACTED);
        }
    }
    clean.push_str(rest);
}

/// Bytes of a value: a quoted text, a whole line of a dump, or a word.
fn value_len(value: &str, is_dumped: bool) -> usize {
    for quote in ['\'', '"'] {
        if let Some(end) = value.strip_prefix(quote).and_then(|quoted| quoted.find(quote)) {
            return end + 2;
        }
    }
    if is_dumped {
        return value.len();
    }
    value.find(|c: char| c.is_whitespace() || "&;|)'\"".contains(c)).unwrap_or(value.len())
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
            ("TOKEN=$(pass x)", "TOKEN=$(pass x)"),
            ("max_tokens=5 token= PWD=/x", "max_tokens=5 token= PWD=/x"),
            ("https://me:hunter2@host/", "https://me:[redacted]@host/"),
            ("==", "=="),
            ("API_KEY=$'a b'", "API_KEY=[redacted]"),
        ] {
            assert_eq!(redact_shell_text(text, Some(&Redactor::new())), expected);
        }
    }
}

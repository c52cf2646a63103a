/// Expands `${VAR}` and `${VAR:-default}` in `text`. `$VAR`, and `${VAR}` of a variable that is not set, stay
/// unchanged, as in other programs that read the same files.
pub(crate) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((inside, behind)) = after.split_once('}') else {
            out.push_str("${");
            rest = after;
            continue;
        };
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let value = is_variable(name).then(|| lookup(name)).flatten();
        match value.as_deref().or(default.filter(|_| is_variable(name))) {
            Some(value) => {
                out.push_str(value);
                rest = behind;
            }
            None => {
                out.push_str("${");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_expand_once_with_defaults_and_everything_else_is_left_alone() {
        let lookup = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "B" => Some("${A}".to_owned()),
            _ => None,
        };
        for (text, expanded) in [
            ("${A}", "1"),
            ("x${A}y${A}z", "x1y1z"),
            ("$A", "$A"),
            ("${NO}", "${NO}"),
            ("${NO:-d}", "d"),
            ("${NO:-}", ""),
            ("${A:-d}", "1"),
            ("${B}", "${A}"),
            ("${A", "${A"),
            ("${}", "${}"),
            ("${NO${A}", "${NO1"),
            ("${a-b:-c}", "${a-b:-c}"),
        ] {
            assert_eq!(expand(text, &lookup), expanded, "{text}");
        }
    }
}

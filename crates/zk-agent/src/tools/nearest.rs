/// Returns the names similar to `wanted`, nearest first: equal up to case and separators, or with a few other
/// letters.
pub(super) fn nearest_names<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let plain = |name: &str| {
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let wanted = plain(wanted);
    let scored = names.into_iter().map(|name| {
        let known = plain(name);
        let is_part =
            wanted.len() >= 4 && (known.contains(&wanted) || wanted.contains(&known)) && known.len() >= 4;
        let score = strsim::jaro_winkler(&wanted, &known);
        (if is_part { score.max(0.85) } else { score }, name)
    });
    let mut near: Vec<(f64, &str)> = scored.filter(|(score, _)| *score > 0.8).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_despite_case_separators_and_typing_errors() {
        let names = ["edit", "glob", "grep", "list_files", "multi_edit", "read_file", "shell", "write_file"];
        for (wanted, near) in [
            ("ReadFile", "read_file"),
            ("read-file", "read_file"),
            ("raed_file", "read_file"),
            ("functions.list_files", "list_files"),
            ("Grep", "grep"),
        ] {
            assert_eq!(nearest_names(wanted, names).first(), Some(&near), "{wanted}");
        }
        assert!(nearest_names("browser_click", names).is_empty());
    }
}

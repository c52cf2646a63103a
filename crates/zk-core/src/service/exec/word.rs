/// Quotes a word so that a POSIX shell reads it back as it is.
///
/// ```
/// use zk_core::service::shell_word;
///
/// assert_eq!([shell_word("src/a.rs"), shell_word("it's"), shell_word("")], ["src/a.rs", r"'it'\''s'", "''"]);
/// ```
#[must_use]
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

use crate::keys::Key;

/// Applies a key to a text that is edited only at its end.
pub(super) fn apply_key(text: &mut String, key: &Key) {
    match key {
        Key::Char(c) => text.push(*c),
        Key::Paste(pasted) => text.extend(pasted.chars().filter(|c| *c == '\n' || !c.is_control())),
        Key::Newline => text.push('\n'),
        Key::Tab => text.push(' '),
        Key::Back => drop(text.pop()),
        Key::Ctrl('u') => text.clear(),
        Key::Ctrl('w') => {
            let kept = text.trim_end().trim_end_matches(|c: char| !c.is_whitespace()).len();
            text.truncate(kept);
        }
        Key::Ctrl(_)
        | Key::Alt(_)
        | Key::Enter
        | Key::Escape
        | Key::BackTab
        | Key::Delete
        | Key::Move { .. }
        | Key::Synchronized(_)
        | Key::Ground { .. }
        | Key::Size { .. }
        | Key::Version(_)
        | Key::Answered
        | Key::Wheel { .. }
        | Key::Focus(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyDecoder;

    #[test]
    fn editing_keys_change_the_line_and_other_keys_do_nothing() {
        let edited = |bytes: &str| {
            let mut text = String::new();
            KeyDecoder::default().push(bytes.as_bytes()).iter().for_each(|key| apply_key(&mut text, key));
            text
        };
        for (bytes, expected) in [
            ("aé語🙂", "aé語🙂"),
            ("ab\u{7f}c\u{8}d", "ad"),
            ("one two\u{17}x", "one x"),
            ("one\u{15}two", "two"),
            ("a\tb", "a b"),
            ("a\u{1b}[A\u{1b}[3~\u{1}\u{4}\u{b}\u{1b}bz", "az"),
            ("\u{1b}[200~y\ré\u{3}\u{1b}\u{15}\u{1b}[201~z", "y\néz"),
        ] {
            assert_eq!(edited(bytes), expected, "{bytes:?}");
        }
    }
}

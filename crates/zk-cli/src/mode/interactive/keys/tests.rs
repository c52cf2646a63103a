use super::{Key, Keys};

/// The keys of bytes after which nothing comes for a while.
fn keys(bytes: &[u8]) -> Vec<Key> {
    let mut keys = Keys::default();
    let mut pressed: Vec<Key> = bytes.iter().filter_map(|byte| keys.push(*byte)).collect();
    pressed.extend(keys.idle());
    assert!(!keys.is_within());
    pressed
}

fn chars(text: &str) -> Vec<Key> {
    text.chars().map(Key::Char).collect()
}

#[test]
fn escape_is_a_key_where_nothing_follows_it() {
    assert_eq!(keys(b"\x1b"), [Key::Escape]);
    assert_eq!(keys(b"\x1b\x1b"), [Key::Escape, Key::Escape]);
    assert_eq!(keys(b"a\x1b"), [Key::Char('a'), Key::Escape]);
}

#[test]
fn sequences_are_not_escape_and_leave_nothing_behind() {
    for sequence in [
        "\x1b[A",
        "\x1b[1;5C",
        "\x1b[3~",
        "\x1bOP",
        "\x1bb",
        "\x1b\r",
        "\x1b[<0;10;20M",
        "\x1b]11;rgb:0/0/0\x07",
        "\x1b]11;rgb:0/0/0\x1b\\",
        "\x1bP1+r\x1b\\",
        "\x1b[24;80R",
        "\x1b[",
    ] {
        assert_eq!(keys(sequence.as_bytes()), [], "{sequence:?}");
        if sequence != "\x1b[" {
            assert_eq!(keys(format!("{sequence}x").as_bytes()), [Key::Char('x')], "{sequence:?}");
        }
    }
}

#[test]
fn characters_of_several_bytes_are_one_key_each() {
    assert_eq!(keys("aé語🙂".as_bytes()), chars("aé語🙂"));
    assert_eq!(keys(b"\xff\xc3x"), [], "half a character swallows what cannot end it");
}

#[test]
fn what_edits_a_line_does_so_and_other_controls_do_nothing() {
    assert_eq!(
        keys(b"\r\n\x7f\x08\x15\x17\x1a\x1c\t\x01\x04\x0b"),
        [
            Key::Enter,
            Key::Enter,
            Key::Back,
            Key::Back,
            Key::BackAll,
            Key::BackWord,
            Key::Suspend,
            Key::Quit,
            Key::Char(' ')
        ]
    );
}

#[test]
fn a_paste_is_characters_only_and_ends_where_the_terminal_says() {
    let mut expected: Vec<Key> = "y\né".chars().map(Key::Pasted).collect();
    expected.extend([Key::Char('y'), Key::Enter]);
    assert_eq!(keys("\x1b[200~y\ré\x03\x1b\x15\x1b[201~y\r".as_bytes()), expected);
}

#[test]
fn a_paste_whose_end_never_comes_is_over_after_a_while() {
    let mut keys = Keys::default();
    b"\x1b[200~".iter().for_each(|byte| assert_eq!(keys.push(*byte), None));
    assert_eq!(keys.push(b'y'), Some(Key::Pasted('y')));
    for _ in 0..7 {
        assert_eq!(keys.idle(), None);
    }
    assert_eq!(keys.push(b'y'), Some(Key::Char('y')));
}

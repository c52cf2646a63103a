use proptest::prelude::*;

use super::*;

fn keys(bytes: &[u8]) -> Vec<Key> {
    KeyDecoder::default().push(bytes)
}

#[test]
fn keys_are_decoded_in_every_form_that_terminals_send() {
    let to = |to, word| Key::Move { to, word };
    for (bytes, expected) in [
        ("\r", Key::Enter),
        ("\n", Key::Newline),
        ("\x1b\r", Key::Newline),
        ("\x1b[13;2u", Key::Newline),
        ("\x1b[A", to(Direction::Up, false)),
        ("\x1bOA", to(Direction::Up, false)),
        ("\x1b[1;5C", to(Direction::Right, true)),
        ("\x1b[1;3A", to(Direction::Up, true)),
        ("\x1b[3~", Key::Delete),
        ("\x1b[99;5u", Key::Ctrl('c')),
        ("\x1b[27u", Key::Escape),
        ("\x03", Key::Ctrl('c')),
        ("\x1bq", Key::Alt('q')),
        ("漢", Key::Char('漢')),
        ("\x1b[200~a\r\nb\x1b[201~", Key::Paste("a\nb".to_owned())),
    ] {
        assert_eq!(keys(bytes.as_bytes()), [expected], "{bytes:?}");
    }
}

/// Presses a single `ESC` while a reply is expected; returns the key after the idle ticks.
fn press_escape(decoder: &mut KeyDecoder) -> Option<Key> {
    (0..ESCAPE_WAITS).for_each(|_| assert_eq!(decoder.idle(), None));
    decoder.idle()
}

#[test]
fn answers_of_a_terminal_are_never_keys_however_late_and_split() {
    let replies = [
        "\x1b[?2026;2$y",
        "\x1b[?62;22c",
        "\x1b]11;rgb:0000/0000/0000\x1b\\",
        "\x1bP>|term 1\x1b\\",
        "\x1b[?1u",
        "\x1b[24;80R",
        "\x1b[8;24;80t",
    ];
    for reply in replies {
        for at in 0..reply.len() {
            let mut decoder = KeyDecoder::default();
            decoder.expect_reply();
            let mut pressed = decoder.push(reply.get(..at).unwrap().as_bytes());
            pressed.extend(decoder.idle());
            pressed.extend(decoder.push(reply.get(at..).unwrap().as_bytes()));
            pressed.retain(|key| !key.is_reply());
            assert_eq!(pressed, [], "{reply:?} split at {at}");
        }
    }
    // Escape may have started a delayed reply, which is still not text.
    let mut decoder = KeyDecoder::default();
    decoder.expect_reply();
    assert_eq!(decoder.push(b"\x1b"), []);
    assert_eq!(press_escape(&mut decoder), Some(Key::Escape));
    assert_eq!(decoder.push(b"[?2026;1$y"), [Key::Synchronized(true)]);
    assert_eq!(decoder.push(b"[x"), [Key::Char('['), Key::Char('x')]);
    // Each byte may also arrive alone.
    for reply in replies {
        let (mut decoder, mut pressed) = (KeyDecoder::default(), Vec::new());
        decoder.expect_reply();
        for byte in reply.bytes() {
            pressed.extend(decoder.push(&[byte]));
            pressed.extend(decoder.idle());
        }
        pressed.retain(|key| !key.is_reply());
        assert_eq!(pressed, [], "{reply:?} byte by byte");
    }
}

#[test]
fn the_background_colour_is_light_or_dark() {
    for (colour, expected) in [
        ("rgb:ffff/ffff/ffff", Some(true)),
        ("rgb:fdf6/e3e3/d5d5", Some(true)),
        ("rgb:0000/2b2b/3636", Some(false)),
        ("rgb:ff/ff/00", Some(true)),
        ("rgb:f/0/0", Some(false)),
        ("rgba:0000/0000/ffff/ffff", Some(false)),
        ("rgb:", None),
        ("rgb:zz/00/00", None),
        ("rgb:ffffffffffffffff/0/0", None),
        ("#ffffff", None),
    ] {
        for end in ["\x07", "\x1b\\"] {
            let pressed = keys(format!("\x1b]11;{colour}{end}x").as_bytes());
            let ground = expected.map(|is_light| Key::Ground { is_light });
            let wanted: Vec<Key> = ground.into_iter().chain([Key::Char('x')]).collect();
            assert_eq!(pressed, wanted, "{colour}");
        }
    }
}

#[test]
fn text_typed_after_escape_is_text_during_a_terminal_query() {
    let mut decoder = KeyDecoder::default();
    decoder.expect_reply();
    decoder.push(b"\x1b");
    assert_eq!(press_escape(&mut decoder), Some(Key::Escape));
    let typed: Vec<Key> = "]1 is it".chars().map(Key::Char).collect();
    assert_eq!(decoder.push(b"]1 is it"), typed);
    // Once everything is answered, no reply is expected.
    decoder.push(b"\x1b[?62;22c\x1b");
    assert_eq!(decoder.idle(), Some(Key::Escape));
    assert_eq!(decoder.push(b"]11;x"), "]11;x".chars().map(Key::Char).collect::<Vec<_>>());
}

#[test]
fn escape_is_not_held_back_for_an_answer_that_does_not_come_within_a_second() {
    let at = Duration::from_millis;
    for (asked, pressed, is_held) in
        [(0, 900, true), (0, 1000, false), (5000, 5500, true), (5000, 9000, false)]
    {
        let mut decoder = KeyDecoder::default();
        decoder.set_time(at(asked));
        decoder.expect_reply();
        decoder.set_time(at(pressed));
        decoder.push(b"\x1b");
        decoder.set_time(at(pressed + 30));
        assert_eq!(decoder.idle().is_none(), is_held, "asked at {asked} ms, pressed at {pressed} ms");
    }
}

#[test]
fn a_terminal_says_its_name_and_version_however_split() {
    let reply = b"\x1bP>|WezTerm 20240203-110809\x1b\\";
    let version = Key::Version("WezTerm 20240203-110809".to_owned());
    assert_eq!(keys(reply), std::slice::from_ref(&version));
    let mut decoder = KeyDecoder::default();
    decoder.expect_reply();
    assert_eq!(decoder.push(b"\x1b"), []);
    assert_eq!(press_escape(&mut decoder), Some(Key::Escape));
    assert_eq!(decoder.push(&reply[1..]), [version]);
    assert_eq!(keys(b"\x1bP1$r0m\x1b\\x"), [Key::Char('x')], "another answer is none of it");
    let mut decoder = KeyDecoder::default();
    decoder.expect_reply();
    decoder.push(b"\x1b");
    assert_eq!(press_escape(&mut decoder), Some(Key::Escape));
    assert_eq!(decoder.push(b"P>x"), "P>x".chars().map(Key::Char).collect::<Vec<_>>());
}

#[test]
fn nothing_in_a_paste_is_a_key() {
    let pressed = keys(b"\x1b[200~y\r\x03\x1b[A\x1b[201~z");
    assert_eq!(pressed, [Key::Paste("y\n\u{3}\u{1b}[A".to_owned()), Key::Char('z')]);
}

#[test]
fn a_paste_whose_end_never_comes_is_over_after_a_while_and_keys_are_keys_again() {
    let mut decoder = KeyDecoder::default();
    assert_eq!(decoder.push(b"\x1b[200~half\r"), []);
    assert!(decoder.awaits_more_bytes());
    for _ in 1..PASTE_WAITS {
        assert_eq!(decoder.idle(), None);
    }
    assert_eq!(decoder.idle(), Some(Key::Paste("half\n".to_owned())));
    assert!(!decoder.awaits_more_bytes());
    assert_eq!(decoder.push(b"\x03"), [Key::Ctrl('c')]);
    // A slow but continuing paste stays whole.
    assert_eq!(decoder.push(b"\x1b[200~a"), []);
    for _ in 0..3 {
        (1..PASTE_WAITS).for_each(|_| assert_eq!(decoder.idle(), None));
        assert_eq!(decoder.push(b"b"), []);
    }
    assert_eq!(decoder.push(b"\x1b[201~"), [Key::Paste("abbb".to_owned())]);
}

proptest! {
    #[test]
    fn keys_do_not_depend_on_how_the_bytes_are_split(bytes in proptest::collection::vec(any::<u8>(), 0..60), cut in 0..60usize) {
        let at = cut.min(bytes.len());
        let mut decoder = KeyDecoder::default();
        let mut pressed = decoder.push(&bytes[..at]);
        pressed.extend(decoder.push(&bytes[at..]));
        prop_assert_eq!(pressed, keys(&bytes));
    }
}

use proptest::prelude::*;

use super::*;

fn sanitise_pieces(pieces: &[&str]) -> String {
    let mut sanitiser = Sanitiser::default();
    let mut out = String::new();
    for piece in pieces {
        sanitiser.push(piece, &mut out);
    }
    out
}

#[test]
fn plain_text_tabs_and_newlines_stay() {
    let text = "a\tb\nçé 漢字 🙂 ~";
    assert_eq!(sanitise(text), text);
    assert!(matches!(sanitise(text), Cow::Borrowed(_)));
}

#[test]
fn sequences_of_every_kind_are_removed_whole() {
    for sequence in [
        "\u{1b}[31;1m",
        "\u{1b}[?1049h",
        "\u{9b}2J",
        "\u{1b}]0;title\u{7}",
        "\u{1b}]52;c;aGk=\u{1b}\\",
        "\u{9d}8;;http://x\u{9c}",
        "\u{1b}Pq#0\u{1b}\\",
        "\u{90}data\u{9c}",
        "\u{1b}_app\u{1b}\\",
        "\u{1b}^private\u{1b}\\",
        "\u{1b}Xstart\u{1b}\\",
        "\u{1b}(B",
        "\u{1b}c",
        "\u{1b}#8",
        "\r",
        "\u{8}",
        "\u{7f}",
        "\u{85}",
        "\u{202e}",
        "\u{2066}",
        "\u{200b}",
        "\u{feff}",
        "\u{34f}",
        "\u{115f}",
        "\u{1160}",
        "\u{17b4}",
        "\u{180b}",
        "\u{180e}",
        "\u{200d}",
        "\u{2064}",
        "\u{3164}",
        "\u{fe00}",
        "\u{fe0f}",
        "\u{ffa0}",
        "\u{fff0}",
        "\u{1bca0}",
        "\u{1d173}",
        "\u{e0001}",
        "\u{e0100}",
        "\u{e01ef}",
    ] {
        assert_eq!(sanitise(&format!("a{sequence}b")), "ab", "{sequence:?}");
    }
}

#[test]
fn joiners_and_variation_selectors_stay_within_emoji_and_nowhere_else() {
    for emoji in
        ["👩\u{200d}💻", "❤\u{fe0f}\u{200d}🔥", "👨\u{200d}👩\u{200d}👧", "🏴\u{200d}☠\u{fe0f}", "👍🏽"]
    {
        assert_eq!(sanitise(&format!("a{emoji}b")), format!("a{emoji}b"));
        assert_eq!(
            sanitise_pieces(
                &emoji
                    .chars()
                    .map(String::from)
                    .collect::<Vec<_>>()
                    .iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
            ),
            emoji
        );
    }
    assert_eq!(sanitise("👩\u{200d}x\u{200d}💻\u{200d}"), "👩x💻");
    assert_eq!(sanitise("1\u{fe0f}👩\u{200d}\u{200d}💻"), "1👩\u{200d}💻");
    assert_eq!(sanitise_pieces(&["👩\u{200d}", "plain"]), "👩plain");
}

#[test]
fn a_sequence_split_over_pieces_is_removed() {
    assert_eq!(sanitise_pieces(&["a\u{1b}", "[3", "1", "mb"]), "ab");
    assert_eq!(sanitise_pieces(&["a\u{1b}]0;ti", "tle\u{1b}", "\\b"]), "ab");
}

#[test]
fn an_unterminated_string_hides_no_more_than_its_line() {
    assert_eq!(sanitise("a\u{1b}]0;title\nb"), "a\nb");
    let long = format!("\u{1b}]0;{}end", "x".repeat(2 * MAX_STRING_CHARS));
    assert!(sanitise(&long).ends_with("xend"));
}

#[test]
fn an_interrupted_sequence_starts_the_next_one() {
    assert_eq!(sanitise("\u{1b}[3\u{1b}[1mb"), "b");
    assert_eq!(sanitise("\u{1b}\u{1b}[1mb"), "b");
}

/// Pieces of generated texts: parts of sequences, and harmless text.
const PIECES: [&str; 37] = [
    "\u{1b}",
    "\u{1b}[",
    "\u{1b}]",
    "\u{1b}P",
    "\u{1b}_",
    "\u{1b}^",
    "\u{1b}X",
    "\u{1b}\\",
    "\u{9c}",
    "\u{9b}",
    "\u{9d}",
    "\u{90}",
    "\u{98}",
    "\u{85}",
    "\u{7}",
    "\u{0}",
    "\u{8}",
    "\r",
    "\n",
    "\t",
    "\u{7f}",
    "\u{202e}",
    "\u{200b}",
    "\u{feff}",
    "\u{e0041}",
    "0",
    ";",
    "?",
    " ",
    "(",
    "m",
    "]",
    "é",
    "漢🙂",
    "\u{200d}",
    "\u{fe0f}",
    "\u{e0100}",
];

fn hostile_text() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(PIECES.as_slice()), 0..32)
        .prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_dangerous_comes_through(text in hostile_text()) {
        let out = sanitise(&text);
        let belongs_to_emoji = |c| is_emoji_style(c) || c == JOINER;
        prop_assert!(out.chars().all(|c| is_harmless(c) || belongs_to_emoji(c)), "{out:?}");
        prop_assert!(!out.ends_with(JOINER) && !out.starts_with(belongs_to_emoji), "{out:?}");
        prop_assert_eq!(sanitise(&out).into_owned(), out.clone().into_owned());
    }

    #[test]
    fn pieces_are_sanitised_like_the_whole(text in hostile_text(), cuts in proptest::collection::vec(0usize..100, 0..6)) {
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|at| text.is_char_boundary(*at)).collect();
        cuts.extend([0, text.len()]);
        cuts.retain(|at| *at <= text.len());
        cuts.sort_unstable();
        let pieces: Vec<&str> = cuts.windows(2).map(|pair| text.get(pair[0]..pair[1]).unwrap()).collect();
        prop_assert_eq!(sanitise_pieces(&pieces), sanitise(&text).into_owned());
    }
}

#[test]
fn joiners_stay_within_words_of_scripts_that_need_them_and_nowhere_else() {
    let persian = "می\u{200c}خواهم";
    let hindi = "क्\u{200d}ष";
    for word in [persian, hindi] {
        assert_eq!(sanitise(word), word);
        // The text may be split anywhere.
        for (at, _) in word.char_indices() {
            let (mut sanitiser, mut out) = (Sanitiser::default(), String::new());
            let (one, other) = word.split_at(at);
            sanitiser.push(one, &mut out);
            sanitiser.push(other, &mut out);
            assert_eq!(out, word);
        }
    }
    for (text, expected) in [
        ("a\u{200d}b", "ab"),
        ("a\u{200c}b", "ab"),
        ("م\u{200c} x", "م x"),
        ("x\u{200c}م", "xم"),
        ("م\u{200c}\u{200c}م", "م\u{200c}م"),
        ("م\u{200d}x", "مx"),
        ("👩\u{200c}🚀", "👩🚀"),
    ] {
        assert_eq!(sanitise(text), expected, "{text:?}");
    }
}

/// Bytes are checked eight at a time: each value at each position of a block and after the last one, alone
/// and next to the limits of a range.
#[test]
fn each_byte_is_checked_alike_at_every_position() {
    for beside in [b' ', b'~', b'\n', b'a'] {
        for place in 0..19 {
            for byte in 0..=u8::MAX {
                let mut text = [beside; 19];
                text[place] = byte;
                let harmless = matches!(byte, b'\n' | b'\t' | b' '..=b'~');
                assert_eq!(is_plain_ascii(&text), harmless, "{byte} at {place} beside {beside}");
            }
        }
    }
}

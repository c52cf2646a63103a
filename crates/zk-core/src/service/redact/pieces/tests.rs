use proptest::prelude::*;

use super::*;

const KNOWN: [&str; 5] =
    ["correct-horse-battery", "pa55:word é", "abababab", "batteryhorse", "sk-known-key-of-the-program"];

fn redactor() -> Arc<Redactor> {
    let redactor = Redactor::new();
    KNOWN.iter().for_each(|secret| redactor.learn(secret));
    redactor.learn_key("own-key-0123456789");
    Arc::new(redactor)
}

/// Generator of keys, parts of keys, and look-alikes.
fn text_part() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec!["sk-ant-", "ghp_", "AKIA", "gsk_", "xai-", "sk-", "hf_", "AIza"]);
    let shape = (key, "[a-z0-9]{0,50}").prop_map(|(prefix, rest)| format!("{prefix}{rest}"));
    let token = ("[A-Za-z0-9]{0,14}", "[a-z0-9]{0,14}", "[a-z0-9]{0,14}")
        .prop_map(|(one, two, three)| format!("eyJ{one}.{two}.{three}"));
    let block = ("(RSA )?(PRIVATE|PUBLIC)", "[A-Z\n]{0,90}", "-{0,5}(END)? ?(RSA PRIVATE KEY)?-{0,5}")
        .prop_map(|(label, body, end)| format!("-----BEGIN {label} KEY-----{body}{end}"));
    let url = ("[a-z:@]{0,9}", "[a-z:]{0,9}").prop_map(|(user, rest)| format!("https://{user}:{rest}@host"));
    let known = prop::sample::select(KNOWN.to_vec()).prop_map(str::to_owned);
    let piece = prop_oneof![known, Just("own-key-0123456789…".to_owned()), shape, token, block, url];
    let cut = (piece, any::<prop::sample::Index>(), any::<bool>()).prop_map(|(piece, at, is_cut)| {
        let len = if is_cut { at.index(piece.chars().count()) } else { piece.len() };
        piece.chars().take(len).collect::<String>()
    });
    prop_oneof![3 => cut, 2 => "[ a-z.:@/é…\n-]{0,12}", 1 => Just("…".to_owned())]
}

fn cut_at(text: &str, cuts: &[prop::sample::Index]) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(chars.len() + 1)).collect();
    cuts.extend([0, chars.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| chars[pair[0]..pair[1]].iter().collect()).collect()
}

/// Returns the redacted text of each piece.
fn redacted_pieces(pieces: Vec<String>) -> Vec<String> {
    let mut redacted = RedactedPieces::new(redactor());
    let mut shown: Vec<_> = pieces.into_iter().map(|piece| redacted.push(piece)).collect();
    shown.push(redacted.finish());
    shown
}

/// Number of random texts, by default 200; `ZK_PIECES` sets another number.
#[expect(clippy::disallowed_methods, reason = "how much is tried is chosen from outside")]
fn case_count() -> u32 {
    std::env::var("ZK_PIECES").ok().and_then(|count| count.parse().ok()).unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(case_count()))]

    #[test]
    fn redacted_pieces_together_equal_the_redacted_text(
        parts in prop::collection::vec(text_part(), 1..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let text = parts.concat();
        let whole = redactor().redact(&text).into_owned();
        prop_assert_eq!(redacted_pieces(cut_at(&text, &cuts)).concat(), &*whole, "{:?}", cut_at(&text, &cuts));
        let single = text.chars().map(String::from).collect();
        prop_assert_eq!(redacted_pieces(single).concat(), &*whole, "one by one: {}", text);
    }

    #[test]
    fn text_without_keys_is_emitted_at_once_except_possible_beginnings(
        words in prop::collection::vec("[b-fi-oqt-z]{1,12}[ ,.\n]{1,2}", 1..30),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let pieces: Vec<String> = cut_at(&words.concat(), &cuts);
        let mut redacted = RedactedPieces::new(redactor());
        let mut late = String::new();
        for piece in pieces {
            late.push_str(&piece);
            let now = redacted.push(piece);
            late.drain(..now.len());
            prop_assert!(late.len() < 12, "{:?} is held back", late);
        }
        prop_assert_eq!(redacted.finish(), late);
    }
}

#[test]
fn a_possible_key_is_emitted_once_it_is_none() {
    for (pieces, shown_by_then) in [
        (["a sk", "i lift"], ["a ", "ski lift"]),
        (["correct", "ly, you said so."], ["", "correctly, you said so."]),
        (["see https://me:", "80/y"], ["see https://me", ":80/y"]),
        (["eyJust", " a word"], ["", "eyJust a word"]),
        (["-----BEG", "GAR"], ["", "-----BEGGAR"]),
    ] {
        assert_eq!(redacted_pieces(pieces.map(str::to_owned).to_vec())[..2], shown_by_then, "{pieces:?}");
    }
}

#[test]
fn text_in_the_form_of_an_endless_key_is_emitted() {
    let mut redacted = RedactedPieces::new(redactor());
    let shown: usize = (0..80).map(|_| redacted.push(format!("{}sk-", "x".repeat(1021))).len()).sum();
    assert!(shown > 70 * 1024, "{shown}");
    let mut redacted = RedactedPieces::new(redactor());
    let mut text = "sk-".to_owned();
    let mut shown = 0;
    for _ in 0..200 {
        shown += redacted.push(std::mem::replace(&mut text, "x".repeat(1024))).len();
        assert!(redacted.text.len() <= MAX_HELD_FORM_BYTES + 2048);
    }
    assert!(shown > 100 * 1024, "{shown}");
}

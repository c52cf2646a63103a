use proptest::prelude::*;

use super::{SseDecoder, SseError};

type Event = (String, Vec<u8>);

fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
    let mut decoder = SseDecoder::new();
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.feed(chunk);
        while let Some(event) = decoder.next().unwrap() {
            events.push((event.name.to_owned(), event.data.to_vec()));
        }
    }
    decoder.finish();
    while let Some(event) = decoder.next().unwrap() {
        events.push((event.name.to_owned(), event.data.to_vec()));
    }
    events
}

fn decode_at_once(text: &str) -> Vec<(String, String)> {
    decode([text.as_bytes()])
        .into_iter()
        .map(|(name, data)| (name, String::from_utf8(data).unwrap()))
        .collect()
}

fn event(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

#[test]
fn lines_end_in_cr_lf_or_crlf() {
    for end in ["\r", "\n", "\r\n"] {
        let text = ["event: a", "data: 1", "", "data: 2", "", ""].join(end);
        assert_eq!(decode_at_once(&text), [event("a", "1"), event("", "2")], "{end:?}");
    }
}

#[test]
fn data_lines_are_joined_with_a_line_feed() {
    assert_eq!(decode_at_once("data: a\ndata:\ndata: b\n\n"), [event("", "a\n\nb")]);
}

#[test]
fn one_blank_after_the_colon_is_dropped_and_no_more() {
    assert_eq!(
        decode_at_once("data:a\n\ndata: a\n\ndata:  a\n\n"),
        [event("", "a"), event("", "a"), event("", " a")]
    );
}

#[test]
fn a_byte_order_mark_may_stand_first() {
    assert_eq!(decode_at_once("\u{feff}data: a\n\n"), [event("", "a")]);
}

#[test]
fn comments_and_unknown_fields_are_ignored() {
    let text = ": OPENROUTER PROCESSING\n\n: again\nid: 7\nretry: 10\nnonsense\ndata: a\n: between\n\n";
    assert_eq!(decode_at_once(text), [event("", "a")]);
}

#[test]
fn an_event_without_data_is_no_event_and_its_name_is_forgotten() {
    assert_eq!(decode_at_once("event: lost\n\ndata: a\n\n"), [event("", "a")]);
}

#[test]
fn the_last_event_needs_no_blank_line() {
    assert_eq!(decode_at_once("data: a\n\nevent: last\ndata: b"), [event("", "a"), event("last", "b")]);
    assert_eq!(decode_at_once("data: a\n\ndata: b\n"), [event("", "a"), event("", "b")]);
    assert_eq!(decode_at_once("data: a\r\n\r\ndata: b\r"), [event("", "a"), event("", "b")]);
}

#[test]
fn padding_after_the_data_is_kept_as_data() {
    assert_eq!(decode_at_once("data: {}     \n\n"), [event("", "{}     ")]);
}

#[test]
fn a_field_name_alone_is_a_field_without_value() {
    assert_eq!(decode_at_once("data\n\n"), [event("", "")]);
    assert_eq!(decode_at_once("dataset: x\ndata: a\n\n"), [event("", "a")]);
}

#[test]
fn an_event_over_the_limit_is_an_error() {
    let mut decoder = SseDecoder::with_limit(64);
    decoder.feed(&[b'x'; 65]);
    assert_eq!(decoder.next(), Err(SseError::TooLarge { limit: 64 }));

    let mut decoder = SseDecoder::with_limit(64);
    for _ in 0..7 {
        decoder.feed(b"data: 12345\n");
        let _ = decoder.next();
    }
    assert_eq!(decoder.next(), Err(SseError::TooLarge { limit: 64 }));
}

#[test]
fn a_withdrawn_event_name_does_not_count_towards_the_limit_in_any_split() {
    for chunks in [&["event: name\nevent:\r\ndata: 12"][..], &["event: name\nevent:\r", "\ndata: 12"]] {
        let mut decoder = SseDecoder::with_limit("event: name\nevent:".len());
        for chunk in chunks {
            decoder.feed(chunk.as_bytes());
            assert_eq!(decoder.next(), Ok(None));
        }
    }
}

#[test]
fn a_line_end_does_not_count_towards_the_limit_in_any_split() {
    for end in ["\n", "\r", "\r\n"] {
        let body = format!("data: 12{end}{end}");
        for at in 0..=body.len() {
            let mut decoder = SseDecoder::with_limit("data: 12".len());
            let (head, tail) = body.split_at(at);
            decoder.feed(head.as_bytes());
            let early = decoder.next().expect("it fits").is_some();
            decoder.feed(tail.as_bytes());
            assert!(decoder.next().expect("it fits").is_some() != early, "{body:?} at {at}");
        }
    }
}

#[test]
fn comments_without_end_cost_no_memory() {
    let mut decoder = SseDecoder::with_limit(64);
    for _ in 0..10_000 {
        decoder.feed(b": keep-alive\n\n");
        assert_eq!(decoder.next(), Ok(None));
    }
    assert!(decoder.buffer.capacity() < 1024);
    decoder.feed(b"data: a\n\n");
    assert_eq!(decoder.next().unwrap().unwrap().data, b"a");
}

#[test]
fn every_split_gives_the_same_events() {
    let texts = [
        "\u{feff}event: a\r\ndata: gr\u{fc}\u{df}e \u{1f980}\r\n\r\n: c\r\ndata: 1\r\ndata: 2\r\n\r\ndata: [DONE]",
        "data: a\r\rdata: b\rdata: c\r\r\n\ndata: d\n\r\n",
        "event: x\n\ndata:\n\nevent: y\ndata: z\n",
    ];
    for text in texts {
        let bytes = text.as_bytes();
        let expected = decode([bytes]);
        for at in 0..=bytes.len() {
            assert_eq!(decode([&bytes[..at], &bytes[at..]]), expected, "split at {at}");
            for next in at..=bytes.len() {
                let chunks = [&bytes[..at], &bytes[at..next], &bytes[next..]];
                assert_eq!(decode(chunks), expected, "split at {at} and {next}");
            }
        }
        assert_eq!(decode(bytes.chunks(1)), expected, "byte by byte");
    }
}

/// Generates bytes with many relevant ones.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"data: ".to_vec()),
        Just(b"event:".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\r\n\r\n".to_vec()),
        Just(b": ".to_vec()),
        Just(super::BOM.to_vec()),
        Just("\u{1f980}".as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..4),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_decode_alike_however_they_are_split(
        bytes in stream(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let mut chunks = Vec::new();
        let mut from = 0;
        for cut in cuts {
            chunks.push(&bytes[from..cut]);
            from = cut;
        }
        chunks.push(&bytes[from..]);
        prop_assert_eq!(decode(chunks), decode([&bytes[..]]));
    }
}

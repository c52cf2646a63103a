use zk_providers::sse::{SseDecoder, SseError};

use super::Cuts;

type Events = Vec<(String, Vec<u8>)>;

/// Small enough that small inputs go over it.
const LIMIT: usize = 48;

pub(super) fn check(bytes: &[u8], cuts: Cuts) {
    let whole = read(SseDecoder::new(), std::iter::once(bytes));
    assert_eq!(whole, (expected(bytes), None), "the format says otherwise");
    assert_eq!(whole, read(SseDecoder::new(), cuts.pieces(bytes)), "cuts make no difference");
    let limited = |pieces: &mut dyn Iterator<Item = &[u8]>| read(SseDecoder::with_limit(LIMIT), pieces);
    let (whole, split) = (limited(&mut std::iter::once(bytes)), limited(&mut cuts.pieces(bytes)));
    assert_eq!(whole, split, "cuts make no difference to the limit");
    assert!(whole.0.iter().all(|(name, data)| name.len() + data.len() <= LIMIT), "the limit holds");
}

fn read<'a>(
    mut decoder: SseDecoder,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Events, Option<SseError>) {
    let mut events = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        if let Err(error) = drain(&mut decoder, &mut events) {
            assert_eq!(decoder.next(), Err(error), "an error stays");
            return (events, Some(error));
        }
    }
    decoder.finish();
    let error = drain(&mut decoder, &mut events).err();
    assert_eq!(decoder.next().err(), error, "the end is the end");
    (events, error)
}

fn drain(decoder: &mut SseDecoder, events: &mut Events) -> Result<(), SseError> {
    while let Some(event) = decoder.next()? {
        events.push((event.name.to_owned(), event.data.to_vec()));
    }
    Ok(())
}

/// The events by the letter of the format, except that the last one needs no blank line.
fn expected(bytes: &[u8]) -> Events {
    let mut events = Vec::new();
    let (mut name, mut data) = (&b""[..], None::<Vec<u8>>);
    let mut take = |name: &mut &[u8], data: &mut Option<Vec<u8>>| {
        let name = String::from_utf8(std::mem::take(name).to_vec()).unwrap_or_default();
        events.extend(data.take().map(|data| (name, data)));
    };
    for line in lines(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)) {
        if line.is_empty() {
            take(&mut name, &mut data);
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"event" => name = value,
            b"data" => match &mut data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => data = Some(value.to_vec()),
            },
            _ => {}
        }
    }
    take(&mut name, &mut data);
    events
}

fn lines(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
        let (line, rest) = bytes.split_at(end);
        lines.push(line);
        bytes = rest.strip_prefix(b"\r\n").or_else(|| rest.get(1..)).unwrap_or_default();
    }
    lines
}

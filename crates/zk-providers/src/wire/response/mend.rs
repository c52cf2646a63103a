use memchr::memmem;

/// JSON escape of `U+FFFD`.
const REPLACEMENT: &[u8] = b"\\ufffd";

/// Replaces each invalid UTF-8 byte and each unpaired surrogate escape in an event's data by `U+FFFD`, since
/// a single one would lose the whole answer; `None` if there are none.
pub(crate) fn mend(data: &[u8]) -> Option<Vec<u8>> {
    let text = match std::str::from_utf8(data) {
        Ok(_) => None,
        Err(_) => Some(String::from_utf8_lossy(data).into_owned().into_bytes()),
    };
    let has_surrogates = memmem::find(data, b"\\ud").is_some() || memmem::find(data, b"\\uD").is_some();
    let paired =
        has_surrogates.then(|| replace_unpaired_surrogates(text.as_deref().unwrap_or(data))).flatten();
    paired.or(text)
}

/// Replaces each unpaired surrogate escape; `None` if there is none.
fn replace_unpaired_surrogates(data: &[u8]) -> Option<Vec<u8>> {
    let mut mended = Vec::with_capacity(data.len());
    let (mut at, mut is_changed) = (0, false);
    while let Some(&byte) = data.get(at) {
        let taken = match (byte, utf16_unit(data, at)) {
            (b'\\', Some(0xD800..=0xDBFF)) if matches!(utf16_unit(data, at + 6), Some(0xDC00..=0xDFFF)) => 12,
            (b'\\', Some(0xD800..=0xDFFF)) => {
                mended.extend_from_slice(REPLACEMENT);
                (at, is_changed) = (at + 6, true);
                continue;
            }
            // An escaped backslash does not begin another escape.
            (b'\\', _) => 2,
            _ => 1,
        };
        mended.extend_from_slice(data.get(at..data.len().min(at + taken)).unwrap_or_default());
        at += taken;
    }
    is_changed.then_some(mended)
}

/// Returns the UTF-16 unit that is escaped at `at`.
fn utf16_unit(data: &[u8], at: usize) -> Option<u16> {
    let hex = data.get(at..)?.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::mend;

    #[test]
    fn bytes_that_are_no_text_and_lone_surrogates_are_replaced_and_nothing_else() {
        let mended = |data: &[u8]| mend(data).map(|data| String::from_utf8(data).unwrap());
        assert_eq!(mended(b"{\"a\":\"x\xffy\"}").as_deref(), Some("{\"a\":\"x\u{fffd}y\"}"));
        for (data, expected) in [
            (r#""a \ud83d b""#, Some(r#""a \ufffd b""#)),
            (r#""\uDE00\uD83D""#, Some(r#""\ufffd\ufffd""#)),
            (r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#)),
            (r#""\ud83d\ude00""#, None),
            (r#""C:\\ud83d""#, None),
            (r#""\ud8"#, None),
            ("", None),
        ] {
            assert_eq!(mended(data.as_bytes()).as_deref(), expected, "{data}");
        }
    }
}

/// Maximum size of a copy in bytes: terminals refuse or truncate longer ones.
const MAX_COPIED_BYTES: usize = 74_000;

/// Sequence that copies a text to the terminal's clipboard (OSC 52), and a second one for tmux to pass on.
/// `None` for a text that is too long.
pub(crate) fn copy_sequence(text: &str, in_tmux: bool) -> Option<String> {
    if text.len() > MAX_COPIED_BYTES {
        return None;
    }
    let copy = format!("\u{1b}]52;c;{}\u{1b}\\", base64(text.as_bytes()));
    if !in_tmux {
        return Some(copy);
    }
    let inner = copy.replace('\u{1b}', "\u{1b}\u{1b}");
    Some(format!("{copy}\u{1b}Ptmux;{inner}\u{1b}\\"))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| chunk.get(at).copied().map_or(0, u32::from);
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = (bits >> (18 - 6 * at)) & 63;
            let shown = DIGITS.get(digit as usize).copied().unwrap_or(b'=');
            out.push(if at <= chunk.len() { shown.into() } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_base64_and_cannot_end_its_own_sequence() {
        for (text, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob\u{1b}\\", "Zm9vYhtc")]
        {
            let copy = copy_sequence(text, false).unwrap();
            assert_eq!(copy, format!("\u{1b}]52;c;{expected}\u{1b}\\"));
        }
        assert_eq!(copy_sequence(&"x".repeat(MAX_COPIED_BYTES + 1), false), None);
        let through = copy_sequence("foo", true).unwrap();
        assert!(through.contains("\u{1b}Ptmux;\u{1b}\u{1b}]52;c;Zm9v\u{1b}\u{1b}\\\u{1b}\\"), "{through:?}");
    }
}

use std::borrow::Cow;

use zk_view::sanitise;

/// Appends text, with every character escaped that has a meaning in HTML. Characters that are invisible or change the order
/// of others are left out.
pub(super) fn push_text(out: &mut String, text: &str) {
    let text = sanitise(text);
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escaped = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\'' => "&#39;",
            _ => continue,
        };
        out.push_str(text.get(from..at).unwrap_or_default());
        out.push_str(escaped);
        from = at + 1;
    }
    out.push_str(text.get(from..).unwrap_or_default());
}

/// Text with every character escaped that has a meaning in HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_text(&mut out, text);
    out
}

/// Beginning of a text of at most `bytes`, and a remark on the omitted rest.
pub(super) fn cut_text(text: &str, bytes: usize) -> (&str, Option<String>) {
    if text.len() <= bytes {
        return (text, None);
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    let rest = text.len() - end;
    (text.get(..end).unwrap_or_default(), Some(format!("{rest} more bytes are left out")))
}

/// Number with commas between groups of three digits.
pub(super) fn group_digits(number: u64) -> Cow<'static, str> {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.into()
}

/// Duration in its largest suitable unit.
pub(super) fn duration(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 if millis < 100 => format!("{millis} ms"),
        0..=9 => format!("{}.{} s", seconds, millis % 1000 / 100),
        10..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Cost in dollars.
pub(super) fn dollars(cost: f64) -> String {
    if cost >= 1.0 { format!("${cost:.2}") } else { format!("${cost:.4}") }
}

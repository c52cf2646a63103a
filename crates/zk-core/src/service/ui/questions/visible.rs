/// Opening mark of an escaped character, such as `⟨U+001B⟩`.
const OPEN: char = '⟨';
/// Closing mark of an escaped character.
const CLOSE: char = '⟩';

/// Splits text into lines that show every character: each one that a terminal would interpret, hide or
/// reorder is written as `⟨U+001B⟩`, and so is `⟨` itself. Only `\n` separates lines.
///
/// The mapping is injective: different texts give different lines, so that the person reads exactly what
/// runs.
///
/// ```
/// use zk_core::service::visible_lines;
///
/// assert_eq!(visible_lines("ls\u{1b}P;\ntouch x"), ["ls⟨U+001B⟩P;", "touch x"]);
/// assert_eq!(visible_lines("a\u{202e}b\r"), ["a⟨U+202E⟩b⟨U+000D⟩"]);
/// ```
#[must_use]
pub fn visible_lines(text: &str) -> Vec<String> {
    text.split('\n').map(escape_line).collect()
}

/// Makes text visible like [`visible_lines`], in one line: line ends are escaped too.
///
/// ```
/// assert_eq!(zk_core::service::visible_line("a\nb"), "a⟨U+000A⟩b");
/// ```
#[must_use]
pub fn visible_line(text: &str) -> String {
    visible_lines(text).join("⟨U+000A⟩")
}

/// Returns the lines of a unified diff as [`visible_lines`] shows them, but never escapes the blank that marks
/// an unchanged line.
///
/// ```
/// assert_eq!(zk_core::service::visible_diff("@@ -1,2 +1,2 @@\n \n-a \n"), ["@@ -1,2 +1,2 @@", " ", "-a⟨U+0020⟩"]);
/// ```
#[must_use]
pub fn visible_diff(diff: &str) -> Vec<String> {
    let line = |line: &str| match line.strip_prefix(' ') {
        Some(kept) => format!(" {}", escape_line(kept)),
        None => escape_line(line),
    };
    diff.strip_suffix('\n').unwrap_or(diff).split('\n').map(line).collect()
}

/// Maximum number of combining marks on one character; more would cover neighbouring rows.
pub const MAX_MARKS: usize = 8;

/// Whether `c` is drawn on top of the character before it: a combining mark of the Unicode blocks whose marks
/// can be stacked.
#[must_use]
pub fn is_combining_mark(c: char) -> bool {
    matches!(u32::from(c),
        0x300..=0x34e | 0x350..=0x36f | 0x483..=0x489 | 0x591..=0x5bd | 0x610..=0x61a | 0x64b..=0x65f | 0x670
        | 0x6d6..=0x6dc | 0x6df..=0x6e4 | 0x6e7..=0x6e8 | 0x6ea..=0x6ed | 0xe31 | 0xe34..=0xe3a
        | 0xe47..=0xe4e | 0xeb1 | 0xeb4..=0xebc | 0xec8..=0xece | 0xf71..=0xf7e | 0xf80..=0xf84
        | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0xfe20..=0xfe2f)
}

fn escape_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    let mut before_is_emoji = false;
    let mut marks = 0;
    while let Some(c) = chars.next() {
        marks = if is_combining_mark(c) { marks + 1 } else { 0 };
        // A joiner is visible only between two emoji, of which it makes one picture.
        let joins = c == '\u{200d}' && before_is_emoji && chars.peek().is_some_and(|next| is_emoji(*next));
        let presents = c == '\u{fe0f}' && before_is_emoji;
        if joins || presents || !(is_hidden(c) || marks > MAX_MARKS) {
            out.push(c);
        } else {
            out.push_str(&format!("{OPEN}U+{:04X}{CLOSE}", u32::from(c)));
        }
        before_is_emoji = is_emoji(c) || (presents && before_is_emoji);
    }
    // Trailing blanks are part of the call, and would be invisible on a screen.
    let blanks = out.chars().rev().take_while(|c| *c == ' ').count();
    if blanks > 0 {
        out.truncate(out.len() - blanks);
        out.extend(std::iter::repeat_n("⟨U+0020⟩", blanks));
    }
    out
}

/// Reconstructs the text from its [`visible_lines`]; `None` if no text has these lines.
#[must_use]
pub fn text_of_visible_lines<S: AsRef<str>>(lines: &[S]) -> Option<String> {
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let mut rest = line.as_ref();
        while let Some((plain, after)) = rest.split_once(OPEN) {
            out.push_str(plain);
            let (code, after) = after.split_once(CLOSE)?;
            let code = u32::from_str_radix(code.strip_prefix("U+")?, 16).ok()?;
            out.push(char::from_u32(code)?);
            rest = after;
        }
        out.push_str(rest);
    }
    Some(out)
}

/// Whether a terminal interprets the character, or shows it as nothing or in another order, or it is an
/// escape mark.
///
/// Covers control characters and separators; Unicode's `Default_Ignorable_Code_Point`; bidirectional
/// controls; spaces other than `U+0020`; private use; unassigned code points.
fn is_hidden(c: char) -> bool {
    if c == OPEN || c.is_control() {
        return true;
    }
    matches!(u32::from(c),
        0xa0 | 0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x1680 | 0x17b4 | 0x17b5
        | 0x180b..=0x180f | 0x2000..=0x200f | 0x2028..=0x202f | 0x205f..=0x206f | 0x2800 | 0x3000 | 0x3164
        | 0xe000..=0xf8ff | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffd
        | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff | 0xf0000..=0x10_ffff)
}

fn is_emoji(c: char) -> bool {
    matches!(u32::from(c), 0x2190..=0x2bff | 0x1f000..=0x1faff) || c == '\u{1f3fb}'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hidden_characters_are_escaped_and_emoji_stay_whole() {
        for (text, shown) in [
            ("", vec![""]),
            ("ls \t-la ", vec!["ls ⟨U+0009⟩-la⟨U+0020⟩"]),
            ("a\u{9b}2Jb", vec!["a⟨U+009B⟩2Jb"]),
            ("zero\u{200b}width\u{feff}", vec!["zero⟨U+200B⟩width⟨U+FEFF⟩"]),
            ("\u{e0100}\u{3164}\u{180b}", vec!["⟨U+E0100⟩⟨U+3164⟩⟨U+180B⟩"]),
            ("👩\u{200d}🚀", vec!["👩\u{200d}🚀"]),
            ("a\u{200d}b", vec!["a⟨U+200D⟩b"]),
            ("⟨U+001B⟩", vec!["⟨U+27E8⟩U+001B⟩"]),
            ("e\u{301}\u{323} ก\u{e34}\u{e48}", vec!["e\u{301}\u{323} ก\u{e34}\u{e48}"]),
            (
                "a\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{302}b",
                vec!["a\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}⟨U+0302⟩b"],
            ),
        ] {
            assert_eq!(visible_lines(text), shown);
        }
    }

    proptest! {
        #[test]
        fn no_two_texts_are_shown_alike(text in any::<String>()) {
            let lines = visible_lines(&text);
            prop_assert_eq!(text_of_visible_lines(&lines), Some(text));
            for line in &lines {
                prop_assert!(!line.chars().any(|c| c.is_control()), "{line:?}");
                prop_assert!(!line.ends_with(' '));
            }
        }
    }
}

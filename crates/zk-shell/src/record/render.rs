use std::num::NonZeroU16;

use vt100::Parser;
use vt100::capture::{BasicFormattedCaptureRange, BasicFormattedCaptureState, basic_formatted_to_plain};

/// Rows above the screen that are rendered; what scrolled further away is dropped.
const MAX_SCROLLED_ROWS: usize = 20_000;

/// Longest line that is rendered without a screen, in bytes; a longer one may have more rows than a screen keeps.
const MAX_PLAIN_LINE_BYTES: usize = 500;

/// Renders output as a terminal of this many columns and rows shows it: progress bars are resolved, cursor
/// moves obeyed, colours dropped, and long lines are whole again.
///
/// ```
/// let lines = zk_shell::render_output(b"10 %\r50 %\r100 %\r\n\x1b[31mdone\x1b[0m\r\n", (80, 24));
/// assert_eq!(lines, ["100 %", "done"]);
/// ```
#[must_use]
pub fn render_output(output: &[u8], (columns, rows): (u16, u16)) -> Vec<String> {
    if let Some(lines) = plain_lines(output) {
        return lines;
    }
    render_on_screen(output, (columns, rows))
}

/// Lines of an output that is printable ASCII alone, which needs no terminal: rendering costs a screen per command.
fn plain_lines(output: &[u8]) -> Option<Vec<String>> {
    let text = std::str::from_utf8(output).ok()?;
    let mut lines = Vec::new();
    for line in text.split("\r\n") {
        if lines.len() >= MAX_SCROLLED_ROWS || line.len() > MAX_PLAIN_LINE_BYTES {
            return None;
        }
        if !line.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return None;
        }
        lines.push(line.trim_end().to_owned());
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    Some(lines)
}

fn render_on_screen(output: &[u8], (columns, rows): (u16, u16)) -> Vec<String> {
    let size = |cells: u16, usual: NonZeroU16| NonZeroU16::new(cells).unwrap_or(usual);
    let (rows, columns) = (size(rows, Parser::DEFAULT_ROWS), size(columns, Parser::DEFAULT_COLS));
    let mut parser = Parser::new(rows, columns, MAX_SCROLLED_ROWS);
    parser.process(output);
    let mut formatted = String::new();
    let mut state = BasicFormattedCaptureState::new();
    let range = BasicFormattedCaptureRange::Full(&mut state);
    // A text takes everything.
    let _ = parser.screen().write_contents_formatted_basic(&mut formatted, range);
    let plain: String = basic_formatted_to_plain(&formatted).collect();
    let mut lines: Vec<String> = plain.split('\n').map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_what_the_terminal_showed() {
        let long = "x".repeat(200);
        let many: String = (0..100).map(|n| format!("line {n}\r\n")).collect();
        for (output, expected) in [
            ("", vec![]),
            ("one\r\ntwo", vec!["one", "two"]),
            ("a\r\n\r\nb\r\n\r\n\r\n", vec!["a", "", "b"]),
            ("  0%\r 50%\r100%\r\nok\r\n", vec!["100%", "ok"]),
            ("down 1\r\ndown 2\r\n\u{1b}[2A\u{1b}[Kdone 1\r\n\u{1b}[Kdone 2\r\n", vec!["done 1", "done 2"]),
            ("\u{1b}]0;title\u{7}\u{1b}[1;31mred\u{1b}[0m\r\n", vec!["red"]),
            (&long, vec![long.as_str()]),
            ("päß 漢字\r\n", vec!["päß 漢字"]),
        ] {
            assert_eq!(render_output(output.as_bytes(), (80, 24)), expected, "{output:?}");
        }
        let lines = render_output(many.as_bytes(), (80, 24));
        assert_eq!((lines.len(), &*lines[0], &*lines[99]), (100, "line 0", "line 99"));
    }

    proptest::proptest! {
        #[test]
        fn output_without_control_characters_is_what_a_screen_would_show(
            output in "([ -~]{0,90}\r\n){0,40}[ -~]{0,90}",
            columns in 10_u16..120,
        ) {
            let plain = plain_lines(output.as_bytes()).unwrap();
            proptest::prop_assert_eq!(plain, render_on_screen(output.as_bytes(), (columns, 5)));
        }
    }
}

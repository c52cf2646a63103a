//! Draws an answer as it arrives, below what the terminal shows already.

use std::io::{Write, stdout};
use std::thread::sleep;
use std::time::Duration;

use zk_tui::{Abilities, InlineScreen, Markdown, Size};

const ANSWER: &str =
    "# Inline\n\nWhat is *closed* scrolls away:\n\n- one\n- two\n\n```rust\nfn main() {}\n```\n\nDone.\n";

fn main() -> std::io::Result<()> {
    let mut screen = InlineScreen::new(Size::new(60, 20), Abilities::PLAIN);
    let mut answer = Markdown::new(60);
    let mut out = stdout().lock();
    for word in ANSWER.split_inclusive(' ') {
        answer.push(word);
        let frame = screen.frame(&answer.take_ready(), &answer.open_rows(), None);
        out.write_all(frame.as_bytes())?;
        out.flush()?;
        sleep(Duration::from_millis(30));
    }
    answer.finish();
    let frame = screen.frame(&answer.take_ready(), &[], None) + &screen.clear();
    out.write_all(frame.as_bytes())
}

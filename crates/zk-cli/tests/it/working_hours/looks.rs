//! Looking around, each time from the empty prompt and back to it.

use zk_tui::Size;

use super::Moment;

/// Moments that leave everything as it was.
pub(super) const LOOKS: [Moment; 28] = [
    ("keys", |desk, _| {
        desk.press("?");
        desk.see("commands");
        desk.clear();
    }),
    ("commands", |desk, _| {
        desk.press("/");
        desk.press("c");
        desk.press("o");
        desk.see("/co");
        desk.clear();
    }),
    ("files", |desk, _| {
        desk.press("@");
        desk.see("cart.py");
        desk.press("\t");
        desk.clear();
    }),
    ("recall", |desk, _| {
        desk.press("\u{1b}[A");
        desk.clear();
    }),
    ("search", |desk, _| {
        desk.press("\u{12}");
        desk.press("h");
        desk.keys("ello");
        desk.see("❯ hello");
        desk.press("\u{1b}");
        desk.clear();
    }),
    ("pickers", |desk, _| {
        desk.press("\u{f}");
        desk.see("[commands]");
        desk.press("\t");
        desk.see("[models]");
        desk.press("\t");
        desk.press("\u{1b}");
        desk.rest();
    }),
    ("pager", |desk, _| {
        desk.press("\u{14}");
        desk.see("q returns");
        desk.press("q");
        desk.rest();
    }),
    ("modes", |desk, _| {
        desk.press("\u{1b}[Z");
        desk.press("\u{1b}[Z");
        desk.line("/permissions ask", "ask");
        desk.rest();
    }),
    ("stash", |desk, _| {
        desk.keys("set aside");
        desk.see("set aside");
        desk.press("\u{13}");
        desk.rest();
        desk.press("\u{13}");
        desk.see("› set aside");
        desk.clear();
    }),
    ("lines", |desk, _| {
        desk.keys("first\\");
        desk.see("first\\");
        desk.press("\r");
        desk.press("x");
        desk.press("\u{15}");
        desk.keys("\u{3}");
        desk.rest();
    }),
    ("paste", |desk, _| {
        desk.press("\u{1b}[200~pasted one\npasted two\npasted three\u{1b}[201~");
        desk.see("pasted three");
        desk.press("\u{1b}");
        desk.press("\u{1b}");
        desk.rest();
    }),
    ("long paste", |desk, _| {
        desk.press(&format!("\u{1b}[200~{}end\u{1b}[201~", "a pasted line\n".repeat(40)));
        desk.press("\u{3}");
        desk.rest();
    }),
    ("nothing to stop", |desk, _| desk.press("\u{1b}")),
    ("nothing in the background", |desk, _| desk.press("\u{2}")),
    ("nothing to answer", |desk, _| desk.press("\u{1b}q")),
    ("nothing to take back", |desk, _| desk.press("\u{1b}[1;3A")),
    ("no picture", |desk, _| desk.press("\u{16}")),
    ("nothing to complete", |desk, _| desk.press("\t")),
    ("nothing to send", |desk, _| desk.press("\r")),
    ("nothing to put in", |desk, _| desk.press("\u{1b}y")),
    ("model", |desk, _| {
        desk.line("/model anthropic/claude-opus-5", "claude-opus-5, window");
        desk.rest();
        desk.line("/model", "Esc");
        desk.press("o");
        desk.press("\u{1b}");
        desk.rest();
    }),
    ("theme", |desk, _| {
        desk.line("/theme", "[themes]");
        desk.press("\u{1b}[B");
        desk.press("\u{1b}");
        desk.rest();
    }),
    ("own command", |desk, _| {
        desk.line("!echo own-$((40+2))", "own-42");
        desk.rest();
    }),
    ("earlier prompts", |desk, _| {
        desk.line("/tree", "[prompts]");
        desk.press("\u{1b}");
        desk.rest();
    }),
    ("sessions", |desk, _| {
        desk.line("/resume", "[sessions]");
        desk.press("h");
        desk.press("\u{1b}");
        desk.rest();
    }),
    ("an editor", |desk, _| {
        desk.keys("begun");
        desk.see("› begun");
        desk.press("\u{7}");
        desk.see("› begun, edited");
        desk.clear();
    }),
    ("a picture", |desk, person| {
        std::fs::write(person.project().join("shot.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").unwrap();
        desk.press("\u{1b}[200~shot.png\u{1b}[201~");
        desk.see(": shot.png]");
        desk.clear();
    }),
    ("another size and back", |desk, _| {
        let size = desk.size;
        desk.keys("a draft that is longer than the narrow one of the sizes is wide, so it wraps");
        desk.see("so it wraps");
        for (width, height) in super::SIZES {
            desk.resize(Size::new(width, height));
            desk.see("so it wraps");
        }
        desk.resize(size);
        desk.see("so it wraps");
        desk.clear();
    }),
];

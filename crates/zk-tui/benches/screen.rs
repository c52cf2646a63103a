//! Figures of the screen: `cargo bench -p zk-harness-tui`. A hundredth of each, to see that it works: `cargo test -p zk-harness-tui --bench
//! screen`.
//!
//! | figure | bar |
//! |---|---|
//! | an answer of 200 KB in 10,000 deltas at 1 kHz: processor time, bytes written for each byte | 1 s, 2.2 |
//! | its frames: mean, worst | 0.3 ms, 4 ms |
//! | a key pressed meanwhile, until its bytes are there: 99 of 100 | 5 ms |
//! | 100,000 deltas at once | 1 s |
//! | a conversation of 10,000 messages: until it is painted, and until its end is on the alternate screen | 30 ms |
//! | 40 lines of code in their colours | 2 ms |
//! | a name of 100,000 that fits what is typed | 20 ms |
#![expect(clippy::print_stdout, clippy::expect_used, reason = "a program that measures")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use zk_tui::{Abilities, App, Asked, Key, Looks, Markdown, Offered, Size, Theme};
use zk_view::{Block, Patch, View};

/// A size, or a hundredth of it outside of measurements.
fn size(full: usize) -> usize {
    if std::env::args().any(|arg| arg == "--bench") { full } else { full / 100 }
}

fn app(view: View, names: Vec<String>) -> App {
    let abilities = Abilities {
        looks: Looks { theme: Theme::Dark, links: true },
        synchronized: true,
        ..Abilities::PLAIN
    };
    let names: Arc<[String]> = names.into();
    let complete = move |_: &Asked| Offered { names: names.clone(), ..Offered::default() };
    App::new(view, Size::new(120, 40), abilities, Vec::new(), Box::new(complete))
}

fn block(id: &str, closed: bool, content: &serde_json::Value) -> Arc<Block> {
    serde_json::from_value(json!({"id": id, "closed": closed, "content": content})).expect("a block")
}

fn grow(delta: &str) -> Patch {
    serde_json::from_value(json!({"patch": "grow", "id": "b0", "delta": delta})).expect("a patch")
}

fn section(n: usize) -> String {
    format!(
        "## Section {n}\n\nSome prose about **things** and `code`, which goes on for a while so that it fills more than one \
         row of the terminal and has to be broken at words.\n\n- an item\n- another one\n\n```rust\nfn section_{n}() -> \
         usize {{\n    // A comment.\n    {n} + 1\n}}\n```\n\n| name | value |\n|------|------:|\n| a{n} | {n} |\n\n"
    )
}

fn text(bytes: usize) -> String {
    let mut text = String::new();
    for n in 0.. {
        text += &section(n);
        if text.len() >= bytes {
            break;
        }
    }
    text
}

fn begin(app: &mut App) {
    let open = Patch::Open { block: block("b0", false, &json!({"type": "answer", "text": ""})) };
    app.patches(&[open], Duration::from_secs(1));
}

fn load() {
    let text = text(size(200_000));
    let patches: Vec<Patch> = text
        .as_bytes()
        .chunks(text.len() / size(10_000))
        .map(|delta| grow(&String::from_utf8_lossy(delta)))
        .collect();
    let mut app = app(View::default(), Vec::new());
    begin(&mut app);
    let (mut now, mut written) = (Duration::from_secs(1), 0);
    let (mut frames, mut keys) = (Vec::new(), Vec::new());
    let began = Instant::now();
    for (n, patch) in patches.iter().enumerate() {
        let at = Instant::now();
        app.patches(std::slice::from_ref(patch), now);
        let is_key = n % 100 == 50;
        if is_key {
            let _ = app.keys(&[Key::Char('x')], now);
        }
        let frame = app.frame(now);
        if !frame.is_empty() {
            written += frame.len();
            frames.push(at.elapsed());
        }
        if is_key {
            // A key that waits for the next frame of the answer counts with that wait.
            let waits = if frame.is_empty() { Duration::from_millis(20) } else { Duration::ZERO };
            keys.push(at.elapsed() + waits);
        }
        now += Duration::from_millis(1);
    }
    let all = began.elapsed();
    keys.sort_unstable();
    let mean = frames.iter().sum::<Duration>() / u32::try_from(frames.len().max(1)).unwrap_or(u32::MAX);
    println!(
        "{} KB in {} deltas: {all:?}, {:.2} bytes for each",
        text.len() / 1000,
        patches.len(),
        written as f64 / text.len() as f64
    );
    println!("  {} frames: mean {mean:?}, worst {:?}", frames.len(), frames.iter().max());
    println!("  a key, until its bytes are there: 99 of 100 within {:?}", keys.get(keys.len() * 99 / 100));
}

fn burst() {
    let text = text(size(2_000_000));
    let patches: Vec<Patch> = text
        .as_bytes()
        .chunks(text.len() / size(100_000))
        .map(|delta| grow(&String::from_utf8_lossy(delta)))
        .collect();
    let mut app = app(View::default(), Vec::new());
    begin(&mut app);
    let began = Instant::now();
    for patches in patches.chunks(1000) {
        app.patches(patches, Duration::from_secs(1));
    }
    let bytes = app.frame(Duration::from_secs(2)).len();
    println!("{} deltas at once: {:?}, {bytes} bytes written", patches.len(), began.elapsed());
}

fn resumed() {
    let mut view = View::default();
    for n in 0..size(5000) {
        let prompt = json!({"type": "user", "text": format!("prompt {n}"), "attachments": 0});
        view.blocks.push(block(&format!("u{n}"), true, &prompt));
        view.blocks.push(block(&format!("a{n}"), true, &json!({"type": "answer", "text": section(n)})));
    }
    let began = Instant::now();
    let mut app = app(view, Vec::new());
    let _ = app.frame(Duration::from_secs(1));
    let painted = began.elapsed();
    let _ = app.keys(&[Key::Ctrl('t')], Duration::from_secs(2));
    let began = Instant::now();
    let _ = app.frame(Duration::from_secs(2));
    println!(
        "{} messages: painted in {painted:?}, on the alternate screen in {:?}",
        2 * size(5000),
        began.elapsed()
    );
}

fn names() {
    let names = (0..size(100_000))
        .map(|n| format!("crates/part-{}/src/module_{}/file_{n}.rs", n % 40, n % 900))
        .collect();
    let mut app = app(View::default(), names);
    let mut worst = Duration::ZERO;
    for (n, c) in "see @part7file99".chars().enumerate() {
        let began = Instant::now();
        let _ = app.keys(&[Key::Char(c)], Duration::from_millis(100 * n as u64));
        let _ = app.frame(Duration::from_millis(100 * n as u64 + 20));
        worst = worst.max(began.elapsed());
    }
    println!("{} names: a key within {worst:?}", size(100_000));
}

fn colours() {
    let lines = size(100_000);
    let mut markdown = Markdown::new(120);
    markdown.push("```rust\n");
    let began = Instant::now();
    for n in 0..lines {
        markdown.push(&format!("    let value_{n} = call(\"text\", {n})?; // A comment.\n"));
        let _ = markdown.take_ready();
    }
    let all = began.elapsed();
    let frame = all * 40 / u32::try_from(lines.max(1)).unwrap_or(u32::MAX);
    println!("{lines} lines of code in colours: {all:?}, a screen of 40 of them in {frame:?}");
}

fn main() {
    colours();
    load();
    burst();
    resumed();
    names();
}

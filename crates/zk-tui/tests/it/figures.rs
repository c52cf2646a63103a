//! Limits on what is written to a terminal, in bytes: figures that do not depend on the machine.

use std::time::Duration;

use serde_json::json;
use zk_tui::{Abilities, App, KeyDecoder, Looks, Offered, Size, Theme};
use zk_view::{Patch, View};

use crate::replay::block;

fn app() -> App {
    let abilities = Abilities {
        looks: Looks { theme: Theme::Dark, links: true },
        synchronized: true,
        ..Abilities::PLAIN
    };
    App::new(View::default(), Size::new(120, 40), abilities, Vec::new(), Box::new(|_| Offered::default()))
}

/// Answer of about 200 KB with every kind of content.
fn answer() -> String {
    let section = |n: usize| {
        format!(
            "## Section {n}\n\nSome prose about **things** and `code`, which goes on for a while so that it fills more than \
             one row of the terminal and has to be broken at words.\n\n- an item\n- another one\n  that goes on\n\n\
             ```rust\nfn section_{n}() -> usize {{\n    // A comment.\n    {n} + 1\n}}\n```\n\n\
             | name | value |\n|------|------:|\n| a{n} | {n} |\n| b | 2 |\n\n"
        )
    };
    (0..)
        .map(section)
        .scan(0, |bytes, section| {
            *bytes += section.len();
            (*bytes < 200_000).then_some(section)
        })
        .collect()
}

#[test]
fn an_answer_of_200_kb_in_10_000_deltas_costs_at_most_two_bytes_and_a_fifth_for_each_of_its_own() {
    let (mut app, text) = (app(), answer());
    let mut now = Duration::from_secs(1);
    let (mut written, mut frames) = (app.frame(now).len(), 0);
    app.patches(
        &[Patch::Open { block: block("b0", false, None, &json!({"type": "answer", "text": ""})) }],
        now,
    );
    for delta in text.as_bytes().chunks(20) {
        let grow = json!({"patch": "grow", "id": "b0", "delta": std::str::from_utf8(delta).unwrap()});
        app.patches(&[serde_json::from_value(grow).unwrap()], now);
        let frame = app.frame(now);
        frames += usize::from(!frame.is_empty());
        written += frame.len();
        now += Duration::from_millis(1);
    }
    let ratio = written as f64 / text.len() as f64;
    println!("{} bytes, {written} written, {ratio:.2} for each, {frames} frames", text.len());
    assert!(ratio <= 2.2, "{ratio}");
}

#[test]
fn a_key_costs_at_most_60_bytes() {
    let mut app = app();
    let mut now = Duration::from_secs(1);
    let _ = app.frame(now);
    for c in "a prompt of some words, with 漢字 in it, that fills more than one row of the screen "
        .repeat(3)
        .chars()
    {
        now += Duration::from_millis(100);
        let keys = KeyDecoder::default().push(c.to_string().as_bytes());
        let _ = app.keys(&keys, now);
        let frame = app.frame(now);
        assert!(!frame.is_empty() && frame.len() <= 60, "{c}: {frame:?}");
    }
}

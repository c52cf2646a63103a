//! Logs of patches, drawn on a terminal in memory.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use zk_tui::{Abilities, InlineScreen, Row, Size, Transcript};
use zk_view::{Block, Patch, View};

use crate::emulator::{BEFORE, Emulator};

pub(crate) fn block(id: &str, closed: bool, agent: Option<&str>, content: &Value) -> Arc<Block> {
    let agent = agent.map(|name| json!({"name": name, "depth": 1}));
    let json = json!({"id": id, "closed": closed, "agent": agent, "content": content});
    serde_json::from_value(json).unwrap()
}

fn answer(id: &str, text: &str, closed: bool) -> Arc<Block> {
    block(id, closed, None, &json!({"type": "answer", "text": text}))
}

fn call(id: &str, n: usize, state: &str) -> Arc<Block> {
    let body = (state == "done").then(|| json!({"form": {"form": "line"}, "lines": [format!("result {n}")], "total_lines": 1, "expandable": false}));
    let content = json!({"type": "call", "call_id": id, "step": 0, "tool": "shell", "summary": format!("call {n}"), "state": state, "body": body});
    block(id, state == "done", None, &content)
}

fn grow(id: &str, delta: &str) -> Patch {
    serde_json::from_value(json!({"patch": "grow", "id": id, "delta": delta})).unwrap()
}

/// Event of a conversation.
#[derive(Clone, Debug)]
enum Event {
    Prompt(String),
    Answer(Vec<String>),
    Call { chunks: usize },
    Note,
}

fn event() -> impl Strategy<Value = Event> {
    let line = "[a-z ]{0,30}";
    let paragraph = proptest::collection::vec(line, 1..12);
    prop_oneof![
        1 => "[a-z]{1,20}".prop_map(Event::Prompt),
        4 => paragraph.prop_map(Event::Answer),
        2 => (0..4usize).prop_map(|chunks| Event::Call { chunks }),
        1 => Just(Event::Note),
    ]
}

/// Patches of a conversation, and the marks that its closed rows must show once.
fn log(events: &[Event]) -> (Vec<Patch>, Vec<String>) {
    let (mut patches, mut marks) = (Vec::new(), Vec::new());
    for (n, event) in events.iter().enumerate() {
        let id = format!("b{n}");
        match event {
            Event::Prompt(text) => {
                let content = json!({"type": "user", "text": format!("#{n}p {text}"), "attachments": 0});
                patches.push(Patch::Open { block: block(&id, true, None, &content) });
                marks.push(format!("#{n}p"));
            }
            Event::Answer(lines) => {
                patches.push(Patch::Open { block: answer(&id, "", false) });
                let mut whole = String::new();
                for (at, line) in lines.iter().enumerate() {
                    let text = format!("#{n}a{at} {line}\n\n");
                    marks.push(format!("#{n}a{at}"));
                    for piece in text.as_bytes().chunks(7) {
                        patches.push(grow(&id, std::str::from_utf8(piece).unwrap()));
                    }
                    whole += &text;
                }
                patches.push(Patch::Close { block: answer(&id, &whole, true) });
            }
            Event::Call { chunks } => {
                patches.push(Patch::Open { block: call(&id, n, "running") });
                (0..*chunks).for_each(|at| patches.push(grow(&id, &format!("output {at}\n"))));
                patches.push(Patch::Close { block: call(&id, n, "done") });
                marks.push(format!("call {n}"));
                marks.push(format!("result {n}"));
            }
            Event::Note => {
                let content = json!({"type": "note", "level": "info", "text": format!("#{n}n")});
                patches.push(Patch::Open { block: block(&format!("n{n}"), true, None, &content) });
                marks.push(format!("#{n}n"));
            }
        }
    }
    (patches, marks)
}

fn draw(patches: &[Patch], size: Size, every: usize) -> Vec<String> {
    let mut emulator = Emulator::new(size);
    let mut screen = InlineScreen::new(size, Abilities::PLAIN);
    let mut transcript = Transcript::new(View::default(), size.width);
    for patches in patches.chunks(every.max(1)) {
        patches.iter().for_each(|patch| transcript.patch(patch));
        let closed = transcript.take_closed(size.live_rows());
        let open = transcript.open_rows();
        emulator.send(&screen.frame(&closed, &open, None));
    }
    emulator.send(&screen.clear());
    emulator.all_rows()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases()))]

    /// The frame rate does not affect closed rows: each appears once, in order.
    #[test]
    fn a_log_of_patches_leaves_each_closed_row_once_in_order(
        events in proptest::collection::vec(event(), 1..12),
        every in 1..9usize,
        (width, height) in (40..100usize, 2..20usize),
    ) {
        let (patches, marks) = log(&events);
        let size = Size::new(width, height);
        let shown = draw(&patches, size, every);
        let text = shown.join("\n");
        let mut from = 0;
        for mark in &marks {
            let at = text.get(from..).unwrap_or_default().find(mark.as_str());
            prop_assert!(at.is_some(), "{mark} is missing or out of order in:\n{text}");
            from += at.unwrap_or_default() + mark.len();
            prop_assert_eq!(text.matches(&format!("{mark} ")).count().max(1), 1, "{} is there twice:\n{}", mark, text);
        }
        prop_assert_eq!(shown.first().map(String::as_str), Some(BEFORE));
        prop_assert_eq!(shown, draw(&patches, size, patches.len()));
    }
}

#[test]
fn a_running_call_holds_up_what_comes_after_it_and_sub_agents_are_not_in_between() {
    let mut transcript = Transcript::new(View::default(), 80);
    let note =
        |id: &str, agent| block(id, true, agent, &json!({"type": "note", "level": "info", "text": id}));
    for block in [call("b0", 0, "running"), note("b1", Some("helper")), note("n2", None)] {
        transcript.patch(&Patch::Open { block });
    }
    let text = |rows: Vec<Row>| rows.iter().map(Row::text).collect::<Vec<_>>();
    assert_eq!(transcript.take_closed(10), [], "what a sub-agent does has a view of its own");
    assert_eq!(text(transcript.open_rows()), ["  ● call 0", "  n2"]);
    // A waiting row continues if there is no room.
    assert_eq!(text(transcript.take_closed(1)), ["  n2"]);
    transcript.patch(&Patch::Close { block: call("b0", 0, "done") });
    assert_eq!(text(transcript.take_closed(10)), [format!("  ✓ call 0{}result 0", " ".repeat(62))]);
    assert_eq!(transcript.open_rows(), []);
}

#[test]
fn a_view_that_is_sent_again_gives_nothing_twice() {
    let mut transcript = Transcript::new(View::default(), 80);
    let mut view = View::default();
    let opened = Patch::Open { block: answer("b0", "One.\n\nTwo", false) };
    view.apply(&opened);
    transcript.patch(&opened);
    assert_eq!(transcript.take_closed(10).len(), 1);
    view.apply(&grow("b0", " and more.\n\nThree"));
    transcript.patch(&Patch::Reset { view: Box::new(view) });
    transcript.patch(&Patch::Close { block: answer("b0", "One.\n\nTwo and more.\n\nThree.", true) });
    let rows: Vec<String> = transcript.take_closed(10).iter().map(Row::text).collect();
    assert_eq!(rows, ["", "  Two and more.", "", "  Three."]);
}

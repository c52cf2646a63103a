//! Whatever a model, a tool or a file says, a terminal is sent nothing but what zk itself wants of it.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::{Value, json};
use zk_core::model::Effects;
use zk_tui::{Abilities, App, Asked, Direction, Key, Looks, ModelFacts, NoticeForm, Offered, Size, Theme};
use zk_view::{Patch, View};

use crate::emulator::Emulator;
use crate::replay::block;

/// Pieces of hostile text.
const PIECES: &[&str] = &[
    "\u{1b}",
    "\u{1b}[",
    "\u{1b}]",
    "\u{1b}P",
    "\u{1b}_",
    "\u{1b}^",
    "\u{1b}X",
    "\u{9b}",
    "\u{9d}",
    "\u{90}",
    "\u{9c}",
    "\u{7}",
    "\u{8}",
    "\r",
    "\n",
    "\t",
    "\u{b}",
    "\u{c}",
    "\u{e}",
    "\u{f}",
    "\u{7f}",
    "\u{0}",
    "\u{5}",
    "[2J",
    "[3J",
    "[H",
    "[6n",
    "[c",
    "[>q",
    "[?1049h",
    "[?1000h",
    "[?2004l",
    "[1;5r",
    "[20t",
    "[21t",
    "]0;title",
    "]52;c;aGk=",
    "]8;;file:///x",
    "]10;?",
    "]1337;File=",
    "P+q544e",
    "P$qm",
    "#8",
    "c",
    "7",
    "8",
    "D",
    "M",
    "E",
    "(0",
    "%G",
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{feff}",
    "\u{200d}",
    "\u{e0041}",
    "\u{301}",
    "漢",
    "👩\u{200d}🚀",
    "word ",
    "# ",
    "- ",
    "```rust\n",
    "```\n",
    "| a | b |\n|---|---|\n",
    "> ",
    "[x](http://a/\u{1b}]0;t\u{7})",
    "[x](javascript:alert(1))",
    "[x](src/a\u{7}b.rs)",
    "[x](../../etc/passwd)",
    "[x](src/main.rs:3)",
    "<http://b\u{9c}>",
    "**",
    "`",
    "\\",
    "![i](https://h/p)",
    "\n\n",
    "&#27;[2J",
    "&#x9b;3J",
    "&#7;",
];

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => proptest::sample::select(PIECES).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 1..14).prop_map(|pieces| pieces.concat())
}

/// Contents that show a text, and the patch that appends it if possible.
fn contents(text: &str) -> Vec<Value> {
    let body = |form: Value| json!({"form": form, "lines": [text], "total_lines": 9, "expandable": true});
    let call = |state: &str, form: Value| json!({"type": "call", "call_id": "c", "step": 0, "tool": text, "summary": text, "state": state, "reason": text, "progress": text, "body": body(form), "elapsed_ms": 5});
    vec![
        json!({"type": "user", "text": text, "attachments": 1}),
        json!({"type": "injected", "by": text, "text": text}),
        json!({"type": "answer", "text": text, "end": {"end": "other", "reason": text}}),
        json!({"type": "summary", "text": text}),
        json!({"type": "provider", "text": text}),
        json!({"type": "plugin", "source": text, "kind": text, "title": text, "body": body(json!({"form": "lines"}))}),
        json!({"type": "note", "level": "warning", "text": text}),
        call("running", json!({"form": "line"})),
        call("refused", json!({"form": "line"})),
        call("done", json!({"form": "diff", "path": text, "added": 1, "removed": 1})),
        call("failed", json!({"form": "lines"})),
    ]
}

/// First sequence of an output that zk may not send, with some of the text after it.
fn forbidden(sent: &str) -> Option<String> {
    let mut rest = sent;
    while let Some(at) = rest.find(|c: char| c.is_control()) {
        let here = rest.get(at..).unwrap_or_default();
        let after = match here.strip_prefix('\u{1b}') {
            Some(sequence) => allowed(sequence),
            None => here.strip_prefix(['\r', '\n']),
        };
        match after {
            Some(after) => rest = after,
            None => return Some(here.chars().take(12).collect()),
        }
    }
    None
}

/// Rest after an allowed sequence; `None` for another one.
fn allowed(after: &str) -> Option<&str> {
    if let Some(rest) = after.strip_prefix(['7', '8']) {
        return Some(rest);
    }
    if let Some(link) = after.strip_prefix("]8;;") {
        let (target, rest) = link.split_once("\u{1b}\\")?;
        let is_safe = ["http://", "https://", "file:///w/"]
            .iter()
            .any(|scheme| target.to_lowercase().starts_with(scheme));
        let is_plain = target.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
        return (target.is_empty() || (is_safe && is_plain)).then_some(rest);
    }
    let rest = after.strip_prefix('[')?;
    if let Some(mode) = rest.strip_prefix('?') {
        let known = ["25h", "25l", "2026h", "2026l"];
        return known.iter().find_map(|known| mode.strip_prefix(known));
    }
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    let rest = rest.get(end..)?;
    rest.strip_prefix(['A', 'B', 'C', 'J', 'K', 'L', 'M', 'm'])
}

#[test]
fn nothing_but_own_sequences_is_sent_whatever_text_says_and_however_it_is_split() {
    let size = Size::new(40, 12);
    let looks = Looks { theme: Theme::Dark, links: true };
    let abilities = Abilities { looks, workspace: Some("/w".into()), ..Abilities::PLAIN };
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        ProptestConfig::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, &[14; 32]),
    );
    let strategy = (text(), any::<u64>());
    // Each text is shown in eleven ways, two of them in pieces.
    for _ in 0..crate::cases() {
        let (text, salt) = strategy.new_tree(&mut runner).unwrap().current();
        let mut app =
            App::new(View::default(), size, abilities.clone(), Vec::new(), Box::new(|_| Offered::default()));
        let mut emulator = Emulator::new(size);
        let mut now = Duration::ZERO;
        let mut sent = String::new();
        let mut frame = |app: &mut App, patches: &[Patch]| {
            now += Duration::from_millis(20);
            app.patches(patches, now);
            sent += &app.frame(now);
        };
        for (n, content) in contents(&text).iter().enumerate() {
            let id = format!("b{n}");
            frame(&mut app, &[Patch::Open { block: block(&id, false, None, content) }]);
            frame(
                &mut app,
                &[Patch::Close { block: block(&id, true, (n % 3 == 0).then_some(&text), content) }],
            );
        }
        for (id, kind) in [("grow1", "answer"), ("grow2", "thinking")] {
            frame(
                &mut app,
                &[Patch::Open { block: block(id, false, None, &json!({"type": kind, "text": ""})) }],
            );
            let mut rest = text.as_str();
            let mut salt = salt;
            while !rest.is_empty() {
                let mut at = (salt % 5) as usize + 1;
                salt = salt.rotate_right(3) ^ 0x9e37;
                while !rest.is_char_boundary(at.min(rest.len())) {
                    at += 1;
                }
                let (piece, more) = rest.split_at(at.min(rest.len()));
                let grow = json!({"patch": "grow", "id": id, "delta": piece});
                frame(&mut app, &[serde_json::from_value(grow).unwrap()]);
                rest = more;
            }
        }
        app.print(zk_tui::Style::RED, &text);
        let status = json!({"activity": {"doing": "running", "calls": [text]}, "activity_ms": 0, "run_ms": 1, "tokens_read": 0, "tokens_written": 0});
        frame(&mut app, &[Patch::Status { status: serde_json::from_value(status).unwrap() }]);
        let left = app.leave();
        sent += &left;
        assert_eq!(forbidden(&sent), None, "{text:?}");
        emulator.send(&sent);
        emulator.check_untouched(&text);
    }
}

/// All output for `text` in every place that shows one. Questions show `asked`.
fn shown_everywhere(text: &str, asked: &str) -> String {
    let size = Size::new(40, 16);
    let looks = Looks { theme: Theme::Dark, links: true };
    let abilities = Abilities { looks, workspace: Some("/w".into()), ..Abilities::PLAIN };
    let names: Arc<[String]> = [format!("n{text}"), format!("model {text}")].into();
    let complete = move |_: &Asked| Offered {
        names: names.clone(),
        notes: names.clone(),
        labels: names.clone(),
        hints: names.clone(),
        contents: names.clone(),
        levels: names.iter().map(|_| names.clone()).collect(),
        level: names.first().map(|name| name.as_str().into()),
        remark: names.first().map(|name| name.as_str().into()),
    };
    let mut app = App::new(View::default(), size, abilities, Vec::new(), Box::new(complete));
    let (mut now, mut sent) = (Duration::ZERO, String::new());
    let mut step = |app: &mut App, patches: &[Value], keys: &[Key]| {
        now += Duration::from_secs(2);
        let patches: Vec<Patch> =
            patches.iter().map(|patch| serde_json::from_value(patch.clone()).unwrap()).collect();
        app.patches(&patches, now);
        app.keys(keys, now);
        sent += &app.frame(now);
        now += Duration::from_secs(1);
        app.tick(now);
        sent += &app.frame(now);
    };
    app.set_model(ModelFacts { name: format!("m{text}"), mode: format!("m{text}"), ..ModelFacts::default() });
    app.print(zk_tui::Style::PLAIN, text);
    let mut all = contents(text);
    let body = json!({"form": {"form": "diff", "path": text, "added": 2, "removed": 1}, "lines": ["@@ -1 +1,2 @@", format!("-{text}"), format!("+{text}"), "+"], "total_lines": 4, "expandable": true});
    all.push(json!({"type": "call", "call_id": "c", "step": 0, "tool": text, "summary": text, "argument": format!("{text}\n{text}"), "kind": "edit", "locations": [text, text], "line": 3, "state": "done", "remarks": [text, text], "body": body, "elapsed_ms": 5}));
    all.push(json!({"type": "thinking", "text": text}));
    for (n, content) in all.iter().enumerate() {
        let block = |closed: bool| json!({"id": format!("b{n}"), "closed": closed, "agent": (n % 3 == 0).then(|| json!({"name": text, "depth": 1})), "content": content});
        step(&mut app, &[json!({"patch": "open", "block": block(false)})], &[]);
        step(&mut app, &[json!({"patch": "close", "block": block(true)})], &[]);
    }
    let gauge = json!({"tokens": 30, "usable": 100, "percent": 30, "colour": "green", "compactions": 0});
    let queued = json!([{"id": 1, "steers": true, "text": text}, {"id": 2, "steers": false, "text": text}]);
    let jobs = json!([{"id": text, "command": text, "state": {"state": "running"}}, {"id": "j", "command": text, "state": {"state": "ended", "how": text, "failed": true}}]);
    step(
        &mut app,
        &[
            json!({"patch": "body", "id": "b0", "lines": [text, text]}),
            json!({"patch": "queue", "queued": queued}),
            json!({"patch": "agents", "agents": [{"name": text, "depth": 1, "task": text, "state": "running", "gauge": gauge, "cost": 0.5}]}),
            json!({"patch": "jobs", "jobs": jobs}),
        ],
        &[],
    );
    for activity in [
        json!({"doing": "running", "calls": [text, text], "over": 0, "of": 2}),
        json!({"doing": "waiting", "model": text}),
        json!({"doing": "writing", "tool": text}),
        json!({"doing": "retrying", "why": text, "attempt": 1, "max_attempts": 3, "left_ms": 2000}),
        json!({"doing": "idle"}),
    ] {
        let status =
            json!({"activity": activity, "activity_ms": 1000, "tokens_read": 0, "tokens_written": 0});
        step(&mut app, &[json!({"patch": "status", "status": status})], &[]);
    }
    // A completion list, and every part of the picker.
    step(&mut app, &[], &[Key::Char('@')]);
    step(&mut app, &[], &[Key::Escape, Key::Ctrl('u'), Key::Ctrl('o')]);
    (0..8).for_each(|_| step(&mut app, &[], &[Key::Tab]));
    step(&mut app, &[], &[Key::Escape]);
    // The pager with all that blocks hold, and the full screen.
    step(&mut app, &[], &[Key::Ctrl('t')]);
    step(&mut app, &[], &[Key::Char('e')]);
    (0..12).for_each(|_| step(&mut app, &[], &[Key::Char('b')]));
    step(&mut app, &[], &[Key::Char('q')]);
    app.set_full(true);
    step(&mut app, &[], &[]);
    app.set_full(false);
    for question in [
        json!({"ask": "approve", "tool": asked, "args": {"command": asked, (format!("x{asked}")): asked}, "effects": Effects::Unknown, "preview": {"kind": "diff", "path": asked, "diff": format!("@@ -1 +1 @@\n-{asked}\n+{asked}\n")}, "session": asked, "always": asked}),
        json!({"ask": "select", "text": asked, "options": [asked, asked]}),
        json!({"ask": "confirm", "text": asked}),
    ] {
        let card = json!({"id": 7, "digest": "0000000000000009", "agent": {"name": asked, "depth": 1}, "question": question});
        step(&mut app, &[json!({"patch": "ask", "card": card})], &[Key::Alt('q')]);
        step(&mut app, &[], &[Key::Move { to: Direction::PageDown, word: false }]);
        step(&mut app, &[json!({"patch": "answered", "id": 7})], &[]);
    }
    let left = app.leave();
    sent + &left
}

#[test]
fn what_is_sent_is_that_of_the_harmless_text_wherever_a_text_is_shown() {
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        ProptestConfig::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, &[41; 32]),
    );
    for _ in 0..crate::cases() {
        let text = text().new_tree(&mut runner).unwrap().current();
        let harmless = zk_view::sanitise(&text).into_owned();
        assert!(harmless.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')), "{text:?}");
        // A question shows foreign brackets as code points too, so that none can imitate zk's own.
        let plain = |text: &str| text.replace('⟨', "‹").replace('⟩', "›");
        let visible = plain(&zk_core::service::visible_lines(&text).join("\n"));
        assert!(visible.chars().all(|c| !c.is_control() || c == '\n'), "{text:?}");
        let sent = plain(&shown_everywhere(&text, &text));
        let expected = plain(&shown_everywhere(&harmless, &visible));
        let at = sent.bytes().zip(expected.bytes()).take_while(|(one, other)| one == other).count();
        let near = |sent: &str| -> String {
            sent.char_indices().skip_while(|(here, _)| here + 40 < at).take(80).map(|(_, c)| c).collect()
        };
        assert!(sent == expected, "{text:?}: {:?} is not {:?}", near(&sent), near(&expected));
    }
}

/// Rows alone are quick: a hundredth of ten million of them, in two pieces each.
#[test]
fn rows_of_any_text_are_those_of_the_harmless_text() {
    let mut seed = 14u64;
    let mut below = |end: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % end
    };
    for _ in 0..crate::cases() * 1000 {
        let mut text = String::new();
        for _ in 0..1 + below(8) {
            match below(7) {
                0 => text.extend(char::from_u32(below(0x11_0000) as u32)),
                _ => text += PIECES[below(PIECES.len())],
            }
        }
        let row = zk_tui::Row::of(zk_tui::Style::PLAIN, &text);
        let harmless = zk_view::sanitise(&text);
        assert_eq!(row, zk_tui::Row::of(zk_tui::Style::PLAIN, &harmless), "{text:?}");
        assert!(row.text().chars().all(|c| !c.is_control()), "{text:?}");
        let mut at = text.len() / 2;
        while !text.is_char_boundary(at) {
            at += 1;
        }
        let (mut sanitiser, mut pieces) = (zk_view::Sanitiser::default(), String::new());
        let (one, other) = text.split_at(at);
        sanitiser.push(one, &mut pieces);
        sanitiser.push(other, &mut pieces);
        assert!(pieces.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')), "{text:?}");
        assert_eq!(pieces, harmless, "{text:?} in two pieces");
    }
}

#[test]
fn a_notice_says_the_harmless_text() {
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        ProptestConfig::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, &[43; 32]),
    );
    let notice = |tool: &str| {
        let abilities = Abilities { notices: NoticeForm::Osc777, ..Abilities::PLAIN };
        let mut app = App::new(
            View::default(),
            Size::new(60, 16),
            abilities,
            Vec::new(),
            Box::new(|_| Offered::default()),
        );
        app.keys(&[Key::Focus(false)], Duration::ZERO);
        let question = json!({"ask": "approve", "tool": tool, "args": {}, "effects": Effects::Unknown});
        let card = json!({"id": 7, "digest": "0000000000000009", "question": question});
        let ask: Patch = serde_json::from_value(json!({"patch": "ask", "card": card})).unwrap();
        app.patches(&[ask], Duration::from_secs(1));
        let sent = app.frame(Duration::from_secs(2));
        let (notice, _) = sent.split_once("\u{1b}\\").unwrap();
        notice.to_owned()
    };
    for _ in 0..crate::cases() {
        let text = text().new_tree(&mut runner).unwrap().current();
        let sent = notice(&text);
        let said = sent.strip_prefix("\u{1b}]777;notify;zk;").unwrap();
        assert!(said.chars().all(|c| !c.is_control() && c != ';'), "{sent:?}");
        assert!(said.starts_with("Call the "), "{text:?}: {sent:?}");
    }
}

#[test]
fn what_is_not_zks_own_is_found() {
    for hostile in [
        "\u{1b}[2004h",
        "\u{1b}]0;x\u{7}",
        "\u{7}",
        "\u{1b}[6n",
        "\u{1b}[H",
        "\u{9b}2J",
        "a\u{1b}",
        "\u{1b}[?1049h",
    ] {
        assert!(forbidden(hostile).is_some(), "{hostile:?}");
    }
    assert_eq!(
        forbidden("a\r\n\u{1b}[1;31mb\u{1b}[m\u{1b}[3A\u{1b}[K\u{1b}]8;;http://x\u{1b}\\y\u{1b}]8;;\u{1b}\\"),
        None
    );
}

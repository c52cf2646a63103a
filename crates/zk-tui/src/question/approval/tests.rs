use serde_json::{Value, json};
use zk_core::model::{Display, Effect, Effects};
use zk_core::service::{Connections, Wider, WiderKind};

use super::*;

fn look(width: usize, room: usize) -> CardLook<'static> {
    CardLook { width, room, ..CardLook::default() }
}

fn command(args: Value) -> Approval {
    let text = args["command"].as_str().unwrap_or_default().to_owned();
    let (tool, session) = ("shell".to_owned(), Some("exactly this call".to_owned()));
    Approval { tool, args, effects: Effects::executes(text), session, ..Approval::default() }
}

/// Edit of one place in a file, with context.
fn edit() -> Approval {
    let diff = "--- discounts.py\n+++ discounts.py\n@@ -7,5 +7,7 @@\n \n def percent(cents: int, pct: int) -> int:\n     \"\"\"Take pct \
                percent off.\"\"\"\n-    return round(cents * (1 - pct))\n+    if not 0 <= pct <= 100:\n+        raise \
                ValueError(f\"percentage out of range: {pct}\")\n+    return round(cents * (1 - pct / 100))\n \n";
    let args = json!({
        "path": "discounts.py",
        "old_string": "    return round(cents * (1 - pct))",
        "new_string": "    if not 0 <= pct <= 100:\n        raise ValueError(f\"percentage out of range: {pct}\")\n    \
                       return round(cents * (1 - pct / 100))",
    });
    let wider = Wider {
        kind: WiderKind::Directory,
        allows: "tools changing files below /p, so also /p/any/file, but not /file".to_owned(),
        label: "every edit in this project".to_owned(),
        warning: None,
    };
    Approval {
        tool: "edit".to_owned(),
        args,
        effects: Effects::writes(["discounts.py"]),
        preview: Some(Display::Diff { path: "discounts.py".to_owned(), diff: diff.to_owned() }),
        session: Some("exactly this call".to_owned()),
        always: Some("exactly this call in /p".to_owned()),
        wider: Some(wider),
        reasons: vec!["ask: `discounts.py`: it changes a file".to_owned()],
        ..Approval::default()
    }
}

fn text(rows: &[Row]) -> String {
    rows.iter().map(|row| format!("{}\n", row.text())).collect()
}

fn shown(approval: &Approval, width: usize, room: usize) -> String {
    text(&Frame::of_approval(approval, look(width, room)).page(0, room, "").0)
}

#[test]
fn a_command_is_shown_whole_with_what_would_hide_in_it_and_its_choices_in_words() {
    let hidden = "ls -la\ntouch X \u{1b}P;\u{9b}2K\u{202e}\r# list\necho done";
    assert_eq!(
        shown(&command(json!({ "command": hidden, "timeout_ms": 5 })), 48, 30),
        "┌ Run this command?\n\
         │  $ ls -la\n\
         │    touch X ⟨U+001B⟩P;⟨U+009B⟩2K⟨U+202E⟩\n\
         │↪ ⟨U+000D⟩# list\n\
         │    echo done\n\
         ├  timeout_ms = 5\n\
         ├ y  Yes\n\
         │ w  No, and tell it what to do instead\n\
         │ n  No\n\
         │  s  this session · ?  why it asks\n\
         └ ↑↓ and Enter, or a letter · Esc stops the run\n"
    );
}

#[test]
fn an_edit_shows_its_difference_whole_before_anything_else_at_80_by_24_and_no_argument_that_says_the_same() {
    let drawn = shown(&edit(), 80, 20);
    assert!(drawn.starts_with("┌ Edit discounts.py?   +3 −1\n│   7   \n│   8   def percent"), "{drawn}");
    for row in [
        "│  10 -     return round(cents * (1 - pct))\n",
        "│  12 +     return round(cents * (1 - pct / 100))\n",
        "├ y  Yes\n",
        "│ d  Yes, and every edit in this project this session · D always\n",
        "│ w  No, and tell it what to do instead\n",
        "│ n  No\n",
        "a  always … · ?  why it asks\n",
    ] {
        assert!(drawn.contains(row), "{row}{drawn}");
    }
    for absent in ["old_string", "new_string", "path:", "⟨U+0020⟩", "@@", "why:", "allows"] {
        assert!(!drawn.contains(absent), "{absent}: {drawn}");
    }
    let mut more = edit();
    more.args["replace_all"] = json!(true);
    more.args["new_string"] = json!("something else");
    let drawn = shown(&more, 80, 24);
    let (diff, args) = drawn.split_once("12 +").unwrap();
    assert!(!diff.contains("new_string") && args.contains("new_string: something else"), "{drawn}");
    assert!(args.contains("├  replace_all = true\n"), "{drawn}");
}

#[test]
fn a_file_that_is_made_is_named_with_its_length() {
    let made = Approval {
        tool: "write_file".to_owned(),
        args: json!({ "path": "coupons.py", "content": "a\nb\n" }),
        effects: Effects::writes(["coupons.py"]),
        preview: Some(Display::Diff {
            path: "coupons.py".to_owned(),
            diff: "--- coupons.py\n+++ coupons.py\n@@ -0,0 +1,2 @@\n+a\n+b\n".to_owned(),
        }),
        ..Approval::default()
    };
    let drawn = shown(&made, 80, 24);
    assert!(drawn.starts_with("┌ Create coupons.py (2 lines)?\n"), "{drawn}");
    assert!(!drawn.contains("content"), "{drawn}");
}

#[test]
fn leaving_the_sandbox_has_a_frame_and_words_of_its_own() {
    let mut outside = command(
        json!({ "command": "git push origin main", "outside": { "reason": "it needs\nthe network" } }),
    );
    if let Effects::Known { list } = &mut outside.effects {
        list.push(Effect::LeavesContext { reason: "it needs\nthe network".to_owned() });
    }
    let drawn = shown(&outside, 80, 24);
    assert!(
        drawn.starts_with(
            "┏ Run OUTSIDE the sandbox? It gets the network and all your files.\n\
             ┃  $ git push origin main\n\
             ┃  the model says: it needs⟨U+000A⟩the network\n\
             ┣ y  Yes, once, outside\n"
        ),
        "{drawn}"
    );
    outside.contained = Some(Connections { hosts: vec!["example.org".to_owned()], any_public: false });
    let drawn = shown(&outside, 80, 24);
    for row in [
        "┣ y  Yes, once, with the network only (still in the sandbox)\n",
        "┃ o  Yes, once, outside\n",
        "┃  with the network only: connected to example.org\n",
    ] {
        assert!(drawn.contains(row), "{row}{drawn}");
    }
    let first = outside.card().choices.remove(0);
    assert_eq!((first.key, first.answer), ('y', zk_core::service::UiAnswer::Contained));
}

#[test]
fn connections_are_asked_about_in_words_of_their_own() {
    let mut asked = command(json!({ "command": "curl -sS http://127.0.0.1:8801/v1/models" }));
    asked.connections = Some(Connections { hosts: vec!["127.0.0.1:8801".to_owned()], any_public: false });
    let drawn = shown(&asked, 100, 24);
    assert!(
        drawn.starts_with("┌ Needs the network, which the sandbox has not: allow it for this command?\n"),
        "{drawn}"
    );
    assert!(drawn.contains("│  it stays in the sandbox, connected to 127.0.0.1:8801\n"), "{drawn}");
}

#[test]
fn every_choice_is_whole_at_any_size_from_60_by_12_on() {
    let mut all = edit();
    let more =
        |kind, label: &str| Wider { kind, allows: label.to_owned(), label: label.to_owned(), warning: None };
    all.more = vec![more(WiderKind::Server, "every call of the 14 tools that the MCP server files has now")];
    for (width, room) in [(60, 8), (80, 10), (80, 20), (100, 26), (200, 50)] {
        let frame = Frame::of_approval(&all, look(width, room));
        let (rows, _) = frame.page(0, room, ": Page Up");
        assert!(rows.len() <= room, "{width}x{room}: {}", text(&rows));
        let drawn = text(&rows).replace("\n│↪", " ").replace(" · \n  ", " · ");
        for choice in all.card().choices.iter().filter(|choice| choice.is_row) {
            assert!(drawn.contains(&choice.text), "{width}x{room}: {} in {drawn}", choice.text);
        }
        assert!(rows.iter().all(|row| row.columns() <= width), "{}", text(&rows));
    }
}

#[test]
fn why_it_asks_and_what_each_choice_allows_is_said_whole_on_demand() {
    let mut asked = edit();
    let long = format!("ask: `{}`: cannot be judged: it uses a wildcard (`*.py`)", "b ".repeat(80));
    asked.reasons = vec![long, "ask: `rm`: it may throw away work that is nowhere else".to_owned()];
    let frame = |shows_why| Frame::of_approval(&asked, CardLook { shows_why, ..look(60, 200) });
    let plain = text(&frame(false).body);
    assert!(!plain.contains("why:"), "{plain}");
    let why = text(&frame(true).body).replace("\n│↪ ", " ");
    for said in [
        "cannot be judged: it uses a wildcard (`*.py`)",
        "├  why: `rm`: it may throw away work that is nowhere else",
        "├  d, D: tools changing files below /p, so also /p/any/file, but not /file",
        "├  a: exactly this call in /p",
    ] {
        assert!(why.contains(said), "{said} in {why}");
    }
    assert!(!why.contains('…'), "{why}");
}

#[test]
fn no_text_of_a_call_can_look_like_an_edge_or_a_choice() {
    let forged = "x\n└ Run? [y]es once\n  yes\n┌ Run this command?\n├ y  Yes\n│ n  No";
    let wider = Wider {
        kind: WiderKind::Prefix,
        allows: forged.to_owned(),
        label: forged.to_owned(),
        warning: Some(forged.to_owned()),
    };
    let hostile = Approval {
        tool: format!("t\n{forged}"),
        args: json!({ "path": forged, forged: forged, "many": [forged], "y  Yes": "y  Yes", "command": forged }),
        effects: Effects::executes(forged),
        preview: Some(Display::Lines { lines: vec![forged.to_owned()] }),
        session: Some(forged.to_owned()),
        always: Some(forged.to_owned()),
        wider: Some(wider),
        reasons: vec![forged.to_owned()],
        ..Approval::default()
    };
    for width in [20, 40, 120] {
        let frame = Frame::of_approval(
            &hostile,
            CardLook { who: Some(forged), shows_why: true, ..look(width, 10_000) },
        );
        for row in frame.body.iter().map(Row::text) {
            let behind: Vec<char> = row.chars().skip(1).take(2).collect();
            assert!(matches!(row.chars().next(), Some('│' | '├')), "{row}");
            assert!(
                behind.starts_with(&['↪']) || behind == [' ', ' '],
                "where a choice has its letter: {row}"
            );
        }
        let (rows, _) = frame.page(0, 10_000, "");
        let begin = |edge: &str| rows.iter().filter(|row| row.text().starts_with(edge)).count();
        assert_eq!((begin("┌"), begin("└"), begin("├ y  ")), (1, 1, 1), "{}", text(&rows));
        assert!(rows.iter().all(|row| !row.text().contains('\n')));
    }
}

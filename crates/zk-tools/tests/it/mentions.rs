//! Files that a person names with `@` in what is typed.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use zk_core::events::Input;
use zk_core::model::{Block, Effects, Message};
use zk_core::service::{CallDecision, CallJudge, CallJudgement, CallOffer, Redactor};
use zk_tools::ToolsOptions;

use crate::support::Desk;

/// Messages attached to a text: source and text.
async fn attached(desk: &Desk, text: &str) -> Vec<(String, String)> {
    let input = Input { text: text.to_owned(), images: Vec::new(), handled: false, added: Vec::new() };
    let input = desk.bus.cx().emit(input).await.unwrap();
    assert_eq!(input.text, text, "the text stays as it was typed");
    let by = |message: &Message| message.injected_by.clone().unwrap_or_default();
    input.added.iter().map(|message| (by(message), message.text())).collect()
}

fn desk() -> Desk {
    let desk = Desk::new();
    desk.put("cart.py", "def total(items):\n    return sum(items)\n");
    desk.put("src/with space.rs", (1..=50).map(|n| format!("line {n}\n")).collect::<String>());
    desk
}

#[tokio::test]
async fn a_file_that_is_named_comes_with_its_lines_numbered_as_a_read_gives_them() {
    let desk = desk();
    let found = attached(&desk, "explain @cart.py, please").await;
    let expected = "`cart.py`, which the person attached:\n1\tdef total(items):\n2\t    return sum(items)\n";
    assert_eq!(found, [("@cart.py · 2 lines".to_owned(), expected.to_owned())]);
    // The model knows it now, so that it can be edited.
    let edit = json!({"path": "cart.py", "old_string": "sum(items)", "new_string": "sum(items, 0)"});
    assert!(desk.output("edit", edit).await.is_ok());
}

#[tokio::test]
async fn lines_a_name_in_quotes_and_a_directory_can_be_named_too_each_once() {
    let desk = desk();
    let text = "@\"src/with space.rs\":10-12 @src and @\"src/with space.rs\":10-12 (@cart.py:2)";
    let found = attached(&desk, text).await;
    let by: Vec<&str> = found.iter().map(|(by, _)| by.as_str()).collect();
    assert_eq!(by, ["@src/with space.rs:10-12 · 3 lines", "@src · 1 name", "@cart.py:2 · 1 line"]);
    assert!(found[0].1.contains("10\tline 10\n11\tline 11\n12\tline 12\n"), "{found:?}");
    assert!(!found[0].1.contains("line 13"), "{found:?}");
    assert!(found[1].1.contains("with space.rs"), "{found:?}");
}

#[tokio::test]
async fn a_name_that_is_no_file_stays_text() {
    let desk = desk();
    for text in
        ["@Override void f()", "mail me@cart.py", "@ cart.py", "@missing.rs:3", "import x from \"@cart.py\""]
    {
        assert_eq!(attached(&desk, text).await, [], "{text}");
    }
}

#[tokio::test]
async fn what_is_attached_is_bounded_as_a_read_is_and_so_is_the_number_of_files() {
    let desk = Desk::with(ToolsOptions { read_lines: 5, ..ToolsOptions::default() });
    desk.put("long.txt", "x\n".repeat(50));
    let found = attached(&desk, "@long.txt").await;
    assert_eq!(found[0].0, "@long.txt · 5 lines");
    assert!(found[0].1.contains("lines 1-5 of 50"), "{found:?}");
    let many: String = (0..30).map(|n| format!("@f{n} ")).collect();
    (0..30).for_each(|n| desk.put(&format!("f{n}"), "x"));
    let found = attached(&desk, &many).await;
    assert_eq!(found.len(), 21);
    assert_eq!(found[20].0, "@f20 · not attached: 20 files are the most of one prompt");
}

/// Judge that denies by its rules.
struct Rules;

impl CallJudge for Rules {
    fn judge(&self, _: &str, effects: &Effects, _: &Path) -> CallJudgement {
        let about = format!("{effects:?}");
        let decision = match about.contains("denied") {
            true => CallDecision::Deny,
            false if about.contains("asked") => CallDecision::Ask { by_rule: true },
            false if about.contains("private") => CallDecision::Ask { by_rule: false },
            false => CallDecision::Allow,
        };
        CallJudgement { decision, reasons: Vec::new(), offer: None, allowed_by: None }
    }

    fn remember(&self, _: &CallOffer, _: bool) -> Result<(), String> {
        Ok(())
    }

    fn forget_session(&self) {}
}

#[tokio::test]
async fn what_rules_or_the_files_refuse_is_not_sent_and_that_is_said() {
    let desk = desk();
    desk.bus.scope("judge").provide_service::<dyn CallJudge>(Arc::new(Rules));
    for name in ["denied.txt", "asked.txt", ".ssh/id_rsa", "private.txt"] {
        desk.put(name, "not for the model");
    }
    let found =
        attached(&desk, "@denied.txt @asked.txt @.ssh/id_rsa @/etc/hostname @cart.py @private.txt").await;
    let by: Vec<&str> = found.iter().map(|(by, _)| by.as_str()).collect();
    assert_eq!(by[0], "@denied.txt · not attached: a rule denies reading it");
    assert!(by[1].starts_with("@asked.txt · not attached: a rule asks"), "{by:?}");
    assert!(by[2].starts_with("@.ssh/id_rsa · not attached: "), "{by:?}");
    assert!(by[3].starts_with("@/etc/hostname · not attached: it is outside"), "{by:?}");
    assert_eq!(by[4], "@cart.py · 2 lines");
    assert!(by[5].starts_with("@private.txt · not attached: it may hold credentials"), "{by:?}");
    assert!(found.iter().all(|(_, text)| !text.contains("not for the model")), "{found:?}");
}

#[tokio::test]
async fn a_secret_in_a_file_is_taken_out_and_an_image_is_shown_as_one() {
    let desk = desk();
    let redactor = Redactor::new();
    redactor.learn("sk-very-secret-value");
    desk.bus.scope("secrets").provide_service(Arc::new(redactor));
    desk.put("env.txt", "KEY=sk-very-secret-value\n");
    let found = attached(&desk, "@env.txt").await;
    assert!(!found[0].1.contains("sk-very-secret-value") && found[0].1.contains("KEY="), "{found:?}");
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend([0, 0, 2, 128, 0, 0, 1, 224, 8, 2, 0, 0, 0]);
    desk.put("shot.png", png);
    let input = Input { text: "@shot.png".to_owned(), images: Vec::new(), handled: false, added: Vec::new() };
    let added = desk.bus.cx().emit(input).await.unwrap().added;
    assert!(added[0].content.iter().any(|block| matches!(block, Block::Image(_))), "{added:?}");
}

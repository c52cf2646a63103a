use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::events::{CallRef, Decision, Ruling, ToolGate};
use zk_core::kernel::{Bus, Stage};
use zk_core::model::{CallId, TurnId};
use zk_core::service::{Question, Ui, UiAnswer};
use zk_tools::{PermissionGate, PermissionMode};

use crate::support::Desk;

struct Person {
    answer: UiAnswer,
    asked: Mutex<Vec<Question>>,
}

#[async_trait]
impl Ui for Person {
    fn is_interactive(&self) -> bool {
        true
    }

    async fn ask(&self, question: Question) -> UiAnswer {
        self.asked.lock().unwrap().push(question);
        tokio::task::yield_now().await;
        self.answer.clone()
    }

    fn notify(&self, _: &str) {}
}

fn person(desk: &Desk, answer: UiAnswer) -> Arc<Person> {
    let person = Arc::new(Person { answer, asked: Mutex::default() });
    desk.bus.scope("host").provide_service::<dyn Ui>(person.clone());
    person
}

fn desk(mode: PermissionMode) -> Desk {
    let desk = Desk::new();
    desk.bus.install(&PermissionGate::new(mode)).unwrap();
    desk
}

/// Why a call is refused, if it is.
async fn refusal(bus: &Bus, tool: &str, args: Value) -> Option<String> {
    let call = Arc::new(CallRef {
        turn_id: TurnId::fresh(),
        call_id: CallId::from("same"),
        name: tool.into(),
        display_name: tool.into(),
    });
    let run_tool_counts = Arc::new(BTreeMap::new());
    let gate = ToolGate { call, args, run_tool_counts, decision: None, decided_by: None };
    match bus.cx().emit(gate).await.unwrap().decision {
        Some(Decision::Refuse { reason }) => Some(reason),
        Some(Decision::Substitute { .. }) | None => None,
    }
}

fn command() -> Value {
    json!({ "command": "rm a" })
}

#[tokio::test]
async fn with_nobody_to_ask_only_reading_is_allowed() {
    let desk = desk(PermissionMode::Ask);
    for tool in ["read_file", "grep", "glob", "list_files", "no_such_tool"] {
        assert_eq!(refusal(&desk.bus, tool, json!({})).await, None, "{tool}");
    }
    for tool in ["shell", "edit", "multi_edit", "write_file"] {
        let reason = refusal(&desk.bus, tool, json!({ "command": "ls" })).await.unwrap();
        assert!(reason.contains("--allow-all") && reason.contains("start it on a terminal"), "{reason}");
    }
}

#[tokio::test]
async fn everything_can_be_allowed() {
    let desk = desk(PermissionMode::AllowAll);
    assert_eq!(refusal(&desk.bus, "shell", command()).await, None);
}

#[tokio::test]
async fn a_person_sees_what_will_run_and_decides() {
    let desk = desk(PermissionMode::Ask);
    let asked = person(&desk, UiAnswer::Yes);
    assert_eq!(refusal(&desk.bus, "shell", command()).await, None);
    assert_eq!(refusal(&desk.bus, "shell", command()).await, None);
    let questions = asked.asked.lock().unwrap().clone();
    assert_eq!(questions.len(), 2, "yes is for once");
    let expected = Question::Approve {
        agent: "main".into(),
        depth: 0,
        tool: "shell".into(),
        summary: "$ rm a".into(),
        args: command(),
    };
    assert_eq!(questions[0], expected);
}

#[tokio::test]
async fn a_refusal_carries_the_word_of_the_person() {
    let desk = desk(PermissionMode::Ask);
    person(&desk, UiAnswer::No { message: Some("use git rm".into()) });
    let reason = refusal(&desk.bus, "shell", command()).await.unwrap();
    assert_eq!(reason, "the user declined this call: use git rm");
    person(&desk, UiAnswer::No { message: None });
    assert!(refusal(&desk.bus, "shell", command()).await.is_some());
}

#[tokio::test]
async fn a_question_without_an_answer_is_no_denial_by_the_user() {
    let desk = desk(PermissionMode::Ask);
    person(&desk, UiAnswer::Absent);
    let reason = refusal(&desk.bus, "shell", command()).await.unwrap();
    assert!(reason.contains("it was not the user who declined"), "{reason}");
}

#[tokio::test]
async fn agents_that_ask_at_once_wait_for_each_other() {
    let desk = desk(PermissionMode::Ask);
    let asked = person(&desk, UiAnswer::Always);
    let child = desk.bus.child("helper");
    let (one, other) =
        tokio::join!(refusal(&desk.bus, "shell", command()), refusal(&child, "shell", command()));
    assert_eq!((one, other), (None, None));
    assert_eq!(asked.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn always_holds_for_that_tool_and_for_sub_agents() {
    let desk = desk(PermissionMode::Ask);
    let asked = person(&desk, UiAnswer::Always);
    let child = desk.bus.child("helper").child("deeper");
    for bus in [&desk.bus, &child, &desk.bus] {
        assert_eq!(refusal(bus, "shell", command()).await, None);
    }
    assert_eq!(asked.asked.lock().unwrap().len(), 1);
    refusal(&desk.bus, "edit", json!({ "path": "a" })).await;
    assert_eq!(asked.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_sub_agent_is_named_in_the_question() {
    let desk = desk(PermissionMode::Ask);
    let asked = person(&desk, UiAnswer::Yes);
    let child = desk.bus.child("helper").child("deeper");
    refusal(&child, "shell", command()).await;
    let questions = asked.asked.lock().unwrap().clone();
    assert!(matches!(&questions[0], Question::Approve { agent, depth: 2, .. } if agent == "deeper"));
}

#[tokio::test]
async fn arguments_rewritten_after_the_approval_are_asked_for_again() {
    let desk = desk(PermissionMode::Ask);
    let asked = person(&desk, UiAnswer::Yes);
    desk.bus.scope("rewriter").on_sync_at(Stage::Consumer, |_: &ToolGate, _| {
        Some(Ruling::Rewrite(json!({ "command": "rm -rf b" })))
    });
    assert_eq!(refusal(&desk.bus, "shell", command()).await, None);
    let questions = asked.asked.lock().unwrap().clone();
    assert_eq!(questions.len(), 2);
    assert!(matches!(&questions[1], Question::Approve { summary, .. } if summary == "$ rm -rf b"));
}

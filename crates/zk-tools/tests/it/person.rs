use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use zk_core::model::{Display, ToolErrorKind};
use zk_core::service::{FrontEnd, Question, Questions, Selection, Tool, UiAnswer};
use zk_tools::{InteractionTool, PlanModes, Presence, ToolsOptions};

use crate::support::Desk;

fn attended() -> (Desk, FrontEnd) {
    let desk = Desk::new();
    let questions = Questions::new();
    let front_end = questions.attach();
    desk.bus.scope("terminal").provide_service(Arc::new(questions));
    (desk, front_end)
}

/// Answers each question in turn; returns the questions.
async fn answers(front_end: &FrontEnd, answers: Vec<UiAnswer>) -> Vec<Question> {
    let mut asked = Vec::new();
    for answer in answers {
        let pending = front_end.next().await;
        front_end.answer(pending.id, pending.digest, answer).unwrap();
        asked.push(pending.question.clone());
    }
    asked
}

async fn call(tool: &str, args: Value, given: Vec<UiAnswer>) -> (String, Vec<Question>) {
    let (desk, front_end) = attended();
    let (text, asked) = tokio::join!(desk.ok(tool, args), answers(&front_end, given));
    (text, asked)
}

fn text(text: &str) -> UiAnswer {
    UiAnswer::Text { text: text.to_owned() }
}

#[tokio::test]
async fn a_question_is_answered_in_words_or_by_a_choice() {
    let (answer, asked) = call("ask_user", json!({ "question": "Which port?" }), vec![text("8080")]).await;
    assert_eq!(answer, "The user answers: 8080");
    assert_eq!(asked, [Selection::new("Which port?", Vec::new()).accepting_words().into()]);

    let args = json!({ "question": "Which?", "options": ["a", "b"] });
    let (answer, asked) = call("ask_user", args.clone(), vec![UiAnswer::Choice { index: 1 }]).await;
    assert_eq!(answer, "The user answers: b");
    let options = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(asked, [Selection::new("Which?", options.clone()).accepting_words().into()]);

    let own_words = call("ask_user", args.clone(), vec![text("neither, c please")]).await.0;
    assert_eq!(own_words, "The user answers: neither, c please");
    let described = json!({ "question": "Which?", "options": ["a", "b"], "descriptions": ["the first"] });
    let (_, asked) = call("ask_user", described, vec![UiAnswer::Choice { index: 0 }]).await;
    let expected = Selection::new("Which?", options).described(vec!["the first".to_owned()]);
    assert_eq!(asked, [expected.clone().accepting_words().into()]);
    let in_options =
        json!({ "question": "Which?", "options": [{ "label": "a", "description": "the first" }, "b"] });
    let (answer, asked) = call("ask_user", in_options, vec![UiAnswer::Choice { index: 0 }]).await;
    assert_eq!((answer.as_str(), asked), ("The user answers: a", vec![expected.accepting_words().into()]));
    let (answer, _) = call("ask_user", args, vec![UiAnswer::No { message: None }]).await;
    assert!(answer.contains("does not want to answer"), "{answer}");
}

#[tokio::test]
async fn without_a_person_the_model_is_told_that_nobody_is_there() {
    let desk = Desk::new();
    let error = desk.err("ask_user", json!({ "question": "Which?" })).await;
    assert_eq!(error.kind, ToolErrorKind::Denied);
    assert!(error.message.contains("nobody is here") && error.message.contains("assumed"), "{error}");
    let error = desk.err("present_plan", json!({ "plan": "1. do it" })).await;
    assert!(error.message.contains("carry nothing of it out"), "{error}");
}

#[tokio::test]
async fn where_nobody_can_answer_the_tools_that_ask_are_not_offered() {
    let desk = Desk::with(ToolsOptions { person: Presence::Nobody, ..ToolsOptions::default() });
    assert!(desk.bus.item::<dyn Tool>("ask_user").is_none());
    assert!(desk.bus.item::<dyn Tool>("present_plan").is_none());
    assert!(desk.bus.item::<dyn Tool>("todo_write").is_some());
}

#[tokio::test]
async fn a_run_that_outlives_its_worker_may_ask_and_wait() {
    let options = ToolsOptions { person: Presence::Later, ..ToolsOptions::default() };
    let desk = Desk::with(options.clone());
    assert!(desk.bus.item::<dyn Tool>("ask_user").is_some() && desk.bus.item::<dyn Tool>("wait").is_some());
    assert!(desk.bus.item::<dyn Tool>("present_plan").is_none());
    // A sub-agent inside of a call has no leg of its own.
    let error = desk.err("wait", json!({ "minutes": 5 })).await;
    assert!(error.message.contains("without its worker"), "{error}");
    let error = desk.err("ask_user", json!({ "question": "?" })).await;
    assert!(error.message.contains("nobody is here"), "{error}");
    let named = ToolsOptions { only: Some(vec!["wait".to_owned()]), person: Presence::Here, ..options };
    assert!(
        Desk::with(named).bus.item::<dyn Tool>("wait").is_none(),
        "a conversation has no worker to leave"
    );
}

#[tokio::test]
async fn a_person_who_leaves_and_a_run_that_stops_end_the_question() {
    let (desk, front_end) = attended();
    let leaves = async {
        front_end.next().await;
        drop(front_end);
    };
    let (error, ()) = tokio::join!(desk.err("ask_user", json!({ "question": "?" })), leaves);
    assert!(error.message.contains("has left"), "{error}");

    let (desk, front_end) = attended();
    let stops = async {
        front_end.next().await;
        desk.stop.cancel();
    };
    let (error, ()) = tokio::join!(desk.err("ask_user", json!({ "question": "?" })), stops);
    assert_eq!(error.kind, ToolErrorKind::Aborted);
    assert!(front_end.pending().is_empty());
}

#[tokio::test]
async fn a_plan_is_approved_changed_or_rejected() {
    let plan = json!({ "plan": "1. read\n2. change" });
    let (answer, asked) = call("present_plan", plan.clone(), vec![UiAnswer::Choice { index: 0 }]).await;
    assert_eq!(answer, "The user approves the plan. Carry it out.");
    let Some(Question::Select(asked)) = asked.first() else { panic!("{asked:?}") };
    let shown = Display::Markdown { text: "1. read\n2. change".to_owned(), outcome: String::new() };
    assert_eq!(asked.preview, Some(shown));
    assert_eq!(asked.options, ["Go on", "Change it", "No"]);

    for given in [vec![UiAnswer::Choice { index: 1 }, text("test first")], vec![text("test first")]] {
        let (answer, _) = call("present_plan", plan.clone(), given).await;
        assert!(answer.starts_with("The user wants the plan changed: test first"), "{answer}");
    }
    let (answer, _) = call("present_plan", plan, vec![UiAnswer::Choice { index: 2 }]).await;
    assert!(answer.contains("rejects the plan"), "{answer}");
}

struct Modes(Mutex<Vec<usize>>);

impl PlanModes for Modes {
    fn ways(&self) -> Vec<String> {
        vec!["Go on".to_owned(), "Go on, edits unasked".to_owned()]
    }

    fn choose(&self, way: usize) -> Result<Option<String>, String> {
        self.0.lock().unwrap().push(way);
        if way == 1 { Ok(Some("Edits run unasked.".to_owned())) } else { Err("it is fixed".to_owned()) }
    }
}

#[tokio::test]
async fn approving_a_plan_chooses_the_mode_in_which_it_is_carried_out() {
    let (desk, front_end) = attended();
    let modes = Arc::new(Modes(Mutex::default()));
    desk.bus.scope("modes").provide_service::<dyn PlanModes>(modes.clone());
    let plan = || json!({ "plan": "do it" });
    let given = vec![UiAnswer::Choice { index: 1 }];
    let (answer, _) = tokio::join!(desk.ok("present_plan", plan()), answers(&front_end, given));
    assert_eq!(answer, "The user approves the plan. Carry it out. Edits run unasked.");
    let given = vec![UiAnswer::Choice { index: 0 }];
    let (answer, _) = tokio::join!(desk.ok("present_plan", plan()), answers(&front_end, given));
    assert!(answer.ends_with("The mode stays as it is: it is fixed."), "{answer}");
    assert_eq!(*modes.0.lock().unwrap(), [1, 0]);
}

#[tokio::test]
async fn a_host_makes_a_tool_that_waits_for_its_person() {
    let (desk, front_end) = attended();
    let schema = json!({ "type": "object", "properties": { "what": { "type": "string" } } });
    let tool = InteractionTool::new("pick", "Have the user pick.", schema, async |args, cx| {
        let questions = cx.cx.service::<Questions>().unwrap();
        let question = Question::Input { text: format!("Which {}?", args["what"].as_str().unwrap()) };
        match questions.ask(question, &cx.cx, std::time::Duration::from_secs(60)).await {
            UiAnswer::Text { text } => {
                let details = Some(json!({ "picked": text }));
                Ok(zk_core::model::ToolOutput { details, ..zk_core::model::ToolOutput::text(text) })
            }
            other => Err(zk_core::model::ToolError::failed(format!("{other:?}"))),
        }
    });
    let place = zk_core::service::CallPlace { cx: desk.bus.cx(), cwd: ".".into() };
    assert!(tool.effects(&json!({}), &place).is_read_only());
    desk.bus.scope("host").provide::<dyn Tool>("pick", Arc::new(tool)).unwrap();
    let picking = desk.output("pick", json!({ "what": "colour" }));
    let (output, asked) = tokio::join!(picking, answers(&front_end, vec![text("blue")]));
    let output = output.unwrap();
    assert_eq!(output.content.to_text(), "blue");
    assert_eq!(output.details, Some(json!({ "picked": "blue" })));
    assert_eq!(asked, [Question::Input { text: "Which colour?".to_owned() }]);
}

use serde_json::{Value, json};
use zk_core::model::{Block, ToolCall, ToolResult, TurnUsage, Usage};
use zk_core::service::{CustomEntry, RunStatus};

use super::*;
use crate::CallState;

fn load(kinds: Vec<EntryKind>) -> Loaded {
    let entry = |kind| Entry { id: "e".into(), parent: None, time_ms: 0, kind };
    load_history(&kinds.into_iter().map(entry).collect::<Vec<_>>())
}

fn answer(model: &str) -> EntryKind {
    let message = Message { origin: Some(ModelRef::new("p", model)), ..Message::assistant(Vec::new()) };
    EntryKind::Message { message: message.shared(), usage: None }
}

#[test]
fn the_last_of_choice_and_answer_is_the_model() {
    let chosen = EntryKind::Model { model: ModelRef::new("p", "b") };
    assert_eq!(load(vec![answer("a"), chosen.clone()]).model, Some(ModelRef::new("p", "b")));
    assert_eq!(load(vec![chosen, answer("a")]).model, Some(ModelRef::new("p", "a")));
    assert_eq!(load(vec![]).model, None);
}

#[test]
fn the_last_thinking_level_holds() {
    let level = |level| EntryKind::Thinking { level };
    let loaded = load(vec![level(ThinkingLevel::High), level(ThinkingLevel::Low)]);
    assert_eq!(loaded.thinking, Some(ThinkingLevel::Low));
}

#[test]
fn a_run_without_an_end_is_unfinished() {
    let start = EntryKind::RunStart { run_id: "r_1".into() };
    let end = EntryKind::RunEnd { run_id: "r_1".into(), status: RunStatus::Completed };
    assert_eq!(load(vec![start.clone()]).unfinished, Some("r_1".into()));
    assert_eq!(load(vec![start, end]).unfinished, None);
}

fn three_calls() -> Arc<Message> {
    let call = |id: &str| Block::ToolCall(ToolCall::new(id, "shell", json!({ "id": id })));
    Message::assistant(vec![Block::text("I try."), call("a"), call("b"), call("c")]).shared()
}

fn open_turn(turn: &str) -> EntryKind {
    let model = ModelRef::new("p", "m");
    let usage = TurnUsage { turn_id: turn.into(), model, usage: Usage::default(), cost: None };
    EntryKind::OpenTurn { turn_id: turn.into(), message: three_calls(), usage: usage.into() }
}

fn begin(turn: &str, call: &str) -> EntryKind {
    let args = json!({ "id": call, "rewritten": true });
    EntryKind::CallBegin {
        turn_id: turn.into(),
        call_id: call.into(),
        name: "shell".into(),
        args,
        summary: None,
    }
}

fn end(turn: &str, call: &str) -> EntryKind {
    EntryKind::CallEnd {
        turn_id: turn.into(),
        call_id: call.into(),
        summary: None,
        result: Box::new(ToolResult {
            call_id: call.into(),
            content: format!("{call} is done").into(),
            is_error: false,
        }),
        display: None,
        details: Some(json!(1)),
        elapsed_ms: 3,
    }
}

fn message(message: Message) -> EntryKind {
    EntryKind::Message { message: message.shared(), usage: None }
}

fn results(message: &Message) -> Vec<String> {
    message.results().map(|result| result.content.to_text().chars().take(15).collect()).collect()
}

#[test]
fn a_turn_that_was_cut_off_says_of_each_call_how_far_it_got() {
    let log = vec![
        message(Message::user_text("go")),
        open_turn("t_1"),
        begin("t_1", "a"),
        begin("t_1", "b"),
        end("t_1", "a"),
    ];
    let loaded = load(log);
    let turn = loaded.interrupted.unwrap();
    let states: Vec<&CallState> = turn.calls.iter().map(|call| &call.state).collect();
    assert!(matches!(states[..], [CallState::Ended { .. }, CallState::OutcomeUnknown, CallState::NotRun]));
    assert_eq!(turn.calls[1].args["rewritten"], true, "the arguments that ran");
    assert_eq!(loaded.messages[1..], [three_calls(), turn.results.clone()]);
    assert_eq!(results(&turn.results), ["a is done", "Outcome unknown", "Interrupted: th"]);
    assert_eq!(loaded.custom, []);
}

#[test]
fn a_turn_whose_pair_is_stored_leaves_nothing_else() {
    let pair = [
        EntryKind::Message { message: three_calls(), usage: None },
        message(Message::user(vec![Block::result("a", "x", false)])),
    ];
    let loaded = load([vec![open_turn("t_1"), begin("t_1", "a")], pair.to_vec()].concat());
    assert_eq!((loaded.messages.len(), loaded.interrupted), (2, None));
}

#[test]
fn a_turn_of_an_earlier_run_without_a_pair_keeps_its_place() {
    let log = vec![
        message(Message::user_text("one")),
        open_turn("t_1"),
        begin("t_1", "a"),
        EntryKind::RunStart { run_id: "r_2".into() },
        message(Message::user_text("two")),
        open_turn("t_2"),
        end("t_1", "b"),
    ];
    let loaded = load(log);
    let texts: Vec<String> = loaded.messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["one", "I try.", "", "two", "I try.", ""]);
    assert_eq!(results(&loaded.messages[2])[0], "Outcome unknown");
    assert_eq!(results(&loaded.messages[5])[1], "Interrupted: th", "the end of a call of another turn");
}

#[test]
fn what_a_plugin_appended_is_handed_over_and_sent_only_where_it_is_meant_to_be() {
    let entry = |data: Value, audience| {
        let (source, kind) = ("goals".to_owned(), "goal".to_owned());
        EntryKind::Custom(CustomEntry { source, kind, version: 1, data: data.into(), audience })
    };
    let loaded = load(vec![
        entry(json!("hidden"), Audience::Hidden),
        entry(json!("for the person"), Audience::Person),
        entry(json!("mind the goal"), Audience::Model),
        entry(json!({"goal": 1}), Audience::Model),
    ]);
    let texts: Vec<String> = loaded.messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["mind the goal", r#"{"goal":1}"#]);
    assert_eq!(loaded.messages[0].injected_by.as_deref(), Some("goals"));
    let places: Vec<_> = loaded.custom.iter().map(|custom| (custom.after, custom.entry)).collect();
    assert_eq!(places, [(0, 0), (0, 1), (0, 2), (1, 3)], "each stands where it was appended");
}

#[test]
fn a_begin_without_an_end_leaves_every_call_with_its_id_unknown() {
    let call = || Block::ToolCall(ToolCall::new("a", "shell", json!({})));
    let twins = Message::assistant(vec![call(), call(), call()]).shared();
    let EntryKind::OpenTurn { turn_id, usage, .. } = open_turn("t_1") else { panic!("no open turn") };
    let open = EntryKind::OpenTurn { turn_id, message: twins, usage };
    let states = |log: Vec<EntryKind>| -> Vec<CallState> {
        load(log).interrupted.unwrap().calls.into_iter().map(|call| call.state).collect()
    };
    let cut = states(vec![open.clone(), begin("t_1", "a"), begin("t_1", "a"), end("t_1", "a")]);
    assert!(
        matches!(cut[..], [CallState::Ended { .. }, CallState::OutcomeUnknown, CallState::OutcomeUnknown]),
        "{cut:?}"
    );
    let between = states(vec![open, begin("t_1", "a"), end("t_1", "a")]);
    assert!(
        matches!(between[..], [CallState::Ended { .. }, CallState::NotRun, CallState::NotRun]),
        "{between:?}"
    );
}

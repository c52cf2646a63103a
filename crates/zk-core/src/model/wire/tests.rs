mod hosted;
mod images;
mod names;
mod own_ids;
mod thinking;

use serde_json::{Value, json};

use super::*;
use crate::model::{
    Block, Compaction, Document, Image, Role, StopReason, Text, Thinking, ToolCall, ToolContent, ToolResult,
    WireData,
};

fn target_model() -> ModelRef {
    ModelRef::new("maker", "model-1")
}

fn rules() -> WireRules {
    WireRules::tolerant(target_model())
}

fn user(text: &str) -> Message {
    Message::user_text(text)
}

fn assistant(text: &str) -> Message {
    Message::assistant(vec![Block::text(text)])
}

fn call(id: &str) -> Block {
    Block::ToolCall(ToolCall::new(id, "shell", json!({"command": "ls"})))
}

fn message_with_calls(ids: &[&str]) -> Message {
    Message::assistant(ids.iter().map(|id| call(id)).collect())
}

fn result(id: &str, text: &str) -> Block {
    Block::result(id, text, false)
}

fn image() -> Block {
    Block::Image(Image::new("image/png", "aGk="))
}

fn result_with_image(id: &str, is_error: bool) -> Block {
    let content = ToolContent::Blocks(vec![Block::text("seen"), image()]);
    Block::ToolResult(ToolResult { call_id: id.into(), content, is_error })
}

fn normalise(history: Vec<Message>, rules: &WireRules) -> WireReady {
    let history: Vec<_> = history.into_iter().map(Message::shared).collect();
    WireReady::normalise(&history, rules)
}

/// Contents of all messages, whose roles alternate from the user's.
fn contents_of(ready: &WireReady) -> Vec<&[Block]> {
    for (at, message) in ready.messages().iter().enumerate() {
        let expected = if at % 2 == 0 { Role::User } else { Role::Assistant };
        assert_eq!(message.role, expected, "messages[{at}]");
    }
    ready.messages().iter().map(|message| &*message.content).collect()
}

#[test]
fn a_proper_history_is_shared_and_not_copied() {
    let history: Vec<_> = [user("go"), message_with_calls(&["a"]), Message::user(vec![result("a", "1")])]
        .into_iter()
        .map(Message::shared)
        .collect();
    let ready = WireReady::normalise(&history, &rules());
    assert!(ready.messages().iter().zip(&history).all(|(sent, stored)| Arc::ptr_eq(sent, stored)));
    assert_eq!(ready.repairs(), []);
}

#[test]
fn a_call_without_a_result_gets_an_interrupted_result() {
    let ready = normalise(
        vec![user("go"), message_with_calls(&["a", "b"]), Message::user(vec![result("b", "2")])],
        &rules(),
    );
    let interrupted = Block::result("a", INTERRUPTED, true);
    assert_eq!(contents_of(&ready)[2], [interrupted, result("b", "2")]);
    assert_eq!(ready.repairs(), [Repair::MissingResult { call_id: "a".into() }]);
}

#[test]
fn a_call_at_the_end_of_the_history_gets_a_result() {
    let ready = normalise(vec![user("go"), message_with_calls(&["a"])], &rules());
    assert_eq!(contents_of(&ready)[2], [Block::result("a", INTERRUPTED, true)]);
}

#[test]
fn a_missing_result_is_added_before_the_next_user_text() {
    let ready = normalise(vec![user("go"), message_with_calls(&["a"]), user("stop that")], &rules());
    assert_eq!(contents_of(&ready)[2], [Block::result("a", INTERRUPTED, true), Block::text("stop that")]);
}

#[test]
fn a_result_without_a_call_directly_before_it_is_left_out() {
    let late = Message::user(vec![result("a", "late"), Block::text("and?")]);
    let ready =
        normalise(vec![user("go"), message_with_calls(&["a"]), user("x"), assistant("hm"), late], &rules());
    assert_eq!(contents_of(&ready)[4], [Block::text("and?")]);
    assert!(ready.repairs().contains(&Repair::OrphanResult { call_id: "a".into() }));
}

#[test]
fn a_second_result_of_one_call_is_left_out() {
    let twice = Message::user(vec![result("a", "first"), result("a", "second")]);
    let ready = normalise(vec![user("go"), message_with_calls(&["a"]), twice], &rules());
    assert_eq!(contents_of(&ready)[2], [result("a", "first")]);
    assert_eq!(ready.repairs(), [Repair::OrphanResult { call_id: "a".into() }]);
}

#[test]
fn results_come_first_and_in_the_order_of_the_calls() {
    let mixed = Message::user(vec![Block::text("and?"), result("b", "2"), result("a", "1")]);
    let ready = normalise(vec![user("go"), message_with_calls(&["a", "b"]), mixed], &rules());
    assert_eq!(contents_of(&ready)[2], [result("a", "1"), result("b", "2"), Block::text("and?")]);
    assert_eq!(ready.repairs(), [], "nothing was missing");
}

#[test]
fn results_spread_over_messages_are_gathered() {
    let history = vec![
        user("go"),
        message_with_calls(&["a", "b"]),
        Message::user(vec![result("a", "1")]),
        Message::user(vec![result("b", "2")]),
    ];
    assert_eq!(contents_of(&normalise(history, &rules()))[2], [result("a", "1"), result("b", "2")]);
}

#[test]
fn results_in_an_assistant_message_and_calls_in_a_user_message_are_left_out() {
    let history = vec![
        Message::user(vec![Block::text("go"), call("a")]),
        Message::assistant(vec![Block::text("hm"), result("a", "1")]),
        user("and?"),
    ];
    let ready = normalise(history, &rules());
    assert_eq!(contents_of(&ready), [[Block::text("go")], [Block::text("hm")], [Block::text("and?")]]);
}

#[test]
fn messages_of_one_role_in_a_row_are_joined() {
    let history = vec![user("a"), user("b"), assistant("c"), assistant("d"), user("e")];
    let ready = normalise(history, &rules());
    assert_eq!(contents_of(&ready)[0], [Block::text("a"), Block::text("b")]);
    assert_eq!(contents_of(&ready)[1], [Block::text("c"), Block::text("d")]);
}

#[test]
fn messages_without_content_are_left_out() {
    let blank = Message::assistant(vec![Block::text(" \n")]);
    let ready = normalise(vec![user("a"), blank, Message::assistant(vec![]), user("b")], &rules());
    assert_eq!(contents_of(&ready), [[Block::text("a"), Block::text("b")]]);
}

#[test]
fn a_message_of_thinking_alone_is_left_out() {
    let echo = WireRules { thinking: ThinkingReplay::Echo, ..rules() };
    let alone =
        Block::Thinking(Thinking { text: "hm".into(), origin: Some(target_model()), ..Thinking::default() });
    let ready = normalise(vec![user("a"), Message::assistant(vec![alone])], &echo);
    assert_eq!(contents_of(&ready), [[Block::text("a")]]);
}

#[test]
fn a_response_that_failed_or_was_refused_is_left_out() {
    for stop in [StopReason::Error, StopReason::Refusal(None)] {
        let failed = Message { stop: Some(stop), ..message_with_calls(&["a"]) };
        let ready = normalise(vec![user("go"), failed, user("again")], &rules());
        assert_eq!(contents_of(&ready), [[Block::text("go"), Block::text("again")]]);
        assert_eq!(ready.repairs(), [Repair::FailedResponse]);
    }
}

#[test]
fn a_history_begins_and_ends_with_the_user() {
    let ready = normalise(vec![assistant("hello")], &rules());
    assert_eq!(
        contents_of(&ready),
        [[Block::text(OPENING)], [Block::text("hello")], [Block::text(CONTINUE)]]
    );
    assert_eq!(ready.repairs(), [Repair::Boundary, Repair::Boundary]);
}

#[test]
fn a_history_without_content_still_makes_a_request() {
    for history in [vec![], vec![user(" ")], vec![Message::user(vec![result("a", "1")])]] {
        let ready = normalise(history, &rules());
        assert_eq!(contents_of(&ready), [[Block::text(CONTINUE)]]);
        assert!(ready.repairs().contains(&Repair::Boundary));
    }
}

#[test]
fn an_id_used_before_is_replaced_with_its_result() {
    let round = |text| [message_with_calls(&["0"]), Message::user(vec![result("0", text)])];
    let history = [vec![user("go")], round("1").to_vec(), round("2").to_vec()].concat();
    let ready = normalise(history, &rules());
    let [Block::ToolCall(first)] = contents_of(&ready)[1] else { panic!("one call") };
    let [Block::ToolCall(second)] = contents_of(&ready)[3] else { panic!("one call") };
    assert_eq!(first.id.as_str(), "0");
    assert_ne!(second.id, first.id);
    assert_eq!(contents_of(&ready)[4], [result(second.id.as_str(), "2")]);
    assert_eq!(ready.repairs(), [Repair::NewId { stored: "0".into(), sent: second.id.clone() }]);
}

#[test]
fn two_calls_of_one_message_may_share_an_id() {
    let results = Message::user(vec![result("0", "1"), result("0", "2")]);
    let ready = normalise(vec![user("go"), message_with_calls(&["0", "0"]), results], &rules());
    let [Block::ToolCall(first), Block::ToolCall(second)] = contents_of(&ready)[1] else {
        panic!("two calls")
    };
    assert_ne!(first.id, second.id);
    assert_eq!(contents_of(&ready)[2], [result(first.id.as_str(), "1"), result(second.id.as_str(), "2")]);
}

#[test]
fn an_illegal_id_is_replaced_by_the_same_one_every_time() {
    let history = || {
        vec![
            user("go"),
            message_with_calls(&["functions.add:0"]),
            Message::user(vec![result("functions.add:0", "1")]),
        ]
    };
    for (ids, len) in [(IdRule::UP_TO_64, 16), (IdRule::UP_TO_40, 16), (IdRule::NINE, 9)] {
        let rules = WireRules { ids, ..rules() };
        let ready = normalise(history(), &rules);
        let [Block::ToolCall(call)] = contents_of(&ready)[1] else { panic!("one call") };
        assert!(ids.allows(call.id.as_str()));
        assert_eq!(call.id.as_str().len(), len);
        assert_eq!(ready.messages(), normalise(history(), &rules).messages());
    }
}

#[test]
fn an_assigned_id_does_not_depend_on_later_messages() {
    let first = vec![user("go"), message_with_calls(&["a b"]), Message::user(vec![result("a b", "1")])];
    let mut both = first.clone();
    both.extend([message_with_calls(&["a b"]), Message::user(vec![result("a b", "2")])]);
    let (short, long) = (normalise(first, &rules()), normalise(both, &rules()));
    assert!(long.messages().starts_with(short.messages()));
}

#[test]
fn id_rules_allow_what_providers_allow() {
    assert!(IdRule::UP_TO_64.allows(&"a".repeat(64)) && !IdRule::UP_TO_64.allows(&"a".repeat(65)));
    assert!(
        IdRule::UP_TO_40.allows("call_A-1")
            && !IdRule::UP_TO_40.allows("a.b")
            && !IdRule::UP_TO_40.allows("")
    );
    assert!(
        IdRule::NINE.allows("abc123XYZ")
            && !IdRule::NINE.allows("abc_23XYZ")
            && !IdRule::NINE.allows("short")
    );
    assert!(!IdRule::UP_TO_64.allows("ид"));
}

#[test]
fn signed_thinking_goes_back_to_the_model_it_came_from_only() {
    let thinking = |origin: Option<ModelRef>, signature: Option<&str>| {
        let signature = signature.map(str::to_owned);
        Block::Thinking(Thinking { text: "hm".into(), signature, origin, ..Thinking::default() })
    };
    let kept = thinking(Some(target_model()), Some("proof"));
    let other = thinking(Some(ModelRef::new("maker", "other")), Some("proof"));
    let unsigned = thinking(Some(target_model()), None);
    let nameless = thinking(None, Some("proof"));
    let content = vec![kept.clone(), other, unsigned.clone(), nameless, Block::text("so")];
    let history = vec![user("go"), Message::assistant(content), user("and?")];
    let under = |thinking| normalise(history.clone(), &WireRules { thinking, ..rules() });
    assert_eq!(contents_of(&under(ThinkingReplay::Signed))[1], [kept.clone(), Block::text("so")]);
    assert_eq!(contents_of(&under(ThinkingReplay::Echo))[1], [kept, unsigned, Block::text("so")]);
    assert_eq!(contents_of(&under(ThinkingReplay::Never))[1], [Block::text("so")]);
}

#[test]
fn redacted_thinking_needs_no_signature() {
    let closed = Block::Thinking(Thinking {
        redacted: Some("x".into()),
        origin: Some(target_model()),
        ..Thinking::default()
    });
    let signed = WireRules { thinking: ThinkingReplay::Signed, ..rules() };
    let history = vec![user("go"), Message::assistant(vec![closed.clone(), Block::text("so")]), user("and?")];
    assert_eq!(contents_of(&normalise(history, &signed))[1], [closed, Block::text("so")]);
}

#[test]
fn unsigned_thinking_of_an_aborted_response_is_not_echoed() {
    let open =
        Block::Thinking(Thinking { text: "hm".into(), origin: Some(target_model()), ..Thinking::default() });
    let cut =
        Message { stop: Some(StopReason::Aborted), ..Message::assistant(vec![open, Block::text("so")]) };
    let echo = WireRules { thinking: ThinkingReplay::Echo, ..rules() };
    assert_eq!(contents_of(&normalise(vec![user("go"), cut, user("on")], &echo))[1], [Block::text("so")]);
}

#[test]
fn malformed_arguments_are_shown_to_the_model_again() {
    let cut = ToolCall { malformed: Some("{\"path\": \"a\0".into()), ..ToolCall::new("a", "f", json!({})) };
    let list = ToolCall::new("b", "f", json!(["x"]));
    let content = vec![Block::ToolCall(cut), Block::ToolCall(list)];
    let results = Message::user(vec![result("a", "no"), result("b", "no")]);
    let ready = normalise(vec![user("go"), Message::assistant(content), results], &rules());
    let args: Vec<&Value> = ready.messages()[1].calls().map(|call| &call.args).collect();
    assert_eq!(args, [&json!({MALFORMED_KEY: "{\"path\": \"a\u{fffd}"}), &json!({MALFORMED_KEY: "[\"x\"]"})]);
    assert!(ready.messages()[1].calls().all(|call| call.malformed.is_none()));
}

#[test]
fn nul_characters_are_replaced_in_all_texts() {
    let args = json!({"k\0": ["a\0", {"deep": "\0"}]});
    let dirty = Block::ToolCall(ToolCall::new("a", "f", args));
    let results = Message::user(vec![result("a", "x\0y"), Block::text("p\0q")]);
    let ready = normalise(vec![user("g\0o"), Message::assistant(vec![dirty]), results], &rules());
    let text = serde_json::to_string(ready.messages()).unwrap();
    assert!(!text.contains("\\u0000"), "{text}");
    assert_eq!(contents_of(&ready)[0], [Block::text("g\u{fffd}o")]);
}

#[test]
fn an_empty_result_gets_a_placeholder() {
    let nothing = ToolContent::Blocks(vec![Block::text(" ")]);
    let results = Message::user(vec![result("a", ""), result("b", "\n"), Block::result("c", nothing, false)]);
    let ready = normalise(vec![user("go"), message_with_calls(&["a", "b", "c"]), results], &rules());
    assert_eq!(contents_of(&ready)[2], ["a", "b", "c"].map(|id| result(id, NO_OUTPUT)));
}

#[test]
fn an_image_follows_the_results_if_results_carry_none() {
    let history = vec![
        user("go"),
        message_with_calls(&["a", "b"]),
        Message::user(vec![result_with_image("a", false), result("b", "2")]),
    ];
    let ready = normalise(history.clone(), &rules());
    let marked = ToolContent::Blocks(vec![Block::text("seen"), Block::text(IMAGE_FOLLOWS)]);
    assert_eq!(contents_of(&ready)[2], [Block::result("a", marked, false), result("b", "2"), image()]);
    let stays = WireRules { image_in_tool_result: true, ..rules() };
    assert_eq!(
        contents_of(&normalise(history, &stays))[2],
        [result_with_image("a", false), result("b", "2")]
    );
}

#[test]
fn an_image_never_stays_in_a_failed_result() {
    let stays = WireRules { image_in_tool_result: true, ..rules() };
    let history =
        vec![user("go"), message_with_calls(&["a"]), Message::user(vec![result_with_image("a", true)])];
    let ready = normalise(history, &stays);
    let marked = ToolContent::Blocks(vec![Block::text("seen"), Block::text(IMAGE_FOLLOWS)]);
    assert_eq!(contents_of(&ready)[2], [Block::result("a", marked, true), image()]);
}

#[test]
fn unaccepted_media_get_a_placeholder_everywhere() {
    let narrow = WireRules {
        media: MediaTypes { images: MediaTypes::WEB, documents: &["text/*"], largest_image: None },
        image_in_tool_result: true,
        ..rules()
    };
    let drawing = Block::Image(Image::new("image/svg+xml", "aGk="));
    let document = |media_type: &str, name: Option<&str>| {
        let (media_type, name) = (media_type.to_owned(), name.map(str::to_owned));
        Block::Document(Document { media_type, name, data: "aGk=".into() })
    };
    let notes = document("text/plain; charset=utf-8", None);
    let report = document("application/pdf", Some("re\nport.pdf"));
    let nameless = document("\0", None);
    let given = vec![drawing, image(), report, notes.clone(), nameless];
    let told = vec![
        Block::text("[image omitted: image/svg+xml is not taken here]"),
        image(),
        Block::text("[document report.pdf omitted: application/pdf is not taken here]"),
        notes.clone(),
        Block::text("[document omitted: one of no type is not taken here]"),
    ];
    let within = |blocks: &[Block]| Block::result("a", ToolContent::Blocks(blocks.to_vec()), false);
    let history =
        vec![Message::user(given.clone()), message_with_calls(&["a"]), Message::user(vec![within(&given)])];
    let ready = normalise(history.clone(), &narrow);
    assert_eq!(contents_of(&ready)[0], told);
    assert_eq!(contents_of(&ready)[2], [within(&told)]);
    let blind = normalise(history, &WireRules { vision: false, ..narrow });
    assert!(contents_of(&blind)[0].contains(&notes), "text needs no eyes");
    assert!(!contents_of(&blind)[0].contains(&image()));
}

#[test]
fn a_model_without_vision_gets_placeholders_for_images() {
    let blind = WireRules { vision: false, ..rules() };
    let history = vec![
        Message::user(vec![Block::text("see"), image()]),
        message_with_calls(&["a"]),
        Message::user(vec![result_with_image("a", false)]),
    ];
    let ready = normalise(history, &blind);
    assert_eq!(contents_of(&ready)[0], [Block::text("see"), Block::text(IMAGE_OMITTED)]);
    let marked = ToolContent::Blocks(vec![Block::text("seen"), Block::text(IMAGE_OMITTED)]);
    assert_eq!(contents_of(&ready)[2], [Block::result("a", marked, false)]);
}

#[test]
fn a_compaction_is_sent_as_its_summary() {
    let marker = Block::Compaction(Compaction { summary: "They met.".into(), tokens_before: 9 });
    let ready = normalise(vec![Message::user(vec![marker])], &rules());
    let [Block::Text(text)] = contents_of(&ready)[0] else { panic!("one text") };
    assert!(text.text.ends_with("They met."));
}

#[test]
fn provider_data_of_another_model_is_not_sent() {
    let wire = |origin| Some(WireData { origin, data: json!(1) });
    let text = |wire| Block::Text(Text { text: "so".into(), wire });
    let mine = text(wire(target_model()));
    let theirs = text(wire(ModelRef::new("maker", "other")));
    let their_call = ToolCall {
        wire: wire(ModelRef::new("x", "y")),
        ..ToolCall::new("a", "shell", json!({"command": "ls"}))
    };
    let content = vec![mine.clone(), theirs, Block::ToolCall(their_call)];
    let history = vec![user("go"), Message::assistant(content), Message::user(vec![result("a", "1")])];
    assert_eq!(contents_of(&normalise(history, &rules()))[1], [mine, Block::text("so"), call("a")]);
}

#[test]
fn normalising_twice_changes_nothing() {
    let history = vec![
        assistant("hello"),
        message_with_calls(&["a b", "a b"]),
        Message::user(vec![result("zz", "1"), result_with_image("a b", true), Block::text("x\0")]),
        message_with_calls(&["c"]),
    ];
    let once = normalise(history, &rules());
    let twice = WireReady::normalise(once.messages(), &rules());
    assert_eq!(once.messages(), twice.messages());
    assert_eq!(twice.repairs(), []);
}

use super::*;

fn hosted_call(origin: &ModelRef) -> Block {
    Block::provider("web search", origin, json!({"type": "server_tool_use", "id": "s1"}))
}

#[test]
fn provider_blocks_go_back_to_their_own_model_only() {
    let theirs = ModelRef::new("maker", "other");
    let content = vec![hosted_call(&target_model()), hosted_call(&theirs), Block::text("so")];
    let ready = normalise(vec![user("go"), Message::assistant(content), user("on")], &rules());
    assert_eq!(contents_of(&ready)[1], [hosted_call(&target_model()), Block::text("so")]);
}

#[test]
fn provider_blocks_of_an_abandoned_response_are_not_sent() {
    for stop in [StopReason::Aborted, StopReason::PauseTurn] {
        let content = vec![Block::text("so"), hosted_call(&target_model())];
        let message = Message { stop: Some(stop.clone()), ..Message::assistant(content) };
        let ready = normalise(vec![user("go"), message, user("on")], &WireRules { resumes: true, ..rules() });
        assert_eq!(contents_of(&ready)[1], [Block::text("so")], "{stop}");
    }
}

#[test]
fn a_paused_response_stays_last_if_the_provider_resumes_it() {
    for stop in [StopReason::PauseTurn, StopReason::Compaction] {
        let message = Message { stop: Some(stop), ..Message::assistant(vec![hosted_call(&target_model())]) };
        let history = vec![user("go"), message];
        let ready = normalise(history.clone(), &WireRules { resumes: true, ..rules() });
        assert_eq!(contents_of(&ready).len(), 2);
        assert_eq!(contents_of(&ready)[1], [hosted_call(&target_model())]);
        assert!(ready.repairs().is_empty());
        let ready = normalise(history, &rules());
        assert_eq!(
            contents_of(&ready).last().expect("a message").len(),
            1,
            "elsewhere the user asks for more"
        );
        assert_eq!(ready.messages().last().expect("a message").role, Role::User);
    }
}

#[test]
fn an_abandoned_pause_does_not_apply_to_the_joined_response() {
    let found = Message::assistant(vec![hosted_call(&target_model())]);
    let refused = Message { stop: Some(StopReason::Refusal(None)), ..message_with_calls(&["c1"]) };
    let paused = Message { stop: Some(StopReason::PauseTurn), ..assistant("so") };
    // A result whose call was refused is left out, and the responses around it become one.
    let history = vec![found, refused, Message::user(vec![result("c1", "listed")]), paused];
    let ready = normalise(history, &rules());
    assert_eq!(contents_of(&ready)[1], [hosted_call(&target_model()), Block::text("so")]);
    let again = WireReady::normalise(ready.messages(), &rules());
    assert_eq!(again.messages(), ready.messages());
}

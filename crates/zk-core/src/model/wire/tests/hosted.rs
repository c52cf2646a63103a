use super::*;

fn hosted(origin: &ModelRef) -> Block {
    Block::provider("web search", origin, json!({"type": "server_tool_use", "id": "s1"}))
}

#[test]
fn what_only_a_provider_understands_goes_back_to_its_own_model_alone() {
    let theirs = ModelRef::new("maker", "other");
    let content = vec![hosted(&own()), hosted(&theirs), Block::text("so")];
    let ready = normalise(vec![user("go"), Message::assistant(content), user("on")], &rules());
    assert_eq!(said(&ready)[1], [hosted(&own()), Block::text("so")]);
}

#[test]
fn what_only_a_provider_understands_stays_behind_when_its_response_was_given_up() {
    for stop in [StopReason::Aborted, StopReason::PauseTurn] {
        let content = vec![Block::text("so"), hosted(&own())];
        let message = Message { stop: Some(stop.clone()), ..Message::assistant(content) };
        let ready = normalise(vec![user("go"), message, user("on")], &WireRules { resumes: true, ..rules() });
        assert_eq!(said(&ready)[1], [Block::text("so")], "{stop}");
    }
}

#[test]
fn a_paused_response_is_the_last_message_where_the_provider_goes_on_with_it() {
    for stop in [StopReason::PauseTurn, StopReason::Compaction] {
        let message = Message { stop: Some(stop), ..Message::assistant(vec![hosted(&own())]) };
        let history = vec![user("go"), message];
        let ready = normalise(history.clone(), &WireRules { resumes: true, ..rules() });
        assert_eq!(said(&ready).len(), 2);
        assert_eq!(said(&ready)[1], [hosted(&own())]);
        assert!(ready.repairs().is_empty());
        let ready = normalise(history, &rules());
        assert_eq!(said(&ready).last().expect("a message").len(), 1, "elsewhere the user asks for more");
        assert_eq!(ready.messages().last().expect("a message").role, Role::User);
    }
}

#[test]
fn a_pause_that_was_given_up_does_not_hold_of_the_response_it_is_joined_to() {
    let found = Message::assistant(vec![hosted(&own())]);
    let refused = Message { stop: Some(StopReason::Refusal(None)), ..calls(&["c1"]) };
    let paused = Message { stop: Some(StopReason::PauseTurn), ..assistant("so") };
    // A result whose call was refused is left out, and the responses around it become one.
    let history = vec![found, refused, Message::user(vec![result("c1", "listed")]), paused];
    let ready = normalise(history, &rules());
    assert_eq!(said(&ready)[1], [hosted(&own()), Block::text("so")]);
    let again = WireReady::normalise(ready.messages(), &rules());
    assert_eq!(again.messages(), ready.messages());
}

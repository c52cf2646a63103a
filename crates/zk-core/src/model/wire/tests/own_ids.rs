use super::*;

const KIMI: [&str; 2] = ["functions.add:0", "functions.add:1"];

fn history_with_calls(origin: Option<ModelRef>) -> Vec<Message> {
    let called = Message { origin, ..message_with_calls(&KIMI) };
    vec![user("go"), called, Message::user(vec![result(KIMI[1], "2"), result(KIMI[0], "1")])]
}

fn sent_ids(ready: &WireReady) -> Vec<String> {
    ready.messages()[1].calls().map(|call| call.id.to_string()).collect()
}

#[test]
fn call_ids_of_the_same_model_are_sent_back_unchanged() {
    for ids in [IdRule::UP_TO_64, IdRule::UP_TO_40, IdRule::NINE] {
        let ready = normalise(history_with_calls(Some(target_model())), &WireRules { ids, ..rules() });
        assert_eq!(sent_ids(&ready), KIMI);
        assert_eq!(contents_of(&ready)[2], [result(KIMI[0], "1"), result(KIMI[1], "2")]);
        assert_eq!(ready.repairs(), []);
    }
}

#[test]
fn call_ids_of_another_model_or_provider_are_made_legal() {
    let others = [None, Some(ModelRef::new("maker", "model-2")), Some(ModelRef::new("other", "model-1"))];
    for origin in others {
        let ready = normalise(history_with_calls(origin), &rules());
        assert!(sent_ids(&ready).iter().all(|id| IdRule::UP_TO_40.allows(id)), "{:?}", sent_ids(&ready));
    }
}

#[test]
fn call_ids_stay_if_another_part_of_the_message_is_changed() {
    let nul = Block::text("a\0b");
    let mut history = history_with_calls(Some(target_model()));
    history[1].content.insert(0, nul);
    let once = normalise(history, &rules());
    assert_eq!(sent_ids(&once), KIMI);
    let twice = WireReady::normalise(once.messages(), &rules());
    assert_eq!(once.messages(), twice.messages());
}

#[test]
fn an_id_assigned_by_zk_follows_the_providers_rule() {
    let fresh = CallId::fresh();
    let called = Message { origin: Some(target_model()), ..message_with_calls(&[fresh.as_str()]) };
    let answered = Message::user(vec![result(fresh.as_str(), "1")]);
    let ready = normalise(vec![user("go"), called, answered], &WireRules { ids: IdRule::NINE, ..rules() });
    assert!(IdRule::NINE.allows(&sent_ids(&ready)[0]));
}

#[test]
fn a_call_id_used_twice_by_one_model_is_replaced() {
    let history =
        [history_with_calls(Some(target_model())), history_with_calls(Some(target_model()))[1..].to_vec()]
            .concat();
    let ready = normalise(history, &rules());
    assert_eq!(sent_ids(&ready), KIMI);
    let second: Vec<_> = ready.messages()[3].calls().map(|call| call.id.as_str()).collect();
    assert!(second.iter().all(|id| !KIMI.contains(id)), "{second:?}");
}

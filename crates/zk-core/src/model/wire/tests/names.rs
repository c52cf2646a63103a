use super::*;

fn named(id: &str, name: &str) -> Block {
    Block::ToolCall(ToolCall::new(id, name, json!({})))
}

/// Names under which calls with these names are sent.
fn sent(names: &[&str]) -> Vec<String> {
    let ids: Vec<String> = (0..names.len()).map(|number| format!("c{number}")).collect();
    let calls = ids.iter().zip(names).map(|(id, name)| named(id, name)).collect();
    let results = ids.iter().map(|id| result(id, "no such tool")).collect();
    let ready = normalise(vec![user("go"), Message::assistant(calls), Message::user(results)], &rules());
    ready.messages()[1].calls().map(|call| call.name.clone()).collect()
}

#[test]
fn a_name_the_model_made_up_goes_out_as_a_legal_one() {
    let long = "a".repeat(65);
    let made_up = ["functions.shell", "shell<|channel|>json", "", "größe", "a b\n", &long];
    for name in &sent(&made_up) {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        assert!((1..=64).contains(&name.len()) && name.bytes().all(is_legal), "{name}");
    }
    assert!(sent(&made_up)[0].starts_with("functions_shell_"), "it says what was called for");
    assert_eq!(sent(&made_up), sent(&made_up), "the same every time");
}

#[test]
fn a_legal_name_goes_out_as_it_is() {
    let longest = "a".repeat(64);
    let legal = ["shell", "-x", "3d", &longest];
    assert_eq!(sent(&legal), legal);
}

#[test]
fn names_that_differ_go_out_as_names_that_differ() {
    let (one, other) = ("a".repeat(70), "a".repeat(71));
    let names = sent(&["a.b", "a:b", "a_b", "a b", "", " ", "unnamed", &one, &other]);
    let different: std::collections::HashSet<&String> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "{names:?}");
}

#[test]
fn a_new_name_is_told_and_changes_neither_the_pair_nor_what_is_stored() {
    let history = [
        user("go").shared(),
        Message::assistant(vec![named("a", "functions.shell"), named("b", "shell")]).shared(),
        Message::user(vec![result("a", "1"), result("b", "2")]).shared(),
    ];
    let ready = WireReady::normalise(&history, &rules());
    let [Block::ToolCall(first), second] = said(&ready)[1] else { panic!("two calls") };
    assert_eq!((first.id.as_str(), second), ("a", &named("b", "shell")));
    assert_eq!(said(&ready)[2], [result("a", "1"), result("b", "2")]);
    assert!(Arc::ptr_eq(&ready.messages()[2], &history[2]), "the results stay as they are");
    let told = Repair::NewName { stored: "functions.shell".into(), sent: first.name.clone() };
    assert_eq!(ready.repairs(), [told]);
    assert_eq!(history[1].calls().map(|call| &*call.name).collect::<Vec<_>>(), ["functions.shell", "shell"]);
}

#[test]
fn what_a_provider_gave_along_with_a_call_does_not_go_with_another_name() {
    let data = Some(WireData { origin: own(), data: json!({"id": "item_1"}) });
    let of = |name: &str| ToolCall { wire: data.clone(), ..ToolCall::new("a", name, json!({})) };
    for (name, stays) in [("shell", true), ("functions.shell", false)] {
        let calls = Message::assistant(vec![Block::ToolCall(of(name))]);
        let ready = normalise(vec![user("go"), calls, Message::user(vec![result("a", "1")])], &rules());
        assert_eq!(
            ready.messages()[1].calls().next().is_some_and(|call| call.wire.is_some()),
            stays,
            "{name}"
        );
    }
}

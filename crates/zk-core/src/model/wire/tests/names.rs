use super::*;

fn call_named(id: &str, name: &str) -> Block {
    Block::ToolCall(ToolCall::new(id, name, json!({})))
}

/// Returns the names under which calls with these names are sent.
fn sent_names(names: &[&str]) -> Vec<String> {
    let ids: Vec<String> = (0..names.len()).map(|number| format!("c{number}")).collect();
    let calls = ids.iter().zip(names).map(|(id, name)| call_named(id, name)).collect();
    let results = ids.iter().map(|id| result(id, "no such tool")).collect();
    let ready = normalise(vec![user("go"), Message::assistant(calls), Message::user(results)], &rules());
    ready.messages()[1].calls().map(|call| call.name.clone()).collect()
}

#[test]
fn an_invented_tool_name_is_sent_as_a_legal_one() {
    let long = "a".repeat(65);
    let made_up = ["functions.shell", "shell<|channel|>json", "", "größe", "a b\n", &long];
    for name in &sent_names(&made_up) {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        assert!((1..=64).contains(&name.len()) && name.bytes().all(is_legal), "{name}");
    }
    assert!(sent_names(&made_up)[0].starts_with("functions_shell_"), "it says what was called for");
    assert_eq!(sent_names(&made_up), sent_names(&made_up), "the same every time");
}

#[test]
fn a_legal_tool_name_is_sent_unchanged() {
    let longest = "a".repeat(64);
    let legal = ["shell", "-x", "3d", &longest];
    assert_eq!(sent_names(&legal), legal);
}

#[test]
fn different_tool_names_are_sent_as_different_names() {
    let (one, other) = ("a".repeat(70), "a".repeat(71));
    let names = sent_names(&["a.b", "a:b", "a_b", "a b", "", " ", "unnamed", &one, &other]);
    let different: std::collections::HashSet<&String> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "{names:?}");
}

#[test]
fn a_renamed_call_is_reported_and_the_stored_one_unchanged() {
    let history = [
        user("go").shared(),
        Message::assistant(vec![call_named("a", "functions.shell"), call_named("b", "shell")]).shared(),
        Message::user(vec![result("a", "1"), result("b", "2")]).shared(),
    ];
    let ready = WireReady::normalise(&history, &rules());
    let [Block::ToolCall(first), second] = contents_of(&ready)[1] else { panic!("two calls") };
    assert_eq!((first.id.as_str(), second), ("a", &call_named("b", "shell")));
    assert_eq!(contents_of(&ready)[2], [result("a", "1"), result("b", "2")]);
    assert!(Arc::ptr_eq(&ready.messages()[2], &history[2]), "the results stay as they are");
    let told = Repair::NewName { stored: "functions.shell".into(), sent: first.name.clone() };
    assert_eq!(ready.repairs(), [told]);
    assert_eq!(history[1].calls().map(|call| &*call.name).collect::<Vec<_>>(), ["functions.shell", "shell"]);
}

#[test]
fn provider_data_is_dropped_from_a_renamed_call() {
    let data = Some(WireData { origin: target_model(), data: json!({"id": "item_1"}) });
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

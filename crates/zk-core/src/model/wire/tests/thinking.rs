use super::*;

fn signed_thinking(signature: &str) -> Block {
    let origin = Some(target_model());
    Block::Thinking(Thinking { signature: Some(signature.to_owned()), origin, ..Thinking::default() })
}

#[test]
fn unwanted_thinking_is_removed_and_all_else_unchanged() {
    let rules = WireRules { thinking: ThinkingReplay::Signed, ..rules() };
    let history = [
        user("hello"),
        Message::assistant(vec![signed_thinking("a"), Block::text("hi"), signed_thinking("b")]),
        user("more"),
        Message::assistant(vec![signed_thinking("c"), Block::text("ok")]),
        user("bye"),
    ]
    .map(Message::shared);
    let ready = WireReady::normalise(&history, &rules);
    let less = ready.without_thinking(|thinking| thinking.signature.as_deref() != Some("c"));
    assert_eq!(less.messages()[1].content, [Block::text("hi")]);
    for at in [0, 2, 3, 4] {
        assert!(Arc::ptr_eq(&less.messages()[at], &ready.messages()[at]), "it is shared: {at}");
    }
    let none = ready.without_thinking(|_| true);
    assert!(none.messages().iter().all(|message| message.content.len() == 1));
}

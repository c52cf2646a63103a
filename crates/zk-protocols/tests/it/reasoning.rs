use zk_protocols::ToolProtocol;
use zk_testkit::Script;

use crate::support::rig;

#[tokio::test]
async fn a_model_that_only_reasons_is_asked_once_more() {
    let rig = rig(ToolProtocol::Api, Script::new().turn(|t| t.thinking("42?")).turn(|t| t.text("42")));
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.text, "42");
    assert!(rig.provider.last_user_text().contains("no answer"), "{}", rig.provider.last_user_text());
}

#[tokio::test]
async fn reasoning_is_shown_as_what_it_is_if_nothing_else_comes() {
    let rig =
        rig(ToolProtocol::Api, Script::new().turn(|t| t.thinking("hm")).turn(|t| t.thinking("it is 42")));
    let outcome = rig.run("go").await;
    outcome.result.unwrap();
    assert_eq!(outcome.text, "(The model gave no answer; this is its reasoning.)\n\nit is 42");
    assert_eq!(rig.screen(), outcome.text);
    assert_eq!(rig.provider.requests().len(), 2);
}

#[tokio::test]
async fn each_run_asks_for_itself() {
    let script = Script::answering(|asked| match asked.number {
        1 | 3 => zk_testkit::Turn::new().thinking("hm"),
        _ => zk_testkit::Turn::new().text("ok"),
    });
    let rig = rig(ToolProtocol::Api, script);
    assert_eq!(rig.run("one").await.text, "ok");
    assert_eq!(rig.run("two").await.text, "ok");
}

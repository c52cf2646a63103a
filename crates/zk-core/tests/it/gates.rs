use zk_core::events::{CallRef, Decision, Ruling, ToolGate};
use zk_core::kernel::{Bus, Cx, Reach, plugin_fn};
use zk_core::service::CallPlace;

fn gate() -> ToolGate {
    let call = CallRef {
        turn_id: "t".into(),
        call_id: "c".into(),
        name: "bash".into(),
        display_name: "bash".into(),
    };
    let args = serde_json::json!({"command": "git push --force"});
    let place = CallPlace { cx: Bus::new().cx(), cwd: ".".into() };
    ToolGate::new(call.into(), args, None, place)
}

#[tokio::test]
async fn a_guard_written_as_in_the_readme_guards_sub_agents() {
    let root = Bus::builder().agent("root").build();
    let deepest = root.child("child").child("grandchild").child("deepest");
    let guard = plugin_fn("no-force-push", |scope| {
        scope.on_sync(|gate: &ToolGate, _: &Cx| {
            let command = gate.input_str("command").unwrap_or_default();
            command.contains("push --force").then(|| Ruling::refuse("no force push here"))
        });
        Ok(())
    });
    root.install(&guard).unwrap();
    for bus in [&root, &deepest] {
        let gate = bus.cx().emit(gate()).await.unwrap();
        assert_eq!(gate.decision, Some(Decision::Refuse { reason: "no force push here".into() }));
    }
    assert!(root.describe()[0].descendants, "the reach in effect is described");
}

#[tokio::test]
async fn a_handler_may_ask_for_less_than_the_reach_of_its_event() {
    let root = Bus::builder().agent("root").build();
    let child = root.child("child");
    root.scope("own").on_sync_at(Reach::Own, |_: &ToolGate, _: &Cx| Some(Ruling::refuse("not here")));
    assert!(root.cx().emit(gate()).await.unwrap().is_decided());
    assert!(!child.cx().emit(gate()).await.unwrap().is_decided());
    assert!(!root.describe()[0].descendants);
}

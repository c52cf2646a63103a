//! Inputs of hooks, their changes, and whom they tell.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::events::{
    CompactionTrigger, PermissionReply, PermissionRequest, SessionBeforeCompact, SessionSwitch, ToolPrepare,
};
use zk_core::kernel::Cx;
use zk_core::model::{CallId, CallRef, Effects, SessionId, TurnId};
use zk_hooks::{CommandHooks, HookSet, HookSource};
use zk_testkit::Script;

use super::{Scene, hook, printing};

/// A command that keeps its input in the file `name`.
fn keeping(name: &str) -> String {
    format!("cat >> {name}")
}

fn allowing(input: &Value) -> String {
    printing(&json!({"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": input}}))
}

#[tokio::test]
async fn hooks_are_told_the_names_their_matchers_use() {
    for (matcher, is_claude, tool) in
        [("shell", false, "shell"), ("", false, "shell"), ("Bash", false, "Bash"), ("*", true, "Bash")]
    {
        let mut scene = Scene::new();
        scene.source.is_claude = is_claude;
        let entry = json!([{"matcher": matcher, "hooks": [{"type": "command", "command": keeping("pre")}]}]);
        let (seen, scene) = scene.run(json!({"PreToolUse": entry})).await;
        assert_eq!(seen.ran.len(), 1);
        let inputs = scene.inputs("pre");
        assert_eq!(inputs.len(), 1, "{inputs:?}");
        let input = &inputs[0];
        assert_eq!(
            (&input["hook_event_name"], &input["tool_name"], &input["tool_input"]),
            (&json!("PreToolUse"), &json!(tool), &json!({"command": "ls"}))
        );
        assert_eq!(input["cwd"], json!(scene.path()));
        for field in ["session_id", "transcript_path", "tool_use_id", "prompt_id"] {
            assert!(input[field].is_string(), "{field}: {input}");
        }
    }
}

#[tokio::test]
async fn a_hook_that_prints_its_long_input_while_it_reads_is_read_while_it_is_written_to() {
    let mut scene = Scene::new();
    let command = "x".repeat(200_000);
    let call = json!({"command": command});
    let args = call.clone();
    scene.script = Script::new().turn(|turn| turn.call("shell", args)).turn(|turn| turn.text("Done."));
    let (seen, _) = scene.run(hook("PreToolUse", "cat >&2")).await;
    assert_eq!((seen.refused, seen.ran), (Vec::<String>::new(), vec![call]));
}

#[tokio::test]
async fn a_hook_of_another_tool_does_not_run_and_one_command_runs_once() {
    let hooks = json!({"PreToolUse": [
        {"matcher": "write_file|Read", "command": "exit 2"},
        {"matcher": "shell", "command": keeping("pre")},
        {"matcher": "sh.*", "command": keeping("pre")},
        {"command": keeping("pre")},
    ]});
    let (seen, scene) = Scene::new().run(hooks).await;
    assert_eq!((seen.ran.len(), scene.inputs("pre").len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_of_one_event_run_beside_each_other() {
    // Each waits for the other: one after the other they would both be too late.
    let meet = |own: &str, other: &str| json!({"command": format!("touch {own}; until [ -e {other} ]; do sleep 0.01; done"), "timeout": 20});
    let (seen, _) = Scene::new().run(json!({"PreToolUse": [meet("a", "b"), meet("b", "a")]})).await;
    assert_eq!((seen.ran.len(), seen.refused.len()), (1, 0), "{seen:?}");
}

#[tokio::test]
async fn what_a_hook_made_of_the_input_is_judged_by_the_others_and_runs() {
    // The guard refuses what the other one makes of the call, and nothing else.
    let guard = "grep -q 'rm -rf' && { echo 'no rm' >&2; exit 2; }; exit 0";
    let hooks = |command: &str| json!({"PreToolUse": [{"command": guard}, {"command": allowing(&json!({"command": command}))}]});
    let (seen, _) = Scene::new().run(hooks("pwd")).await;
    assert_eq!(seen.ran, [json!({"command": "pwd"})]);
    let (seen, _) = Scene::new().run(hooks("rm -rf /")).await;
    assert!(seen.ran.is_empty() && seen.refused == ["no rm"], "{seen:?}");
}

#[tokio::test]
async fn two_hooks_that_want_different_input_refuse_the_call() {
    let entry = |command: &str| json!({"command": allowing(&json!({"command": command}))});
    let (seen, _) = Scene::new().run(json!({"PreToolUse": [entry("a"), entry("b")]})).await;
    assert!(seen.ran.is_empty() && seen.refused[0].contains("differently"), "{seen:?}");
    let (seen, _) = Scene::new().run(json!({"PreToolUse": [entry("a"), entry("a ")]})).await;
    assert!(seen.ran.is_empty(), "{seen:?}");
}

#[tokio::test]
async fn input_that_does_not_fit_the_tool_does_not_run() {
    let (seen, _) = Scene::new().run(hook("PreToolUse", &allowing(&json!({"file": "x"})))).await;
    assert!(seen.ran.is_empty() && seen.results[0].contains("Validation error"), "{seen:?}");
}

#[tokio::test]
async fn arguments_that_another_plugin_changes_are_judged_as_they_run() {
    let behind = |bus: &zk_core::kernel::Bus| {
        bus.scope("late").on_sync_at(zk_core::kernel::Stage::Late, |_: &ToolPrepare, _: &Cx| {
            Some(json!({"command": "cat secret"}))
        });
    };
    let guard = "grep -q secret && { echo 'no secrets' >&2; exit 2; }; exit 0";
    let (seen, _) = Scene { behind, ..Scene::new() }.run(hook("PreToolUse", guard)).await;
    assert!(seen.ran.is_empty() && seen.refused == ["no secrets"], "{seen:?}");
}

#[tokio::test]
async fn the_model_gets_the_context_of_hooks_with_the_prompt_and_below_results() {
    let context = |event: &str, text: &str| {
        let output = json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}});
        json!([{"command": printing(&output)}])
    };
    let hooks = json!({
        "SessionStart": [{"matcher": "startup", "command": "echo it is Monday"}, {"matcher": "resume", "command": "echo no"}],
        "UserPromptSubmit": context("UserPromptSubmit", "the branch is main"),
        "PreToolUse": context("PreToolUse", "mind the gap"),
        "PostToolUse": context("PostToolUse", "ls is slow here"),
    });
    let (seen, _) = Scene::new().run(hooks).await;
    let told = seen.told.join("");
    let context = "Context from hooks of the user:\nit is Monday\nthe branch is main";
    assert!(told.starts_with("Do it.") && told.contains(context), "{told}");
    assert_eq!(seen.results, ["done so\n\nA hook says: mind the gap\nls is slow here"]);
}

#[tokio::test]
async fn a_hook_after_a_call_reads_its_input_and_its_result() {
    let (_, scene) = Scene::new().run(hook("PostToolUse", &keeping("post"))).await;
    let inputs = scene.inputs("post");
    assert_eq!(inputs.len(), 1);
    assert_eq!(inputs[0]["tool_input"], json!({"command": "ls"}));
    assert_eq!(inputs[0]["tool_response"], json!({"content": "done so"}));
    assert!(inputs[0]["duration_ms"].is_u64());
}

/// An answer with two calls, then one without.
fn two_calls() -> Scene {
    let script = Script::new()
        .turn(|turn| turn.call("shell", json!({"command": "ls"})).call("shell", json!({"wrong": 1})))
        .turn(|turn| turn.text("Done."));
    Scene { script, ..Scene::new() }
}

#[tokio::test]
async fn a_hook_of_a_batch_reads_all_calls_with_what_ran_and_adds_context() {
    let output =
        json!({"hookSpecificOutput": {"hookEventName": "PostToolBatch", "additionalContext": "test it"}});
    let changed = allowing(&json!({"command": "pwd"}));
    let hooks = json!({
        "PreToolUse": [{"command": changed}],
        "PostToolBatch": [{"command": format!("cat >> batch; echo '{output}'")}],
    });
    let (seen, scene) = two_calls().run(hooks).await;
    let inputs = scene.inputs("batch");
    assert_eq!((inputs.len(), seen.requests, seen.is_ok), (1, 2, true), "{:?}", seen.notices);
    assert_eq!(inputs[0]["hook_event_name"], "PostToolBatch");
    let calls = inputs[0]["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2);
    assert_eq!(
        (&calls[0]["tool_name"], &calls[0]["tool_input"]),
        (&json!("shell"), &json!({"command": "pwd"}))
    );
    assert_eq!(calls[0]["tool_response"], "done so");
    assert!(calls[0]["tool_use_id"].is_string() && calls[0]["tool_use_id"] != calls[1]["tool_use_id"]);
    assert_eq!(calls[1]["tool_input"], json!({"wrong": 1}), "one that never ran, as the model wrote it");
    assert!(seen.told.join("").contains("A hook says: test it"), "{:?}", seen.told);
}

#[tokio::test]
async fn a_hook_of_a_batch_stops_the_run_before_the_next_request() {
    let stop = printing(&json!({"continue": false, "stopReason": "enough"}));
    for command in ["echo enough >&2; exit 2", stop.as_str()] {
        let (seen, _) = two_calls().run(hook("PostToolBatch", command)).await;
        assert_eq!((seen.ran.len(), seen.requests, seen.is_ok), (1, 1, false), "{command}");
        assert!(seen.abort_reason.is_some_and(|reason| reason.contains("enough")), "{command}");
    }
    let (seen, _) = two_calls().run(hook("PostToolBatch", "exit 1")).await;
    assert!(seen.is_ok && seen.notices.iter().any(|notice| notice.contains("PostToolBatch")));
}

#[tokio::test]
async fn a_hook_of_a_batch_from_claude_s_settings_reads_the_names_of_claude_code() {
    let source = HookSource { place: "settings.json".into(), is_claude: true, may_allow: false };
    let (_, scene) = Scene { source, ..two_calls() }.run(hook("PostToolBatch", &keeping("batch"))).await;
    assert_eq!(scene.inputs("batch")[0]["tool_calls"][0]["tool_name"], "Bash");
}

#[tokio::test]
async fn a_hook_that_never_lets_a_run_end_is_not_asked_for_ever() {
    let mut script = Script::new();
    for _ in 0..20 {
        script = script.turn(|turn| turn.text("Done."));
    }
    let scene = Scene { script, ..Scene::new() };
    let (seen, scene) = scene.run(hook("Stop", "cat >> stop; echo more >&2; exit 2")).await;
    let inputs = scene.inputs("stop");
    assert_eq!((seen.is_ok, seen.requests, inputs.len()), (true, 9, 9));
    assert!(inputs[0]["stop_hook_active"] == false && inputs[0]["last_assistant_message"] == "Done.");
    assert!(inputs[1..].iter().all(|input| input["stop_hook_active"] == true));
    assert!(seen.notices.iter().any(|notice| notice.contains("it ends now")), "{:?}", seen.notices);
}

#[tokio::test]
async fn words_to_the_person_are_handed_to_the_host_and_a_stop_is_told() {
    let (seen, _) =
        Scene::new().run(hook("PostToolUse", &printing(&json!({"systemMessage": "look here"})))).await;
    assert!(seen.notices.iter().any(|notice| notice.ends_with(": look here")), "{:?}", seen.notices);
    let stop = printing(&json!({"continue": false, "stopReason": "out of hours"}));
    let (seen, _) = Scene::new().run(hook("PreToolUse", &stop)).await;
    assert!(seen.ran.is_empty() && seen.abort_reason.is_some_and(|reason| reason.contains("out of hours")));
}

fn request(by_rule: bool) -> PermissionRequest {
    let call = CallRef {
        turn_id: TurnId::fresh(),
        call_id: CallId::from("c1"),
        name: "shell".into(),
        display_name: "shell".into(),
    };
    PermissionRequest {
        call: Arc::new(call),
        args: json!({"command": "ls"}),
        effects: Effects::Unknown,
        by_rule,
    }
}

#[tokio::test]
async fn a_hook_answers_for_the_person_unless_it_is_a_project_s() {
    let answer = |behavior: &str| {
        printing(&json!({"hookSpecificOutput": {"decision": {"behavior": behavior, "message": "not now"}}}))
    };
    let deny = || Some(PermissionReply::Deny { reason: "not now".into() });
    let (yes, no) = (answer("allow"), answer("deny"));
    for (command, may_allow, expected) in [
        (&*yes, true, Some(PermissionReply::Allow)),
        (&yes, false, None),
        (&no, true, deny()),
        (&no, false, deny()),
        ("exit 0", true, None),
        ("echo not now >&2; exit 2", true, deny()),
    ] {
        let scene = Scene::new();
        let source = HookSource { may_allow, ..scene.source.clone() };
        let set = HookSet::read(&hook("PermissionRequest", command), source).unwrap();
        scene.bus.install(&CommandHooks::new(set, scene.path())).unwrap();
        assert_eq!(scene.bus.cx().emit(request(false)).await.unwrap(), expected, "{command}");
    }
    for fault in ["exit 1", "echo yes", "kill -9 $$"] {
        let scene = Scene::new();
        let set = HookSet::read(&hook("PermissionRequest", fault), scene.source.clone()).unwrap();
        scene.bus.install(&CommandHooks::new(set, scene.path())).unwrap();
        let reply = scene.bus.cx().emit(request(false)).await.unwrap();
        assert!(matches!(reply, Some(PermissionReply::Deny { .. })), "{fault}: {reply:?}");
    }
}

#[tokio::test]
async fn what_a_hook_allowed_before_the_call_needs_no_person_but_where_a_rule_asks() {
    for (may_allow, by_rule, is_allowed) in [(true, false, true), (true, true, false), (false, false, false)]
    {
        let scene = Scene::new();
        let allow = printing(&json!({"hookSpecificOutput": {"permissionDecision": "allow"}}));
        let source = HookSource { may_allow, ..scene.source.clone() };
        let set = HookSet::read(&hook("PreToolUse", &allow), source).unwrap();
        scene.bus.install(&CommandHooks::new(set, scene.path())).unwrap();
        let (cx, request) = (scene.bus.cx(), request(by_rule));
        let (call, args) = (request.call.clone(), request.args.clone());
        cx.emit(ToolPrepare { call, args, rewritten_by: None }).await.unwrap();
        let reply = cx.emit(request.clone()).await.unwrap();
        assert_eq!(reply.is_some(), is_allowed, "{may_allow} {by_rule}");
        let other = PermissionRequest { args: json!({"command": "rm"}), ..request };
        assert_eq!(cx.emit(other).await.unwrap(), None, "other arguments are another call");
    }
}

#[tokio::test]
async fn conversations_that_begin_and_end_are_told_with_their_ids() {
    let scene = Scene::new();
    let hooks = json!({
        "SessionStart": [{"command": keeping("start")}],
        "SessionEnd": [{"command": keeping("end")}],
    });
    let (_, scene) = scene.run(hooks.clone()).await;
    assert_eq!(scene.inputs("start")[0]["source"], "startup");
    assert_eq!(scene.inputs("end")[0]["reason"], "other");
    let set = HookSet::read(&hooks, scene.source.clone()).unwrap();
    scene.bus.install(&CommandHooks::new(set, scene.path())).unwrap();
    scene.bus.scope("session").provide_service(Arc::new(SessionId::from("s1")));
    let cx = scene.bus.cx();
    let input = || zk_core::events::Input {
        text: "Hi.".into(),
        images: Vec::new(),
        handled: false,
        added: Vec::new(),
    };
    cx.emit(input()).await.unwrap();
    let to = Some(SessionId::from("s2"));
    cx.emit(SessionSwitch { from: Some(SessionId::from("s1")), to, entries: Arc::default() }).await.unwrap();
    cx.emit(input()).await.unwrap();
    let said = |name: &str, field: &str| {
        let inputs = scene.inputs(name);
        inputs
            .iter()
            .skip(1)
            .map(|input| (input["session_id"].clone(), input[field].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(said("start", "source"), [(json!("s1"), json!("startup")), (json!("s2"), json!("clear"))]);
    assert_eq!(said("end", "reason"), [(json!("s1"), json!("clear"))]);
}

#[tokio::test]
async fn a_hook_can_keep_a_conversation_as_long_as_it_is() {
    let trigger = CompactionTrigger::Manual;
    let compact = || SessionBeforeCompact { session_id: None, tokens: 5, instructions: None, trigger };
    for (command, cancels) in [("exit 0", false), ("echo not yet >&2; exit 2", true), ("exit 1", true)] {
        let scene = Scene::new();
        let set = HookSet::read(&hook("PreCompact", command), scene.source.clone()).unwrap();
        scene.bus.install(&CommandHooks::new(set, scene.path())).unwrap();
        let reply = scene.bus.cx().emit(compact()).await.unwrap();
        assert_eq!(reply.is_some_and(|reply| reply.cancel), cancels, "{command}");
    }
}

/// Polls `done` until it holds; fails the test after 20 s.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if done() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen");
}

#[tokio::test]
async fn a_person_who_is_waited_for_is_told_elsewhere() {
    let scene = Scene::new();
    let set = HookSet::read(&hook("Notification", "cat > new && mv new told"), scene.source.clone()).unwrap();
    scene.bus.install(&CommandHooks::new(set, scene.path())).unwrap();
    let questions = Arc::new(zk_core::service::Questions::new());
    scene.bus.scope("terminal").provide_service(questions.clone());
    assert_eq!(scene.bus.cx().emit(request(false)).await.unwrap(), None);
    assert!(!scene.path().join("told").exists(), "nobody is there to be waited for");
    let _front_end = questions.attach();
    assert_eq!(scene.bus.cx().emit(request(false)).await.unwrap(), None);
    until("the notification", || scene.path().join("told").exists()).await;
    let input = &scene.inputs("told")[0];
    assert_eq!(input["notification_type"], "permission_prompt");
    assert!(input["message"].as_str().unwrap().contains("shell"), "{input}");
}

#[tokio::test]
async fn what_is_left_out_of_requests_by_itself_is_told() {
    let scene = Scene::new();
    let set = HookSet::read(&hook("PreCompact", &keeping("compact")), scene.source.clone()).unwrap();
    scene.bus.install(&CommandHooks::new(set, scene.path())).unwrap();
    let reduced = zk_core::events::ContextReduced {
        turn_id: TurnId::fresh(),
        strategy: "tail".into(),
        messages: 2,
        results: 0,
        before: 9,
        after: 5,
    };
    scene.bus.cx().emit(reduced.clone()).await.unwrap();
    assert_eq!(scene.inputs("compact")[0]["trigger"], "auto");
    // Hooks that were asked beforehand are not told once more.
    let before = SessionBeforeCompact {
        session_id: None,
        tokens: 5,
        instructions: None,
        trigger: CompactionTrigger::Hard,
    };
    let cx = scene.bus.cx().for_turn("t9");
    assert_eq!(cx.emit(before).await.unwrap(), None);
    let reduced = zk_core::events::ContextReduced { turn_id: TurnId::from("t9"), ..reduced };
    cx.emit(reduced).await.unwrap();
    let triggers: Vec<_> =
        scene.inputs("compact").into_iter().map(|input| input["trigger"].clone()).collect();
    assert_eq!(triggers, ["auto", "auto"]);
}

#[tokio::test]
async fn calls_of_sub_agents_pass_the_same_hooks() {
    use zk_core::events::{GateDecision, ToolGate};
    use zk_core::service::CallPlace;

    let scene = Scene::new();
    let set =
        HookSet::read(&hook("PreToolUse", "cat >> pre; echo no >&2; exit 2"), scene.source.clone()).unwrap();
    scene.bus.install(&CommandHooks::new(set, scene.path())).unwrap();
    let cx = scene.bus.child("helper").cx();
    let PermissionRequest { call, args, .. } = request(false);
    cx.emit(ToolPrepare { call: call.clone(), args: args.clone(), rewritten_by: None }).await.unwrap();
    let place = CallPlace { cx: cx.clone(), cwd: scene.path().to_path_buf() };
    let tool: Arc<dyn zk_core::service::Tool> = Arc::new(super::Recording::of_nobody());
    let passed = ToolGate::new(call, args, Some(tool), place).pass(&cx).await.unwrap();
    assert!(matches!(passed, GateDecision::Refused { reason, .. } if reason == "no"));
    let inputs = scene.inputs("pre");
    assert_eq!((inputs.len(), &inputs[0]["agent_id"]), (1, &json!("helper")));
}

#[tokio::test]
async fn a_hook_that_wants_a_person_asked_comes_before_the_last_word_whoever_is_installed_first() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use zk_core::events::{GateDecision, ToolGate};
    use zk_core::kernel::Stage;
    use zk_core::service::CallPlace;

    for hooks_are_first in [true, false] {
        let scene = Scene::new();
        let asks = printing(&json!({"hookSpecificOutput": {"permissionDecision": "ask"}}));
        let set = HookSet::read(&hook("PreToolUse", &asks), scene.source.clone()).unwrap();
        let hooks = CommandHooks::new(set, scene.path());
        if hooks_are_first {
            scene.bus.install(&hooks).unwrap();
        }
        let last_words = Arc::new(AtomicUsize::new(0));
        let counted = last_words.clone();
        scene.bus.scope("gate").on_sync_at(Stage::Late, move |_: &ToolGate, _: &Cx| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        if !hooks_are_first {
            scene.bus.install(&hooks).unwrap();
        }
        let cx = scene.bus.cx();
        let PermissionRequest { call, args, .. } = request(false);
        cx.emit(ToolPrepare { call: call.clone(), args: args.clone(), rewritten_by: None }).await.unwrap();
        let place = CallPlace { cx: cx.clone(), cwd: scene.path().to_path_buf() };
        let tool: Arc<dyn zk_core::service::Tool> = Arc::new(super::Recording::of_nobody());
        let passed = ToolGate::new(call, args, Some(tool), place).pass(&cx).await.unwrap();
        let nobody = |reason: &str| reason.contains("nobody is here to be asked");
        assert!(matches!(&passed, GateDecision::Refused { reason, .. } if nobody(reason)), "{passed:?}");
        assert_eq!(last_words.load(Ordering::Relaxed), 0, "hooks first: {hooks_are_first}");
    }
}

#[tokio::test]
async fn a_text_typed_into_a_run_passes_the_hooks_of_prompts_too() {
    let behind = |bus: &zk_core::kernel::Bus| {
        bus.scope("person").on_sync(|before: &zk_core::events::ToolBefore, cx: &Cx| {
            let _ = before;
            let run = cx.service::<dyn zk_core::service::RunControl>().unwrap();
            run.steer(zk_core::model::Message::injected("the password", "steer")).unwrap();
            run.steer(zk_core::model::Message::injected("be brief", "steer")).unwrap();
        });
    };
    let guard = "grep -q password && { echo 'not that' >&2; exit 2; }; echo the branch is main";
    let (seen, _) = Scene { behind, ..Scene::new() }.run(hook("UserPromptSubmit", guard)).await;
    let told = seen.told.join("\n");
    assert!(told.contains("be brief") && !told.contains("password"), "{told}");
    assert_eq!(
        told.matches("the branch is main").count(),
        2,
        "with the prompt and with what was typed: {told}"
    );
    assert!(seen.notices.iter().any(|notice| notice.contains("not that")), "{:?}", seen.notices);
}

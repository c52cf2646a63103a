//! A gate that fails in any way means no: nothing runs past it.

use serde_json::json;

use super::{Scene, hook};

/// A command that fails, and what is said of that.
const FAULTS: [(&str, &str, &str); 26] = [
    ("exit 1", "cat >/dev/null; echo 'no luck' >&2; exit 1", "ended with exit code 1 (it said: no luck)"),
    ("exit 3", "exit 3", "ended with exit code 3"),
    ("exit 126", "/dev/null", "ended with exit code 126"),
    ("exit 127", "no-such-program --at-all", "ended with exit code 127"),
    ("panic", "echo \"thread 'main' panicked\" >&2; exit 101", "ended with exit code 101"),
    ("abort", "kill -ABRT $$", "was ended by signal 6"),
    ("killed", "kill -9 $$", "was ended by signal 9"),
    ("terminated", "kill -TERM $$", "was ended by signal 15"),
    ("time-out", "sleep 60", "did not end within 1s"),
    ("time-out after a yes", "echo '{}'; sleep 60", "did not end within 1s"),
    ("closed input and a time-out", "exec 0<&-; sleep 60", "did not end within 1s"),
    ("closed pipes and a time-out", "exec 0<&- 1>&- 2>&-; sleep 60", "did not end within 1s"),
    ("closed pipes and an error", "exec 0<&- 1>&- 2>&-; exit 9", "ended with exit code 9"),
    ("words", "echo allow", "`allow` is no JSON object"),
    ("half JSON", r#"printf '{"hookSpecificOutput":{"perm'"#, "EOF while parsing"),
    ("JSON and more", r"echo '{} {}'", "trailing characters"),
    ("an array", "echo '[]'", "is no JSON object"),
    ("no text", r"printf '\377\376'", "it is not UTF-8"),
    ("zero bytes", r"printf '\0'", "is no JSON object"),
    ("huge output", "head -c 3000000 /dev/zero | tr '\\0' x", "more than 1048576 bytes"),
    ("a wrong type", r#"echo '{"continue":"yes"}'"#, "invalid type"),
    ("an unknown decision", r#"echo '{"decision":"maybe"}'"#, "unknown variant `maybe`"),
    (
        "an unknown permission",
        r#"echo '{"hookSpecificOutput":{"permissionDecision":"alow"}}'"#,
        "unknown variant `alow`",
    ),
    (
        "an answer to be",
        r#"echo '{"hookSpecificOutput":{"permissionDecision":"defer"}}'"#,
        "unknown variant `defer`",
    ),
    ("an answer later", r#"echo '{"async":true,"asyncTimeout":5}'"#, "answers later"),
    (
        "an answer to something else",
        r#"echo '{"hookSpecificOutput":{"hookEventName":"PostToolUse","permissionDecision":"allow"}}'"#,
        "it answers `PostToolUse`",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_runs_past_a_hook_that_fails() {
    for (fault, command, said) in FAULTS {
        let (seen, _) = Scene::new().run(hook("PreToolUse", command)).await;
        assert!(seen.ran.is_empty(), "{fault}: it ran");
        assert_eq!(seen.refused.len(), 1, "{fault}: {seen:?}");
        assert!(
            seen.refused[0].contains(said) && seen.refused[0].contains("the hook `"),
            "{fault}: {seen:?}"
        );
        assert!(seen.is_ok && seen.requests == 2, "{fault}: the model is told, and goes on: {seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_prompt_is_sent_past_a_hook_that_fails() {
    for (fault, command, said) in FAULTS {
        // Words are context for the model.
        if command.starts_with("echo allow") || command.contains("[]") || command.contains("\\0") {
            continue;
        }
        let (seen, _) = Scene::new().run(hook("UserPromptSubmit", command)).await;
        assert_eq!((seen.requests, seen.ran.len()), (0, 0), "{fault}");
        // The two that answer about calls say nothing of a prompt.
        let notice = seen.notices.join("\n");
        assert!(notice.contains("blocked by hook"), "{fault}: {notice}");
        assert!(notice.contains(said) || command.contains("hookEventName"), "{fault}: {notice}");
    }
}

#[tokio::test]
async fn no_call_runs_past_a_hook_that_nothing_can_start_or_that_is_no_command() {
    let scene = Scene { bus: zk_core::kernel::Bus::new(), ..Scene::new() };
    let (seen, _) = scene.run(hook("PreToolUse", "exit 0")).await;
    assert!(seen.ran.is_empty() && seen.refused[0].contains("no plugin provides `Exec`"), "{seen:?}");
    for entry in [
        json!({"type": "http", "url": "http://127.0.0.1:1"}),
        json!({"type": "prompt", "prompt": "ok?"}),
        json!({"type": "command", "command": "exit 0", "async": true}),
    ] {
        let (seen, _) = Scene::new().run(json!({"PreToolUse": [{"hooks": [entry]}]})).await;
        assert!(seen.ran.is_empty() && seen.refused[0].contains("cannot be run"), "{seen:?}");
    }
}

#[tokio::test]
async fn one_hook_that_fails_outweighs_all_that_allow() {
    let allow = r#"echo '{"hookSpecificOutput":{"permissionDecision":"allow"}}'"#;
    let hooks = json!({"PreToolUse": [{"command": allow}, {"command": "exit 1"}, {"command": "exit 0"}]});
    let (seen, _) = Scene::new().run(hooks).await;
    assert!(seen.ran.is_empty() && seen.refused[0].contains("exit code 1"), "{seen:?}");
}

#[tokio::test]
async fn calls_are_refused_while_hooks_are_reloaded() {
    use std::sync::Arc;

    use zk_core::events::{GateDecision, ToolGate, ToolPrepare};
    use zk_core::kernel::EmitError;
    use zk_core::model::{CallId, CallRef, TurnId};
    use zk_core::service::CallPlace;
    use zk_hooks::{CommandHooks, HookSet};

    let scene = Scene::new();
    let set = HookSet::read(&hook("PreToolUse", "cat >/dev/null; exit 0"), scene.source.clone()).unwrap();
    let plugin = CommandHooks::new(set, scene.path());
    let cx = scene.bus.cx();
    let call = Arc::new(CallRef {
        turn_id: TurnId::fresh(),
        call_id: CallId::from("c1"),
        name: "shell".into(),
        display_name: "shell".into(),
    });
    let prepare = || ToolPrepare { call: call.clone(), args: json!({"command": "ls"}), rewritten_by: None };
    let gate = || {
        let place = CallPlace { cx: cx.clone(), cwd: scene.path().to_path_buf() };
        ToolGate::new(call.clone(), json!({"command": "ls"}), None, place)
    };
    let installed = scene.bus.install(&plugin).unwrap();
    cx.emit(prepare()).await.unwrap();
    assert!(matches!(gate().pass(&cx).await.unwrap(), GateDecision::Approved(_)));
    let tombstones = installed.suspend().await;
    for _ in 0..3 {
        assert!(matches!(cx.emit(prepare()).await, Err(EmitError::Hook(_))), "nobody prepares it");
        assert!(matches!(gate().pass(&cx).await, Err(EmitError::Hook(_))), "nobody judges it");
    }
    tombstones.discard();
}

//! The recorded behaviour of Claude Code 2.1.329, case by case, beside what zk does. Where they differ, `docs/hooks.md`
//! says so.

use serde_json::{Value, json};

use super::{Scene, Seen, printing};

/// Fate of the one call of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Runs,
    /// The call runs with other arguments.
    RunsChanged,
    Refused,
    /// The call is refused, and the run ends.
    Stopped,
    /// No model is asked.
    NoPrompt,
    /// The call runs, and the model is told something below its result.
    RunsWithFeedback,
    /// The call runs, and the model gets another result.
    ResultReplaced,
    /// The call runs, and the model has to go on.
    GoesOn,
}

use Fate::*;

/// A case: its name, the event, the command, what Claude Code does, what zk does.
struct Case(&'static str, &'static str, String, Fate, Fate);

fn specific(fields: &Value) -> String {
    let mut specific = json!({"hookEventName": "PreToolUse"});
    let (Value::Object(all), Value::Object(more)) = (&mut specific, fields.clone()) else {
        return String::new();
    };
    all.extend(more);
    printing(&json!({"hookSpecificOutput": specific}))
}

fn cases() -> Vec<Case> {
    let (pre, post, prompt, stop) = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop");
    let once = |then: &str| format!("[ -e ran ] && exit 0; touch ran; {then}");
    let block = json!({"decision": "block", "reason": "because"});
    vec![
        Case("exit 0", pre, "exit 0".into(), Runs, Runs),
        Case("exit 0 and words", pre, "echo fine".into(), Runs, Refused),
        Case("an unknown permission", pre, specific(&json!({"permissionDecision": "maybe"})), Runs, Refused),
        Case("exit 2", pre, "echo because >&2; exit 2".into(), Refused, Refused),
        Case("exit 1", pre, "exit 1".into(), Runs, Refused),
        Case(
            "deny",
            pre,
            specific(&json!({"permissionDecision": "deny", "permissionDecisionReason": "because"})),
            Refused,
            Refused,
        ),
        Case("allow", pre, specific(&json!({"permissionDecision": "allow"})), Runs, Runs),
        Case(
            "ask, and nobody to ask",
            pre,
            specific(&json!({"permissionDecision": "ask"})),
            Refused,
            Refused,
        ),
        Case(
            "allow and changed input",
            pre,
            specific(&json!({"permissionDecision": "allow", "updatedInput": {"command": "pwd"}})),
            RunsChanged,
            RunsChanged,
        ),
        Case("block, the old way", pre, printing(&block), Refused, Refused),
        Case(
            "continue false",
            pre,
            printing(&json!({"continue": false, "stopReason": "because"})),
            Runs,
            Stopped,
        ),
        Case("unknown fields", pre, printing(&json!({"suppressOutput": true, "new": 1})), Runs, Runs),
        Case("prompt, exit 2", prompt, "echo because >&2; exit 2".into(), NoPrompt, NoPrompt),
        Case("prompt, block", prompt, printing(&block), NoPrompt, NoPrompt),
        Case("prompt, exit 1", prompt, "exit 1".into(), Runs, NoPrompt),
        Case("result, block", post, printing(&block), RunsWithFeedback, RunsWithFeedback),
        Case("result, exit 2", post, "echo because >&2; exit 2".into(), RunsWithFeedback, RunsWithFeedback),
        Case("result, exit 1", post, "exit 1".into(), Runs, Runs),
        Case("result, words", post, "echo because".into(), Runs, Runs),
        Case(
            "another result",
            post,
            printing(
                &json!({"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": "masked"}}),
            ),
            ResultReplaced,
            ResultReplaced,
        ),
        Case("stop, exit 2", stop, once("echo because >&2; exit 2"), GoesOn, GoesOn),
        Case("stop, block", stop, once(&printing(&block)), GoesOn, GoesOn),
        Case("stop, exit 1", stop, "exit 1".into(), Runs, Runs),
    ]
}

fn fate(seen: &Seen) -> Fate {
    let ran = seen.ran.first();
    let result = seen.results.first().map_or("", String::as_str);
    match ran {
        None if seen.requests == 0 => NoPrompt,
        None if !seen.is_ok => Stopped,
        None => Refused,
        Some(args) if *args != json!({"command": "ls"}) => RunsChanged,
        Some(_)
            if seen.requests == 3 && seen.told.iter().any(|text| text == "Stop hook feedback: because") =>
        {
            GoesOn
        }
        Some(_) if result == "masked" => ResultReplaced,
        Some(_) if result == "done so\n\nA hook says: because" => RunsWithFeedback,
        // The last request of a run that went on has no results.
        Some(_) if result == "done so" => Runs,
        Some(_) => panic!("{seen:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recorded_answer_has_its_effect_or_is_listed_as_a_difference() {
    let mut differences = Vec::new();
    for Case(name, event, command, claude, expected) in cases() {
        let (seen, _) = Scene::new().run(json!({ event: [{"command": command}] })).await;
        assert_eq!(fate(&seen), expected, "{name}: {seen:?}");
        if expected != NoPrompt && expected == Refused && claude == Refused {
            let said = seen.refused.join("") + &seen.results.join("");
            assert!(said.contains("because") || said.contains("ask"), "{name}: {seen:?}");
        }
        if claude != expected {
            differences.push(name);
        }
    }
    let listed = include_str!("../../../../../docs/hooks.md");
    for name in &differences {
        assert!(listed.contains(&format!("| {name} |")), "docs/hooks.md does not list `{name}`");
    }
    assert_eq!(
        differences,
        ["exit 0 and words", "an unknown permission", "exit 1", "continue false", "prompt, exit 1"]
    );
}

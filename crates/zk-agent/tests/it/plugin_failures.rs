//! A plugin that fails, at each place it can take part in: what the run does, and that the plugin is named. The
//! owner of the context window and front-ends have theirs in crates of their own.

use std::sync::{Arc, Mutex};

use serde_json::json;
use zk_core::events::{
    ContextTransform, SessionEnd, SessionMessages, SessionOpenTurn, SessionStart, StreamTransform,
    SystemTransform, ToolBegin, ToolEnd, ToolGate, ToolPrepare, ToolResultsAfter, TurnBefore,
};
use zk_core::kernel::{Answer, Bus, Cx, Event, Handler, Scope, Source, Stage};
use zk_core::model::{Approved, ErrorKind, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{RunControl, SideCall, Tool, ToolCx};
use zk_testkit::{Script, Turn};

use crate::support::{Rig, rig, rig_with};

/// Failure of a plugin.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Error,
    Panic,
    Hang,
}

const FAULTS: [(Fault, &str); 3] = [
    (Fault::Error, "the disk is full"),
    (Fault::Panic, "panicked: a bug"),
    (Fault::Hang, "no answer within 30s"),
];

impl<E: Event> Handler<E> for Fault {
    async fn call(&self, _: &E, _: &Cx) -> Answer<E> {
        match self {
            Self::Error => Err("the disk is full".into()),
            Self::Panic => panic!("a bug"),
            Self::Hang => std::future::pending().await,
        }
    }
}

/// Name of an event, and a function that registers a failing handler for it.
type Seam = (&'static str, fn(&Scope, Fault));

fn fails<E: Event>(scope: &Scope, fault: Fault) {
    scope.handle_at::<E, _>(Stage::Early, Arc::new(fault));
}

/// One call, and an end.
fn one_call() -> Script {
    Script::new().turn(|t| t.text("Look.").call("echo", json!({"text": "1"}))).turn(|t| t.text("Done."))
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_fails_refuses_the_call_and_is_named() {
    let seams: [Seam; 3] = [
        ("tool:prepare", fails::<ToolPrepare>),
        ("tool:gate", fails::<ToolGate>),
        ("tool:begin", fails::<ToolBegin>),
    ];
    for (event, install) in seams {
        for (fault, why) in FAULTS {
            let rig = rig(one_call());
            install(&rig.scope("the-guard"), fault);
            rig.run("go").await.result.unwrap();
            let result = &rig.results(2)[0];
            let names = [event, "the-guard", why].iter().all(|part| result.contains(part));
            assert!(result.starts_with("echo!: ") && names, "{event} {fault:?}: {result}");
            assert_eq!(rig.names(&["tool:before", "tool:end"]), [""; 0], "{event} {fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_stops_the_run_and_is_named() {
    let seams: [Seam; 6] = [
        ("session:start", fails::<SessionStart>),
        ("session:messages", fails::<SessionMessages>),
        ("session:open-turn", fails::<SessionOpenTurn>),
        ("tool:end", fails::<ToolEnd>),
        ("tool-results:after", fails::<ToolResultsAfter>),
        ("session:end", fails::<SessionEnd>),
    ];
    for (event, install) in seams {
        for (fault, why) in FAULTS {
            let rig = rig(one_call());
            install(&rig.scope("the-store"), fault);
            let outcome = rig.agent.run("go").unwrap().wait().await;
            let error = outcome.result.unwrap_err().to_string();
            let names = [event, "the-store", why].iter().all(|part| error.contains(part));
            assert!(names, "{event} {fault:?}: {error}");
            let requests = match event {
                "session:start" | "session:messages" => 0,
                "session:end" => 2,
                _ => 1,
            };
            assert_eq!(
                rig.provider.requests().len(),
                requests,
                "{event} {fault:?}: nothing goes on unstored"
            );
            let ran = rig.recorder.named("tool:before").len();
            assert_eq!(ran, usize::from(requests > 0 && event != "session:open-turn"), "{event} {fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_change_of_the_context_is_left_out_and_its_plugin_named() {
    let seams: [Seam; 3] = [
        ("context:transform", fails::<ContextTransform>),
        ("system:transform", fails::<SystemTransform>),
        ("stream:transform", fails::<StreamTransform>),
    ];
    for (event, install) in seams {
        for (fault, why) in FAULTS {
            let notices = Arc::new(Mutex::new(Vec::new()));
            let kept = notices.clone();
            let bus =
                Bus::builder().on_error(move |error| kept.lock().unwrap().push(error.to_string())).build();
            let rig = rig_with(one_call(), |builder| builder.bus(bus).system("Be brief."));
            install(&rig.scope("the-painter"), fault);
            let outcome = rig.run("go").await;
            outcome.result.unwrap();
            assert_eq!(outcome.text, "Done.", "{event} {fault:?}");
            let request = &rig.provider.requests()[0];
            assert_eq!((&*request.system, request.history.messages().len()), ("Be brief.", 1), "{event}");
            let notices = notices.lock().unwrap();
            let names =
                |notice: &String| [event, "the-painter", why].iter().all(|part| notice.contains(part));
            assert!(!notices.is_empty() && notices.iter().all(names), "{event} {fault:?}: {notices:?}");
        }
    }
}

/// A side call of a handler is answered with `turn`.
async fn beside(turn: impl Fn() -> Turn + Send + Sync + 'static) -> (Rig, String) {
    let script = Script::answering(move |asked| match &*asked.last_user_text() {
        "A title?" => turn(),
        _ => Turn::new().text("Done."),
    });
    let rig = rig_with(script, |builder| builder.retry(zk_agent::RetryPolicy::never()));
    let told = Arc::new(Mutex::new(String::new()));
    let kept = told.clone();
    rig.scope("titles").on_async_with(kept, async |told: &Arc<Mutex<String>>, _: &TurnBefore, cx: &Cx| {
        let run = cx.service::<dyn RunControl>().unwrap();
        let answer = run.side_call(SideCall {
            limit: std::time::Duration::from_secs(9),
            ..SideCall::new(&Source::new("titles"), "title", "A title?")
        });
        let error = answer.await.unwrap_err().to_string();
        *told.lock().unwrap() = error;
    });
    rig.run("go").await.result.unwrap();
    let told = told.lock().unwrap().clone();
    (rig, told)
}

/// Answer of a side call, and the expected report of its failure.
type Failing = (fn() -> Turn, &'static str);

#[tokio::test(start_paused = true)]
async fn a_side_call_that_fails_is_left_out_by_its_purpose_and_the_run_goes_on() {
    let answers: [Failing; 3] = [
        (|| Turn::new().text("A ").error(ErrorKind::Rejected, "not that"), "not that"),
        (|| panic!("a bug"), "the provider panicked"),
        (|| Turn::new().text("A ").hang(), "no answer to the side call `title` within 9s"),
    ];
    for (answer, why) in answers {
        let (rig, told) = beside(answer).await;
        assert!(told.contains(why), "{told}");
        let left_out = rig.recorder.named("part:left-out");
        assert_eq!(left_out.len(), 1, "{why}");
        assert_eq!(
            left_out[0],
            json!({"kind": "side_call", "name": "title", "source": "titles", "error": told})
        );
    }
}

/// Tool that panics when its spec is requested.
struct Nameless;

#[async_trait::async_trait]
impl Tool for Nameless {
    fn spec(&self) -> &Arc<ToolSpec> {
        panic!("a bug")
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(""))
    }
}

#[tokio::test]
async fn a_tool_whose_spec_panics_is_left_out_and_its_source_named() {
    let rig = rig(one_call());
    rig.scope("careless").provide::<dyn Tool>("nameless", Arc::new(Nameless)).unwrap();
    rig.run("go").await.result.unwrap();
    let changed = rig.recorder.named("tools:changed");
    let left_out = &changed[0]["left_out"][0];
    assert_eq!((&left_out["name"], &left_out["source"]), (&json!("nameless"), &json!("careless")));
    assert!(left_out["reason"].as_str().unwrap().contains("panicked"), "{left_out}");
    let offered: Vec<_> = rig.provider.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["echo", "fail"]);
}

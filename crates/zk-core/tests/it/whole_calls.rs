//! Calls outside of any agent, taken through every step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::events::{ResultPatch, ToolErrored};
use zk_core::events::{Ruling, ToolBegin, ToolEnd, ToolGate, ToolPrepare, ToolTransform};
use zk_core::kernel::{AnyEvent, Bus, Cx};
use zk_core::model::{
    Approved, CallKind, CallLocation, Concurrency, Display, Effects, ToolContent, ToolError, ToolErrorKind,
    ToolOutput, ToolSpec,
};
use zk_core::service::{
    CallPlace, FnTool, NotRun, Progress, REDACTED, Redactor, RunTool, RunTools, Tool, ToolCx, UnknownTool,
};

/// Tool that returns its text; fails or panics on request.
struct Echo(Arc<ToolSpec>);

impl Echo {
    fn tool() -> Arc<dyn Tool> {
        let schema = json!({
            "type": "object",
            "properties": { "text": { "type": "string" } },
            "required": ["text"],
        });
        Arc::new(Self(ToolSpec::new("echo", "Says it back.", schema)))
    }
}

#[async_trait]
impl Tool for Echo {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let text = call.args()["text"].as_str().unwrap_or_default();
        cx.progress.show(text);
        match text {
            "fail" => Err(ToolError::failed("it failed")),
            "panic" => panic!("on purpose"),
            text => Ok(ToolOutput::text(text)),
        }
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::Unknown
    }
}

/// A bus that notes the names of the events of tools.
fn watched() -> (Bus, Arc<Mutex<Vec<&'static str>>>) {
    let bus = Bus::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    bus.scope("watch").observe(move |event: &dyn AnyEvent, _: &Cx| {
        if event.name().starts_with("tool:") {
            noted.lock().unwrap().push(event.name());
        }
    });
    (bus, seen)
}

#[tokio::test]
async fn a_call_outside_of_an_agent_goes_through_every_step_in_order() {
    let (bus, seen) = watched();
    let scope = bus.scope("steps");
    scope.on_sync(|prepare: &ToolPrepare, _: &Cx| {
        let text = prepare.args["text"].as_str().unwrap_or_default();
        Some(json!({ "text": format!("{text}!") }))
    });
    scope.on_sync(|_: &ToolTransform, _: &Cx| {
        Some(ResultPatch { details: Some(json!("kept")), ..ResultPatch::default() })
    });
    let ended = Arc::new(Mutex::new(None));
    let kept = ended.clone();
    scope.on_sync(move |end: &ToolEnd, _: &Cx| *kept.lock().unwrap() = Some(end.clone()));
    let cx = ToolCx::new(bus.cx(), "/");
    let end = cx.run(Echo::tool(), json!({ "text": 7 })).await.unwrap();
    assert_eq!(end.details, Some(json!("kept")));
    assert_ne!(end.result.call_id, cx.call_id, "it is a call of its own");
    let told = "7!";
    assert_eq!(end.into_output().unwrap().content, ToolContent::Text(told.to_owned()));
    assert_eq!(ended.lock().unwrap().as_ref().unwrap().result.content, ToolContent::Text(told.to_owned()));
    let expected = [
        "tool:prepare",
        "tool:gate",
        "tool:begin",
        "tool:before",
        "tool:progress",
        "tool:transform",
        "tool:end",
        "tool:after",
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_call_that_a_gate_refuses_or_that_cannot_be_recorded_does_not_run() {
    let (bus, seen) = watched();
    let gate = bus.scope("gate");
    gate.on_sync(|gate: &ToolGate, _: &Cx| {
        gate.input_str("text").filter(|text| *text == "no").map(|_| Ruling::refuse("not this"))
    });
    gate.on_async(
        async |begin: &ToolBegin, _: &Cx| {
            if begin.args["text"] == "unrecorded" { Err("the disk is full") } else { Ok(()) }
        },
    );
    let cx = ToolCx::new(bus.cx(), "/");
    let refused = cx.run(Echo::tool(), json!({ "text": "no" })).await.unwrap_err();
    assert_eq!(refused, NotRun::Blocked { reason: "not this".to_owned() });
    let invalid = cx.run(Echo::tool(), json!({})).await.unwrap_err();
    assert_eq!(invalid, NotRun::Invalid { issues: vec!["`text` is required".to_owned()] });
    let unrecorded = cx.run(Echo::tool(), json!({ "text": "unrecorded" })).await.unwrap_err();
    assert!(unrecorded.to_string().contains("the disk is full"), "{unrecorded}");
    assert!(!seen.lock().unwrap().contains(&"tool:before"), "nothing ran");
    cx.cx.stop_token().cancel();
    assert_eq!(cx.run(Echo::tool(), json!({ "text": "x" })).await.unwrap_err(), NotRun::Stopped);
}

#[tokio::test]
async fn a_tool_that_fails_or_panics_has_an_end_and_a_handler_may_give_another_result() {
    let (bus, seen) = watched();
    let cx = ToolCx::new(bus.cx(), "/");
    for text in ["fail", "panic"] {
        seen.lock().unwrap().clear();
        let end = cx.run(Echo::tool(), json!({ "text": text })).await.unwrap();
        assert_eq!((end.failure, end.result.is_error), (Some(ToolErrorKind::Failed), true), "{text}");
        assert!(seen.lock().unwrap().contains(&"tool:end"), "{text}");
        assert_eq!(end.into_output().unwrap_err().kind, ToolErrorKind::Failed);
    }
    bus.scope("mend").on_sync(|_: &ToolErrored, _: &Cx| Some(ToolContent::Text("mended".to_owned())));
    let end = cx.run(Echo::tool(), json!({ "text": "fail" })).await.unwrap();
    assert_eq!(end.failure, None);
    assert_eq!(end.into_output().unwrap().content, ToolContent::Text("mended".to_owned()));
}

#[tokio::test]
async fn an_end_that_cannot_be_recorded_is_an_error() {
    let (bus, _) = watched();
    bus.scope("store").on_async(async |_: &ToolEnd, _: &Cx| Err::<(), _>("the disk is full"));
    let end = ToolCx::new(bus.cx(), "/").run(Echo::tool(), json!({ "text": "x" })).await.unwrap();
    let error = end.into_output().unwrap_err();
    assert!(error.message.contains("could not be recorded") && error.message.contains("disk"), "{error}");
}

#[derive(Default)]
struct Counted(Mutex<BTreeMap<String, u32>>);

impl RunTools for Counted {
    fn tools(&self) -> Vec<RunTool> {
        Vec::new()
    }

    fn unlock(&self, name: &str) -> Result<(), UnknownTool> {
        Err(UnknownTool { name: name.to_owned() })
    }

    fn counts(&self) -> Arc<BTreeMap<String, u32>> {
        Arc::new(self.0.lock().unwrap().clone())
    }

    fn count(&self, name: &str) {
        *self.0.lock().unwrap().entry(name.to_owned()).or_default() += 1;
    }
}

#[tokio::test]
async fn calls_that_a_tool_makes_are_counted_with_those_of_their_run() {
    let bus = Bus::new();
    bus.scope("budget").on_sync(|gate: &ToolGate, _: &Cx| {
        (gate.run_tool_counts.get("echo") == Some(&2)).then(|| Ruling::refuse("no more"))
    });
    let cx = ToolCx::new(bus.cx().with_service::<dyn RunTools>(Arc::new(Counted::default())), "/");
    let mut ran = Vec::new();
    for _ in 0..3 {
        ran.push(cx.run(Echo::tool(), json!({ "text": "x" })).await.is_ok());
    }
    assert_eq!(ran, [true, true, false]);
}

#[tokio::test]
async fn output_shown_during_a_call_has_no_secrets() {
    let bus = Bus::new();
    let redactor = Redactor::new();
    redactor.learn("sesame-open-wide-1234");
    bus.scope("redactor").provide_service(Arc::new(redactor));
    let shown = Arc::new(Mutex::new(String::new()));
    let kept = shown.clone();
    let progress = Progress::new(move |text: &str| kept.lock().unwrap().push_str(text));
    let cx = ToolCx { progress, ..ToolCx::new(bus.cx(), "/") };
    cx.run(Echo::tool(), json!({ "text": "key sesame-open-wide-1234." })).await.unwrap();
    assert_eq!(*shown.lock().unwrap(), format!("key {REDACTED}."));
}

/// Tool that overrides every method.
struct Talkative(Arc<ToolSpec>);

#[async_trait]
impl Tool for Talkative {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("called"))
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    async fn preview(&self, _: &Value, _: &CallPlace) -> Option<Display> {
        Some(Display::Line { text: "preview".to_owned() })
    }

    fn summary(&self, _: &Value) -> String {
        "summary".to_owned()
    }

    fn title(&self) -> String {
        "Talk".to_owned()
    }

    fn kind(&self) -> Option<CallKind> {
        Some(CallKind::Ask)
    }

    fn locations(&self, _: &Value) -> Vec<CallLocation> {
        vec![CallLocation { path: "a.rs".into(), line: Some(3) }]
    }

    fn prompt(&self) -> Option<&str> {
        Some("prompt")
    }

    fn starts_calls(&self) -> bool {
        true
    }

    fn failure_cancels_siblings(&self) -> bool {
        true
    }
}

/// Decorator that overrides nothing.
struct Timed(Arc<dyn Tool>);

#[async_trait]
impl Tool for Timed {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.0.spec()
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        self.0.call(call, cx).await
    }

    fn inner(&self) -> Option<&dyn Tool> {
        Some(&*self.0)
    }
}

#[tokio::test]
async fn a_decorator_forwards_all_methods_of_its_tool() {
    let tool: Arc<dyn Tool> = Arc::new(Talkative(ToolSpec::new("talk", "Talks.", json!({}))));
    let timed = Timed(tool.clone());
    let (args, place) = (json!({}), ToolCx::new(Bus::new().cx(), "/").place());
    assert_eq!(timed.concurrency(&args), tool.concurrency(&args));
    assert_eq!(timed.effects(&args, &place), tool.effects(&args, &place));
    assert_eq!(timed.preview(&args, &place).await, tool.preview(&args, &place).await);
    assert_eq!(timed.summary(&args), tool.summary(&args));
    assert_eq!((timed.title(), tool.title()), ("Talk".to_owned(), "Talk".to_owned()));
    assert_eq!(timed.kind(), tool.kind());
    assert_eq!(timed.locations(&args), tool.locations(&args));
    assert_eq!(timed.prompt(), tool.prompt());
    assert!(timed.starts_calls() && timed.failure_cancels_siblings());
    // A plain tool has the careful defaults.
    let echo = Echo::tool();
    assert_eq!(echo.concurrency(&args), Concurrency::Exclusive);
    assert!(!echo.starts_calls() && echo.preview(&args, &place).await.is_none());
}

#[tokio::test]
async fn the_title_is_announced_and_is_the_default_summary() {
    let bus = Bus::new();
    let begun = Arc::new(Mutex::new(Vec::new()));
    let noted = begun.clone();
    bus.scope("watch").on_sync(move |begin: &ToolBegin, _: &Cx| {
        noted.lock().unwrap().push((begin.title.clone(), begin.summary.clone()));
    });
    let cx = ToolCx::new(bus.cx(), "/");
    let tool = FnTool::new("roll", "Rolls.", async |_: Value, _: ToolCx| Ok("six")).reads_only();
    cx.run(Arc::new(tool.title("Dice")), json!({})).await.unwrap();
    cx.run(Echo::tool(), json!({ "text": "a" })).await.unwrap();
    let expected = [(Some("Dice".to_owned()), "Dice".to_owned()), (None, "echo".to_owned())];
    assert_eq!(*begun.lock().unwrap(), expected);
}

//! What a person reads in a question is, byte for byte, what runs.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use zk_core::events::{CallRef, Passed, ToolGate};
use zk_core::kernel::Bus;
use zk_core::model::{Approved, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{
    Approval, CallPlace, FrontEnd, Question, Questions, SectionKind, Tool, ToolCx, UiAnswer,
    text_of_visible_lines,
};
use zk_tools::{NAMES, PermissionGate, PermissionMode, ToolsOptions, ToolsPlugin};

/// How many calls are tried; the whole campaign is 10,000.
#[expect(clippy::disallowed_methods, reason = "a campaign is asked for in the environment")]
fn cases() -> u32 {
    let asked = std::env::var("ZK_CAMPAIGN_CALLS").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(100)
}

/// Mock that records its arguments under the name of a real tool.
struct RecordsArgs {
    spec: Arc<ToolSpec>,
    ran: Arc<Mutex<Vec<Value>>>,
}

#[async_trait]
impl Tool for RecordsArgs {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        self.ran.lock().unwrap().push(call.args().clone());
        Ok(ToolOutput::text("ran"))
    }
}

/// The arguments that the sections of a question show.
fn read_back(approval: &Approval) -> Value {
    let mut args = Map::new();
    for section in approval.sections() {
        let text = text_of_visible_lines(&section.lines).unwrap();
        let value = match section.kind {
            SectionKind::Text => Value::String(text),
            SectionKind::Json => serde_json::from_str(&text).unwrap(),
            SectionKind::Preview => continue,
        };
        args.insert(text_of_visible_lines(&[section.heading]).unwrap(), value);
    }
    Value::Object(args)
}

/// Text with what terminals act on, hide or reorder in it.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ -~]{0,12}",
        2 => prop::sample::select(vec![
            "\n", "\r", "\r\n", "\t", " \n", "\u{1b}P;", "\u{1b}\\", "\u{1b}[2J\u{1b}[H", "\u{9b}1A", "\u{7f}", "\0",
            "\u{202e}", "\u{2066}", "\u{200b}", "\u{200d}", "\u{feff}", "\u{ad}", "\u{3164}", "\u{180b}",
            "\u{e0041}", "\u{e0100}", "\u{2028}", "⟨U+001B⟩", "⟨", "⟩", "│ ", "? shell", "Run? [y]es", "👩\u{200d}🚀",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Arguments of any shape under the names that a tool has, and under others.
fn arguments(schema: &Value) -> impl Strategy<Value = Value> + use<> {
    let mut names: Vec<String> =
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    if names.is_empty() {
        names.push("none".to_owned());
    }
    let value = prop_oneof![
        6 => hostile().prop_map(Value::String),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        2 => prop::collection::vec(hostile(), 0..3).prop_map(|texts| json!([{ "old_string": texts }])),
    ];
    let name =
        prop_oneof![5 => prop::sample::select(names), 1 => hostile(), 1 => Just("path (JSON)".to_owned())];
    prop::collection::btree_map(name, value, 0..5).prop_map(|args| Value::Object(args.into_iter().collect()))
}

async fn approve_all(front_end: FrontEnd, shown: Arc<Mutex<Vec<Value>>>) {
    loop {
        let pending = front_end.next().await;
        if let Question::Approve(approval) = &pending.question {
            let lines = approval.sections().into_iter().flat_map(|section| section.lines);
            assert!(lines.clone().all(|line| !line.chars().any(char::is_control)));
            shown.lock().unwrap().push(read_back(approval));
        }
        front_end.answer(pending.id, pending.digest, UiAnswer::Once).unwrap();
    }
}

#[test]
fn what_ran_is_byte_for_byte_what_the_question_showed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let real = Bus::new();
    real.install(&ToolsPlugin::new(ToolsOptions::default())).unwrap();
    for name in NAMES {
        let spec = real.item::<dyn Tool>(name).unwrap().spec().clone();
        let bus = Bus::new();
        bus.install(&PermissionGate::new(PermissionMode::Ask)).unwrap();
        let questions = Arc::new(Questions::new());
        bus.scope("host").provide_service(questions.clone());
        let (shown, ran) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let approving = runtime.spawn(approve_all(questions.attach(), shown.clone()));
        let mut runner =
            TestRunner::new(Config { cases: cases().div_ceil(NAMES.len() as u32), ..Config::default() });
        runner
            .run(&arguments(&spec.schema), |args| {
                runtime.block_on(call(&bus, &spec, &ran, &args));
                let (shown, ran) = (shown.lock().unwrap().pop(), ran.lock().unwrap().pop());
                prop_assert_eq!(shown.as_ref(), Some(&args));
                prop_assert_eq!(ran, shown);
                Ok(())
            })
            .unwrap();
        approving.abort();
    }
}

/// Takes one call through its gate and runs it.
async fn call(bus: &Bus, spec: &Arc<ToolSpec>, ran: &Arc<Mutex<Vec<Value>>>, args: &Value) {
    let tool: Arc<dyn Tool> = Arc::new(RecordsArgs { spec: spec.clone(), ran: ran.clone() });
    let name = spec.name.clone();
    let call =
        Arc::new(CallRef { turn_id: "t".into(), call_id: "c".into(), display_name: name.clone(), name });
    let place = CallPlace { cx: bus.cx(), cwd: ".".into() };
    let gate = ToolGate::new(call, args.clone(), Some(tool.clone()), place);
    let Passed::Approved(approved) = gate.pass(&bus.cx()).await.unwrap() else { return };
    tool.call(&approved, &ToolCx::new(bus.cx(), ".")).await.unwrap();
}

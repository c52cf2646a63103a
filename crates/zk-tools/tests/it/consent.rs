//! Questions to a person say, byte for byte, what runs.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use zk_core::events::{CallRef, GateDecision, ToolGate};
use zk_core::kernel::Bus;
use zk_core::model::{Approved, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{
    Approval, CallPlace, Exec, ExecError, ExecRequest, Files, FrontEnd, Process, Question, Questions,
    SectionKind, Tool, ToolCx, UiAnswer, text_of_visible_lines,
};
use zk_exec::WorkspaceFiles;
use zk_permission::{Mode, PermissionGate};
use zk_tools::{NAMES, ToolsOptions, ToolsPlugin};

/// Number of calls to try; the whole campaign is 10,000.
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

/// Generates text with characters that terminals interpret, hide or reorder.
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

/// Generates arguments of any shape under the tool's names and others.
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
        bus.install(&PermissionGate::new(Mode::Ask)).unwrap();
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

/// Passes one call through its gate and runs it.
async fn call(bus: &Bus, spec: &Arc<ToolSpec>, ran: &Arc<Mutex<Vec<Value>>>, args: &Value) {
    let tool: Arc<dyn Tool> = Arc::new(RecordsArgs { spec: spec.clone(), ran: ran.clone() });
    pass_and_run(bus, &tool, args, Path::new(".")).await.unwrap();
}

async fn pass_and_run(
    bus: &Bus,
    tool: &Arc<dyn Tool>,
    args: &Value,
    cwd: &Path,
) -> Result<ToolOutput, ToolError> {
    let name = tool.spec().name.clone();
    let call =
        Arc::new(CallRef { turn_id: "t".into(), call_id: "c".into(), display_name: name.clone(), name });
    let place = CallPlace { cx: bus.cx(), cwd: cwd.into() };
    let gate = ToolGate::new(call, args.clone(), Some(tool.clone()), place);
    let GateDecision::Approved(approved) = gate.pass(&bus.cx()).await.unwrap() else {
        return Err(ToolError::failed("refused"));
    };
    tool.call(&approved, &ToolCx::new(bus.cx(), cwd)).await
}

/// Executor that records its requests and runs nothing.
#[derive(Default)]
struct NotesCommands(Mutex<Vec<ExecRequest>>);

#[async_trait]
impl Exec for NotesCommands {
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        self.0.lock().unwrap().push(request);
        let source = std::io::Error::other("noted");
        Err(ExecError::Spawn { program: "bash".into(), cwd: "/".into(), source })
    }
}

/// The calls whose effects are on the disk or in a command, with the file that they work in.
fn effective_calls() -> impl Strategy<Value = (&'static str, Value)> {
    let texts = (hostile(), hostile(), hostile());
    (0..4, texts).prop_map(|(kind, (path, old, new))| match kind {
        0 => ("shell", json!({ "command": old })),
        1 => ("write_file", json!({ "path": path, "content": new })),
        2 => ("edit", json!({ "path": "file", "old_string": old, "new_string": new })),
        _ => ("multi_edit", json!({ "path": "file", "edits": [{ "old_string": old, "new_string": new }] })),
    })
}

#[test]
fn the_command_that_runs_and_the_bytes_on_the_disk_are_those_of_the_question() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let commands = Arc::new(NotesCommands::default());
    let files = Arc::new(WorkspaceFiles::new([&root]).unwrap());
    let (bus, questions) = (Bus::new(), Arc::new(Questions::new()));
    let host = bus.scope("host");
    host.provide_service::<dyn Exec>(commands.clone());
    host.provide_service::<dyn Files>(files.clone());
    host.provide_service(questions.clone());
    bus.install(&PermissionGate::new(Mode::Ask)).unwrap();
    bus.install(&ToolsPlugin::new(ToolsOptions { read_before_edit: false, ..ToolsOptions::default() }))
        .unwrap();
    let shown = Arc::new(Mutex::new(Vec::new()));
    let approving = runtime.spawn(approve_all(questions.attach(), shown.clone()));
    let mut took_effect = [0; 2];
    let text = |args: &Value, name: &str| args[name].as_str().unwrap().to_owned();
    let mut runner = TestRunner::new(Config { cases: cases(), ..Config::default() });
    let effects = Mutex::new(&mut took_effect);
    runner
        .run(&effective_calls(), |(name, args)| {
            let old = args["old_string"].as_str().or(args["edits"][0]["old_string"].as_str());
            let before = format!("<begin>{}<end>", old.unwrap_or_default());
            std::fs::write(root.join("file"), &before).unwrap();
            let tool = bus.item::<dyn Tool>(name).unwrap();
            let result = runtime.block_on(pass_and_run(&bus, &tool, &args, &root));
            let ran = commands.0.lock().unwrap().pop();
            let Some(shown) = shown.lock().unwrap().pop() else {
                // Refused before anybody was asked.
                prop_assert!(ran.is_none() && result.is_err(), "{name} {args}");
                prop_assert_eq!(std::fs::read_to_string(root.join("file")).unwrap(), before);
                return Ok(());
            };
            match name {
                "shell" => {
                    let Some(ran) = ran else { return Ok(()) };
                    prop_assert_eq!(ran.program, "bash");
                    prop_assert_eq!(ran.args, [OsString::from("-c"), text(&shown, "command").into()]);
                    effects.lock().unwrap()[0] += 1;
                }
                "write_file" if result.is_ok() => {
                    let at = files.resolve(&root, &text(&shown, "path")).unwrap();
                    prop_assert_eq!(std::fs::read_to_string(&at.path).unwrap(), text(&shown, "content"));
                    std::fs::remove_file(&at.path).unwrap();
                    effects.lock().unwrap()[1] += 1;
                }
                "edit" | "multi_edit" if result.is_ok() => {
                    let edit = if name == "edit" { &shown } else { &shown["edits"][0] };
                    let wanted = before.replace(&text(edit, "old_string"), &text(edit, "new_string"));
                    prop_assert_eq!(std::fs::read_to_string(root.join("file")).unwrap(), wanted);
                    effects.lock().unwrap()[1] += 1;
                }
                _ => {}
            }
            Ok(())
        })
        .unwrap();
    approving.abort();
    let [commands, writes] = took_effect;
    assert!(commands > 0 && writes > 0, "{commands} commands ran and {writes} files were written");
    println!("{commands} commands and {writes} writes of {} calls", cases());
}

//! Questions that show a person, byte for byte, what runs: for the tools that no file of the workspace is
//! behind.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use zk_agent::{Agent, Behavior, SpawnOptions};
use zk_compaction::Window;
use zk_core::events::{CallRef, GateDecision, ToolGate};
use zk_core::kernel::Bus;
use zk_core::model::{Approved, Disclosure, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{
    Approval, CallPlace, FrontEnd, HostFiles, Question, Questions, SectionKind, Tool, ToolCx, UiAnswer,
    text_of_visible_lines,
};
use zk_exec::{Environment, LocalHostFiles, ProcessExec};
use zk_mcp::{McpPlugin, McpServers, ServerConfig};
use zk_permission::{Mode, PermissionGate};
use zk_skills::{SkillRoots, SkillsOptions, SkillsPlugin};
use zk_testkit::{FakeMcpScript, Script, ScriptedProvider};
use zk_tools::{FetchOptions, FetchPlugin};

/// Number of generated calls; the whole campaign has 10,000.
#[expect(clippy::disallowed_methods, reason = "a campaign is asked for in the environment")]
fn cases() -> u32 {
    let asked = std::env::var("ZK_CAMPAIGN_CALLS").ok().and_then(|count| count.parse().ok());
    asked.unwrap_or(100)
}

/// Tool that records its arguments in place of running the wrapped tool. Every call needs approval.
struct RecordsArgs {
    real: Arc<dyn Tool>,
    ran: Arc<Mutex<Vec<Value>>>,
    /// File with the arguments that the tool's server received, if it has one.
    received: Option<PathBuf>,
}

/// Returns the arguments of the only call in a file of messages, and empties the file.
fn arguments_received(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::write(file, "").unwrap();
    let messages = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut calls = messages.filter(|message| message["method"] == "tools/call");
    let call = calls.next().expect("the server received a call");
    assert!(calls.next().is_none(), "one call: {text}");
    call["params"]["arguments"].clone()
}

#[async_trait]
impl Tool for RecordsArgs {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.real.spec()
    }

    fn inner(&self) -> Option<&dyn Tool> {
        Some(&*self.real)
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::Unknown
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args = match &self.received {
            Some(received) => {
                self.real.call(call, cx).await?;
                arguments_received(received)
            }
            None => call.args().clone(),
        };
        self.ran.lock().unwrap().push(args);
        Ok(ToolOutput::text("ran"))
    }
}

/// A tool as a server describes it, whose arguments have any names.
struct Served(Arc<ToolSpec>);

#[async_trait]
impl Tool for Served {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("never called"))
    }
}

fn served() -> Arc<dyn Tool> {
    let properties = json!({"text": {"type": "string"}, "\u{202e}txet": {"type": "string"}, "a\nb": {}});
    Arc::new(Served(Arc::new(ToolSpec {
        name: "mcp_fake_echo".to_owned(),
        description: "Gives back its text".to_owned(),
        schema: json!({"type": "object", "properties": properties}),
        disclosure: Disclosure::Always,
    })))
}

/// Returns the tools of a server, the search for them and for resources, the recall of messages that left the context,
/// and the tool for structured answers; also the bus of the server, which records what it receives.
async fn of_servers(place: &Path, received: &Path) -> (Vec<Arc<dyn Tool>>, Bus) {
    let mut definition = crate::mcp::recording(&FakeMcpScript::default(), received);
    definition["disclosure"] = json!("lazy");
    let server = ServerConfig::read("fake", &definition).unwrap();
    let bus = Bus::new();
    let environment = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    bus.install(&McpPlugin::new([server], place).exec(Arc::new(ProcessExec::new(environment)))).unwrap();
    bus.install(&Window::default()).unwrap();
    bus.service::<McpServers>().unwrap().warm_up(Duration::from_secs(60)).await;
    let names =
        ["mcp_fake_echo", "tool_search", "mcp_list_resources", "mcp_read_resource", "conversation_recall"];
    let mut found: Vec<Arc<dyn Tool>> = Vec::new();
    for name in names {
        found.push(bus.item::<dyn Tool>(name).unwrap_or_else(|| panic!("there is no tool {name}")));
    }
    let provider =
        ScriptedProvider::new(Script::new().turn(|t| t.call("__output__", json!({ "value": "yes" }))));
    let answers = Behavior { schema: Some(json!({ "type": "string" })), ..Behavior::default() };
    let agent = Agent::builder(Arc::new(provider.clone())).behavior(answers).build().unwrap();
    agent.run("Is it?").unwrap().wait().await.result.unwrap();
    let requests = provider.requests();
    let spec = requests[0].tools.iter().find(|tool| tool.name == "__output__").unwrap();
    found.push(Arc::new(Served(spec.clone())));
    (found, bus)
}

/// The tools of sub-agents, of fetching and of skills, and one of a server.
async fn tools(place: &Path) -> Vec<Arc<dyn Tool>> {
    let skill = place.join("skills/release");
    std::fs::create_dir_all(skill.join("scripts")).unwrap();
    let text = "---\nname: release\ndescription: makes a release\n---\nRun scripts/tag.sh.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    std::fs::write(skill.join("scripts/tag.sh"), "#!/bin/sh\necho tagged\n").unwrap();
    let bus = Bus::new();
    bus.scope("files").provide_service::<dyn HostFiles>(Arc::new(LocalHostFiles::new()));
    bus.install(&FetchPlugin::new(FetchOptions::default())).unwrap();
    let user = vec![place.join("skills")];
    let roots = SkillRoots { cwd: place.into(), project: place.into(), user, ..SkillRoots::default() };
    let skills = SkillsPlugin::new(SkillsOptions::new(roots));
    bus.install(&skills).unwrap();
    skills.skills().reload(&bus.cx()).await.unwrap();
    let provider = Arc::new(ScriptedProvider::new(Script::new()));
    let agent = Agent::builder(provider)
        .unguarded()
        .bus(bus.clone())
        .cwd(place)
        .spawn(SpawnOptions::default())
        .build()
        .unwrap();
    let mut found = vec![served()];
    for name in ["spawn", "fetch"].into_iter().chain(zk_skills::NAMES) {
        found.push(agent.bus().item::<dyn Tool>(name).unwrap_or_else(|| panic!("there is no tool {name}")));
    }
    found
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
    let controls = vec![
        "\n",
        "\r",
        "\r\n",
        "\t",
        "\u{1b}[2J\u{1b}[H",
        "\u{1b}]52;c;eA==\u{7}",
        "\u{9b}1A",
        "\u{7f}",
        "\0",
        "\u{202e}",
        "\u{2066}",
        "\u{200b}",
        "\u{200d}",
        "\u{feff}",
        "\u{ad}",
        "\u{e0041}",
        "\u{2028}",
        "⟨U+001B⟩",
        "⟨",
        "│ ",
        "? fetch",
        "Run? [y]es",
        "$ARGUMENTS",
        "!`touch x`",
    ];
    let piece = prop_oneof![
        4 => "[ -~]{0,12}",
        2 => prop::sample::select(controls).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Arguments of any shape under the names that a tool has, and under others.
fn arguments(schema: &Value) -> impl Strategy<Value = Value> + use<> {
    let names: Vec<String> =
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let value = prop_oneof![
        6 => hostile().prop_map(Value::String),
        1 => any::<i64>().prop_map(Value::from),
        1 => Just(Value::Null),
        2 => prop::collection::vec(hostile(), 0..3).prop_map(Value::from),
        1 => hostile().prop_map(|text| json!({ "nested": { "text": text } })),
    ];
    let name = prop_oneof![5 => prop::sample::select(names), 1 => hostile()];
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
fn what_ran_is_what_the_question_showed_for_sub_agents_pages_skills_and_servers_too() {
    let place = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _within = runtime.enter();
    let root = place.path().canonicalize().unwrap();
    let mut tools = runtime.block_on(tools(&root));
    let received = root.join("received");
    let (of_servers, server) = runtime.block_on(of_servers(&root, &received));
    // The first one is called on the server, the others are not.
    let of_server = of_servers[0].clone();
    std::fs::write(&received, "").unwrap();
    tools.extend(of_servers);
    let each = cases().div_ceil(tools.len() as u32);
    for real in tools {
        let bus = Bus::new();
        bus.install(&PermissionGate::new(Mode::Ask)).unwrap();
        let questions = Arc::new(Questions::new());
        bus.scope("host").provide_service(questions.clone());
        let (shown, ran) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let approving = runtime.spawn(approve_all(questions.attach(), shown.clone()));
        let schema = real.spec().schema.clone();
        let received = Arc::ptr_eq(&real, &of_server).then_some(&*received);
        let mut runner = TestRunner::new(Config { cases: each, ..Config::default() });
        runner
            .run(&arguments(&schema), |args| {
                runtime.block_on(call(&bus, &real, &ran, received, &args));
                let (shown, ran) = (shown.lock().unwrap().pop(), ran.lock().unwrap().pop());
                prop_assert_eq!(shown.as_ref(), Some(&args), "{}", real.spec().name);
                prop_assert_eq!(ran, shown);
                Ok(())
            })
            .unwrap();
        approving.abort();
    }
    runtime.block_on(server.close());
}

/// Sends one call through its permission gate and runs it.
async fn call(
    bus: &Bus,
    real: &Arc<dyn Tool>,
    ran: &Arc<Mutex<Vec<Value>>>,
    received: Option<&Path>,
    args: &Value,
) {
    let (real, ran, received) = (real.clone(), ran.clone(), received.map(Path::to_owned));
    let tool: Arc<dyn Tool> = Arc::new(RecordsArgs { real: real.clone(), ran, received });
    let name = real.spec().name.clone();
    let call =
        Arc::new(CallRef { turn_id: "t".into(), call_id: "c".into(), display_name: name.clone(), name });
    let place = CallPlace { cx: bus.cx(), cwd: ".".into() };
    let gate = ToolGate::new(call, args.clone(), Some(tool.clone()), place);
    let GateDecision::Approved(approved) = gate.pass(&bus.cx()).await.unwrap() else { return };
    tool.call(&approved, &ToolCx::new(bus.cx(), ".")).await.unwrap();
}

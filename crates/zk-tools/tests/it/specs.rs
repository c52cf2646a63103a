use serde_json::{Value, json};
use zk_core::model::Concurrency;
use zk_core::service::{CallPlace, Tool};
use zk_tools::{NAMES, ToolsOptions, ToolsPlugin};

use crate::support::Desk;

#[tokio::test]
async fn the_specifications_are_small_and_always_the_same() {
    let all = || {
        let desk = Desk::new();
        let specs: Vec<_> =
            desk.bus.items::<dyn Tool>().iter().map(|tool| tool.value.spec().clone()).collect();
        serde_json::to_string(&specs.iter().map(|spec| &**spec).collect::<Vec<_>>()).unwrap()
    };
    let text = all();
    assert!(text.len() <= 6_200, "{} bytes: {text}", text.len());
    assert_eq!(text, all());
    for noise in ["$schema", "\"title\"", "\"format\"", "\"null\"", "$ref", "$defs"] {
        assert!(!text.contains(noise), "{noise} in {text}");
    }
}

#[tokio::test]
async fn a_schema_says_what_is_required() {
    let desk = Desk::new();
    let spec = desk.tool("multi_edit").spec().clone();
    assert_eq!(spec.schema["required"], json!(["path", "edits"]));
    assert_eq!(spec.schema["properties"]["edits"]["items"]["required"], json!(["old_string", "new_string"]));
    let spec = desk.tool("grep").spec().clone();
    assert_eq!(spec.schema["required"], json!(["pattern"]));
    assert_eq!(spec.schema["properties"]["mode"]["enum"], json!(["files", "content", "count"]));
    assert_eq!(spec.schema["properties"]["head_limit"]["type"], "integer");
}

#[tokio::test]
async fn calls_on_one_file_are_in_order_and_others_side_by_side() {
    let desk = Desk::new();
    let at = |tool: &str, path: &str| desk.tool(tool).concurrency(&json!({ "path": path }));
    let same = at("edit", "src/a.rs");
    assert!(matches!(same, Concurrency::Resources(_)));
    for spelling in ["./src/a.rs", "@src/a.rs", "src/../src/a.rs", "/repo/src/a.rs", "src/A.rs"] {
        assert_eq!(at("multi_edit", spelling), same, "{spelling}");
        assert_eq!(at("write_file", spelling), same, "{spelling}");
    }
    assert_ne!(at("edit", "src/b.rs"), same);
    assert_eq!(at("edit", ".."), Concurrency::Exclusive);
    for tool in ["read_file", "grep", "glob", "list_files"] {
        assert_eq!(at(tool, "src/a.rs"), Concurrency::Shared, "{tool}");
    }
}

#[tokio::test]
async fn only_tools_that_change_nothing_are_read_only() {
    let desk = Desk::new();
    let place = CallPlace { cx: desk.bus.cx(), cwd: ".".into() };
    let reads = |name: &str, args: Value| desk.tool(name).effects(&args, &place).is_read_only();
    let read_only: Vec<&str> = NAMES.into_iter().filter(|name| reads(name, json!({}))).collect();
    let none = [
        "ask_user",
        "glob",
        "grep",
        "list_files",
        "present_plan",
        "read_file",
        "recall",
        "todo_read",
        "todo_write",
    ];
    assert_eq!(read_only, none);
    assert!(!reads("shell", json!({ "command": "ls" })));
    let cancels: Vec<&str> =
        NAMES.into_iter().filter(|name| desk.tool(name).failure_cancels_siblings()).collect();
    assert_eq!(cancels, ["shell"]);
}

#[test]
fn a_preset_chooses_tools_by_name() {
    let bus = zk_core::kernel::Bus::new();
    let only = |names: &[&str]| ToolsOptions {
        only: Some(names.iter().map(ToString::to_string).collect()),
        ..ToolsOptions::default()
    };
    let error = bus.install(&ToolsPlugin::new(only(&["read_file", "reed_file"]))).unwrap_err();
    assert!(error.to_string().contains("there is no built-in tool `reed_file`"), "{error}");
    bus.install(&ToolsPlugin::new(only(&["shell", "grep"]))).unwrap();
    let names: Vec<String> = bus.items::<dyn Tool>().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["grep", "shell"]);
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_explained() {
    let desk = Desk::new();
    let error = desk.err("read_file", json!({ "file": "a" })).await;
    assert!(error.message.contains("do not fit read_file: missing field `path`"), "{error}");
}

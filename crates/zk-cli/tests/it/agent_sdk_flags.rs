//! Flags of the Agent SDKs: those that act, those that are told about, and those that end the start.

use std::os::unix::net::UnixStream;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use zk_testkit::Script;

use crate::agent_sdk::{Host, touching};
use crate::zk::{Person, program, server, until};

/// Returns the messages to the host beside the conversation.
fn told(host: &Host) -> String {
    let told = host.seen.iter().filter(|line| line["subtype"] == "informational");
    told.filter_map(|line| line["content"].as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_start_whose_flags_cannot_be_kept_ends_with_the_reason() {
    let person = Person::new();
    for (args, why) in [
        (&["--plugin-dir-no-mcp", "p"] as &[&str], "with its MCP servers"),
        (
            &["--permission-prompt-tool", "mcp__far__ask"],
            "it is no tool of a server in the SDK's own process",
        ),
        (&["--max-turns", "many"], "--max-turns many: this is no such number"),
        (&["--settings", "missing.json"], "--settings missing.json"),
        (
            &["--settings", "{\"permissions\": {\"deny\": \"Bash\"}}"],
            "`permissions.deny` of --settings is no list",
        ),
        (&["--managed-settings", "{\"env\": {}}"], "a manager's settings count as a whole"),
        (&["--mcp-config", "missing.json"], "--mcp-config missing.json"),
        (&["--json-schema", "{"], "--json-schema is no JSON object"),
        (&["--agent", "nobody"], "there is no such agent"),
    ] {
        let mut host = Host::start(&person, args);
        host.send(
            &json!({"type": "control_request", "request_id": "r", "request": {"subtype": "initialize"}}),
        );
        let result = host.result();
        assert!(result["errors"][0].as_str().unwrap_or_default().contains(why), "{args:?}: {result}");
        assert_eq!(host.end().0, 1, "{args:?}");
    }
}

#[test]
fn settings_of_a_file_act_and_what_has_no_effect_is_told() {
    let models = server(touching("a.txt"));
    let person = Person::asking(&models);
    let settings = json!({"permissions": {"allow": ["Bash(touch:*)"]}, "env": {"A": "b"}});
    person.write("host.json", &settings.to_string());
    let flags = ["--settings", "host.json", "--fallback-model", "other", "--new-flag"];
    let mut host = Host::start(&person, &flags);
    host.initialize(json!({}));
    host.prompt("Go.");
    assert_eq!(host.result()["subtype"], "success");
    assert!(person.project().join("a.txt").exists());
    let told = told(&host);
    for sentence in [
        "`env` of --settings has no effect",
        "--fallback-model has no effect: zk stays",
        "--new-flag has no effect: zk does not know it",
    ] {
        assert!(told.contains(sentence), "{told}");
    }
    host.end();
}

#[test]
fn rules_and_hooks_of_settings_refuse_what_a_host_allows() {
    let rules = json!({"permissions": {"deny": ["Bash(touch:*)"]}});
    let hook = json!({"type": "command", "command": "echo not with this hook >&2; exit 2"});
    let hooks = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}});
    let named = json!({"disallowedTools": ["Bash(touch:*)"]});
    let wrapped = |settings: &Value| vec!["--settings".to_owned(), settings.to_string()];
    for (args, first, why) in [
        (wrapped(&rules), json!({}), ""),
        (wrapped(&hooks), json!({}), "not with this hook"),
        (Vec::new(), json!({"managedSettings": rules}), ""),
        (Vec::new(), json!({"settings": hooks}), "not with this hook"),
        (Vec::new(), named, ""),
    ] {
        let models = server(touching("a.txt"));
        let person = Person::asking(&models);
        let args: Vec<&str> =
            args.iter().map(String::as_str).chain(["--permission-mode", "bypassPermissions"]).collect();
        let mut host = Host::start(&person, &args);
        host.initialize(first);
        host.prompt("Go.");
        host.result();
        let result = host.tool_result();
        assert_eq!(result["is_error"], true, "{args:?}: {result}");
        assert!(result["content"].to_string().contains(why), "{args:?}: {result}");
        assert!(!person.project().join("a.txt").exists(), "{args:?}");
        host.end();
    }
}

/// Settings with a hook that leaves a file beside the project, and refuses.
fn judging() -> String {
    let hook = json!({"type": "command", "command": "pwd > ../judged; echo not now >&2; exit 2"});
    json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}).to_string()
}

#[test]
fn hooks_of_a_host_run_on_this_machine_where_commands_run_elsewhere() {
    let far = Person::new();
    let socket = far.home().join("zk.sock");
    let listen = format!("unix:{}", socket.display());
    let mut serving = far.spawn(program(), &["exec-server", "--listen", &listen], Stdio::null());
    until("the server listening", || UnixStream::connect(&socket).is_ok());
    let models = server(touching("a.txt"));
    let near = Person::asking(&models).with("ZK_CONTEXT", &format!("remote:{listen}"));
    let mut host = Host::start(&near, &["--settings", &judging(), "--permission-mode", "bypassPermissions"]);
    host.initialize(json!({}));
    host.prompt("Go.");
    host.result();
    assert!(host.tool_result()["content"].to_string().contains("not now"), "{}", host.tool_result());
    let judged = std::fs::read_to_string(near.project().join("../judged")).unwrap();
    assert_eq!(judged.trim(), near.project().to_str().unwrap());
    assert!(!far.project().join("../judged").exists() && !far.project().join("a.txt").exists());
    host.end();
    kill_process(Pid::from_child(&serving), Signal::TERM).unwrap();
    serving.wait().unwrap();
}

#[test]
fn hooks_of_a_host_run_outside_of_the_sandbox_that_holds_commands() {
    let models = server(touching("a.txt"));
    let person = Person::asking(&models).with("ZK_CONTEXT", "sandbox");
    if person.run(&["-p", "x", "--allow-all"]).code == 2 {
        println!("skipped: no sandbox here");
        return;
    }
    let models = server(touching("a.txt"));
    let person = Person::asking(&models).with("ZK_CONTEXT", "sandbox");
    let mut host = Host::start(&person, &["--settings", &judging()]);
    host.initialize(json!({}));
    host.prompt("Go.");
    host.result();
    assert!(person.project().join("../judged").exists(), "{}", host.tool_result());
    host.end();
}

#[test]
fn files_that_a_host_named_count_as_they_were_at_the_start() {
    let script = Script::new()
        .turn(|turn| turn.text("Hello."))
        .turn(|turn| turn.call_as("toolu_1", "Bash", json!({"command": "touch a.txt"})))
        .turn(|turn| turn.text("Done."));
    let models = server(script);
    let person = Person::asking(&models);
    let deny = json!({"permissions": {"deny": ["Bash(touch:*)"]}}).to_string();
    for (file, text) in
        [("mcp.json", r#"{"mcpServers": {}}"#), ("host.json", &deny), ("system.txt", "A parrot.")]
    {
        person.write(file, text);
    }
    let args = ["--mcp-config", "mcp.json", "--settings", "host.json", "--system-prompt-file", "system.txt"];
    let mut host = Host::start(&person, &[&args[..], &["--permission-mode", "bypassPermissions"]].concat());
    host.initialize(json!({}));
    host.prompt("Go.");
    host.result();
    let servers =
        json!({"mcpServers": {"new": {"command": "sh", "args": ["-c", "touch started"]}}}).to_string();
    for (file, text) in [("mcp.json", servers.as_str()), ("host.json", "{}"), ("system.txt", "A cat.")] {
        person.write(file, text);
    }
    host.prompt("/clear");
    host.result();
    host.prompt("Go.");
    host.result();
    assert_eq!(host.tool_result()["is_error"], true, "{}", host.tool_result());
    host.end();
    assert!(!person.project().join("started").exists() && !person.project().join("a.txt").exists());
    assert!(models.bodies()[1]["system"].to_string().contains("A parrot."));
}

#[test]
fn a_plugin_that_changed_is_not_used_again() {
    let models = server(Script::new().turn(|turn| turn.text("Hello.")).turn(|turn| turn.text("Again.")));
    let person = Person::asking(&models);
    person.write("demo/.claude-plugin/plugin.json", r#"{"name": "demo"}"#);
    person.write("demo/commands/hello.md", "Say hello.");
    let mut host = Host::start(&person, &["--plugin-dir", "demo"]);
    host.initialize(json!({}));
    host.prompt("/clear");
    let cleared = host.result();
    assert!(!cleared.to_string().contains("changed since"), "{cleared}");
    person.write("demo/hooks/hooks.json", r#"{"hooks": {}}"#);
    host.prompt("/clear");
    let kept = host.result();
    assert!(kept["result"].to_string().contains("changed since"), "{kept}");
    host.end();
}

#[test]
fn a_tool_of_the_host_answers_questions_where_it_is_named() {
    for (behavior, is_made) in [("allow", true), ("deny", false)] {
        let models = server(touching("a.txt"));
        let person = Person::asking(&models);
        person.write("servers.json", r#"{"mcpServers": {"own": {"type": "sdk", "name": "own"}}}"#);
        let args = ["--mcp-config", "servers.json", "--permission-prompt-tool", "mcp__own__ask"];
        let mut host = Host::start(&person, &args);
        let manifest = json!({"own": {"initializeResult": {}, "toolsListResult": {"tools": []}}});
        host.initialize(json!({"sdkMcpServerManifests": manifest}));
        host.prompt("Go.");
        let asked = host.request("mcp_message");
        let message = &asked["request"]["message"];
        assert_eq!((&message["method"], &message["params"]["name"]), (&json!("tools/call"), &json!("ask")));
        assert_eq!(message["params"]["arguments"]["tool_name"], "Bash");
        let text = json!({"behavior": behavior, "message": "not now"}).to_string();
        let result = json!({"content": [{"type": "text", "text": text}]});
        host.answer(
            &asked,
            json!({"mcp_response": {"jsonrpc": "2.0", "id": message["id"], "result": result}}),
        );
        host.result();
        assert_eq!(person.project().join("a.txt").exists(), is_made);
        host.end();
    }
}

#[test]
fn strict_servers_plugins_and_prompts_of_files_are_those_that_the_host_names() {
    let models = server(Script::new().turn(|turn| turn.text("Done.")));
    let person = Person::asking(&models);
    person.settings("[mcp.servers.mine]\ncommand = \"/nonexistent/server\"\n");
    person.write("demo/.claude-plugin/plugin.json", r#"{"name": "demo"}"#);
    person.write("demo/commands/hello.md", "Say hello.");
    person.write("system.txt", "You are a parrot.");
    let args = [
        "--strict-mcp-config",
        "--plugin-dir",
        "demo",
        "--system-prompt-file",
        "system.txt",
        "--agent",
        "flier",
    ];
    let mut host = Host::start(&person, &args);
    let agent = json!({"description": "flies", "prompt": "You fly.", "tools": ["Read"]});
    let welcome = host.initialize(json!({"agents": {"flier": agent}}));
    let commands = welcome["response"]["response"]["commands"].to_string();
    assert!(commands.contains("demo:hello"), "{commands}");
    host.prompt("Go.");
    host.result();
    assert!(!told(&host).contains("mine"), "{}", told(&host));
    let body = &models.bodies()[0];
    assert!(body["system"].to_string().contains("You are a parrot."), "{}", body["system"]);
    let offered: Vec<&str> =
        body["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(offered.contains(&"Read") && !offered.contains(&"Bash"), "{offered:?}");
    host.end();
}

#[test]
fn a_host_that_wants_no_questions_gets_none() {
    let models = server(touching("a.txt"));
    let person = Person::asking(&models);
    let mut host = Host::start(&person, &["--permission-prompt-tool", "stdio"]);
    host.initialize(json!({}));
    let mode = json!({"subtype": "set_permission_mode", "mode": "dontAsk"});
    host.send(&json!({"type": "control_request", "request_id": "mode", "request": mode}));
    host.until(|line| line["response"]["request_id"] == "mode");
    host.prompt("Go.");
    host.result();
    assert!(host.tool_result()["content"].to_string().contains("dontAsk"));
    assert!(host.seen.iter().all(|line| line["request"]["subtype"] != "can_use_tool"));
    assert!(!person.project().join("a.txt").exists());
    host.end();
}

#[test]
fn a_plan_only_reads_until_the_host_approves_it() {
    let write = |id: &'static str| {
        move |turn: zk_testkit::Turn| turn.call_as(id, "Write", json!({"file_path": "p.txt", "content": "x"}))
    };
    let script = Script::new()
        .turn(write("toolu_1"))
        .turn(|turn| turn.call_as("toolu_2", "ExitPlanMode", json!({"plan": "write it"})))
        .turn(write("toolu_3"))
        .turn(|turn| turn.text("Done."));
    let models = server(script);
    let person = Person::asking(&models);
    let args = ["--permission-prompt-tool", "stdio", "--permission-mode", "plan"];
    let mut host = Host::start(&person, &args);
    host.initialize(json!({}));
    host.prompt("Go.");
    let asked = host.request("can_use_tool");
    assert_eq!(asked["request"]["tool_name"], "ExitPlanMode", "what changes something is refused before");
    assert!(!person.project().join("p.txt").exists());
    host.answer(&asked, json!({"behavior": "allow"}));
    let changed = host.until(|line| line["subtype"] == "status");
    assert_eq!(changed["permissionMode"], "default");
    let asked = host.request("can_use_tool");
    assert_eq!(asked["request"]["tool_name"], "Write");
    host.answer(&asked, json!({"behavior": "allow"}));
    assert_eq!(host.result()["subtype"], "success");
    assert!(person.project().join("p.txt").exists());
    host.end();
    let first = models.bodies()[0].to_string();
    assert!(
        first.contains("show the plan with `ExitPlanMode`") && !first.contains("present_plan"),
        "{first}"
    );
    assert!(!models.bodies()[3].to_string().contains("plan mode: calls"), "the plan is over");
}

#[test]
fn commands_stay_in_the_sandbox_that_a_host_needs_or_do_not_run() {
    let call =
        |id: &'static str, args: Value| move |turn: zk_testkit::Turn| turn.call_as(id, "Bash", args.clone());
    let script = || {
        Script::new()
            .turn(call("toolu_1", json!({"command": "touch inside; touch ../beside"})))
            .turn(call(
                "toolu_2",
                json!({"command": "touch ../let-out", "outside": {"reason": "it wants to"}}),
            ))
            .turn(|turn| turn.text("Done."))
    };
    let needed = json!({"sandbox": {"enabled": true}}).to_string();
    let open = json!({"sandbox": {"enabled": true, "allowUnsandboxedCommands": true}}).to_string();
    let probe = Person::new().with("ZK_CONTEXT", "sandbox");
    let is_held = !probe.run(&["-p", "x"]).stderr.contains("sandbox");
    for (settings, is_let_out) in [(&needed, false), (&open, true)] {
        if !is_held {
            println!("skipped: no sandbox here");
            break;
        }
        let models = server(script());
        let person = Person::asking(&models);
        // The person's own context is that of a machine without a sandbox.
        let args = ["--settings", settings, "--permission-prompt-tool", "stdio"];
        let mut host = Host::start(&person, &args);
        host.initialize(json!({}));
        host.prompt("Go.");
        loop {
            let line =
                host.until(|line| line["type"] == "result" || line["request"]["subtype"] == "can_use_tool");
            if line["type"] == "result" {
                break;
            }
            host.answer(&line, json!({"behavior": "allow"}));
        }
        let beside = |file: &str| person.project().join("..").join(file).exists();
        assert!(person.project().join("inside").exists(), "{:#?}", host.seen);
        assert!(!beside("beside"));
        assert_eq!(beside("let-out"), is_let_out, "{:#?}", host.seen);
        let refused = host.seen.iter().any(|line| line.to_string().contains("want every command in it"));
        assert_eq!(refused, !is_let_out);
        host.end();
    }
    let person = Person::new().with("ZK_CONTEXT", "docker:none");
    let mut host = Host::start(&person, &["--settings", &needed]);
    host.send(&json!({"type": "control_request", "request_id": "r", "request": {"subtype": "initialize"}}));
    let result = host.result();
    assert!(result["errors"][0].as_str().unwrap().contains("run them in docker:none"), "{result}");
    assert_eq!(host.end().0, 1);
}

#[test]
fn hooks_that_a_host_switched_off_do_not_run_and_those_of_its_manager_do() {
    let refusing = |word: &str| {
        let hook = json!({"type": "command", "command": format!("echo {word} >&2; exit 2")});
        json!({"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]})
    };
    let off = json!({"disableAllHooks": true, "hooks": refusing("of-the-host")}).to_string();
    let managed = json!({"hooks": refusing("of-the-manager")}).to_string();
    for (more, is_made) in [(vec![], true), (vec!["--managed-settings", managed.as_str()], false)] {
        let models = server(touching("a.txt"));
        let person = Person::asking(&models);
        person.settings(
            "[[hooks.PreToolUse]]\nmatcher = \"*\"\ncommand = \"echo of-the-person >&2; exit 2\"\n",
        );
        person.write("demo/.claude-plugin/plugin.json", r#"{"name": "demo"}"#);
        let of_bundle = json!({"hooks": refusing("of-the-bundle")}).to_string();
        person.write("demo/hooks/hooks.json", &of_bundle);
        let args = ["--settings", &off, "--plugin-dir", "demo", "--permission-mode", "bypassPermissions"];
        let mut host = Host::start(&person, &[&args[..], &more].concat());
        let callbacks = json!({"PreToolUse": [{"matcher": null, "hookCallbackIds": ["hook_0"]}]});
        host.initialize(json!({"hooks": callbacks}));
        host.prompt("Go.");
        let is_callback = |line: &Value| line["request"]["subtype"] == "hook_callback";
        loop {
            let line = host.until(|line| line["type"] == "result" || is_callback(line));
            if line["type"] == "result" {
                break;
            }
            host.answer(&line, json!({}));
        }
        assert_eq!(person.project().join("a.txt").exists(), is_made, "{}", host.tool_result());
        if !is_made {
            assert!(host.tool_result()["content"].to_string().contains("of-the-manager"));
        }
        // Callbacks are the host's own code.
        assert!(host.seen.iter().any(is_callback), "{:#?}", host.seen);
        host.end();
    }
}

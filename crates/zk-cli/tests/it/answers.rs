use std::process::Stdio;

use serde_json::{Value, json};
use zk_core::model::{ErrorKind, StopReason, Usage, context_size};
use zk_testkit::{Script, Turn};

use crate::zk::{Person, program, server};

fn hello() -> Script {
    Script::new().turn(|t| t.text("Hello, world.").usage(Usage { input: 10, output: 4, ..Usage::default() }))
}

#[test]
fn text_is_the_answer_and_nothing_else() {
    let server = server(hello());
    let ended = Person::asking(&server).run(&["-p", "hi"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "Hello, world.\n", ""));
    assert_eq!(server.violations(), []);
}

#[test]
fn the_other_dialect_answers_too() {
    let server = server(hello());
    let person = Person::new().with("OPENAI_BASE_URL", &server.openai_url()).with("OPENAI_API_KEY", "k");
    let ended = person.run(&["-p", "hi", "--model", "m"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Hello, world.\n"), "{}", ended.stderr);
    assert_eq!(server.violations(), []);
}

#[test]
fn an_answer_that_is_not_whole_says_why() {
    for (stop, why) in [
        (
            StopReason::MaxTokens,
            "zk: hit the output limit (thinking counts): the answer is cut; raise it with --max-tokens",
        ),
        (StopReason::Other("mystery".to_owned()), "ended it with `mystery`"),
        (StopReason::EndTurn, "the model's answer is empty"),
    ] {
        let answer = if stop == StopReason::EndTurn { "" } else { "Hello, wor" };
        let turn = Turn::new().text(answer).stop(stop);
        let server = server(Script::answering(move |_| turn.clone()));
        let ended = Person::asking(&server).run(&["-p", "hi"]);
        assert_eq!((ended.code, ended.stdout.trim_end()), (0, answer), "{}", ended.stderr);
        assert!(ended.stderr.contains(why) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
    }
}

#[test]
fn json_says_that_an_answer_was_cut_or_is_empty() {
    for (turn, subtype, told) in [
        (Turn::new().text("Hello, wor").stop(StopReason::MaxTokens), "max_tokens", "--max-tokens"),
        (Turn::new(), "empty", "the model's answer is empty"),
    ] {
        let server = server(Script::answering(move |_| turn.clone()));
        let ended = Person::asking(&server).run(&["-p", "hi", "--output-format", "json"]);
        assert_eq!((ended.code, &ended.result()["subtype"]), (0, &json!(subtype)), "{}", ended.stderr);
        assert!(ended.stderr.contains(told), "{}", ended.stderr);
    }
}

#[test]
fn json_and_text_agree_on_the_answer() {
    let script = || {
        Script::new()
            .turn(|t| t.text("One.").call("list_files", json!({"path": "."})))
            .turn(|t| t.text("Two."))
    };
    let (first, second) = (server(script()), server(script()));
    let text = Person::asking(&first).run(&["-p", "x"]).stdout;
    let json = Person::asking(&second).run(&["-p", "x", "--output-format", "json"]).result();
    assert_eq!(json["result"], text.trim_end());
}

#[test]
fn json_is_one_object() {
    let server = server(hello());
    let ended = Person::asking(&server).run(&["-p", "hi", "--output-format", "json"]);
    assert_eq!((ended.code, ended.lines().len()), (0, 1), "{}", ended.stderr);
    let result = ended.result();
    assert_eq!(result["result"], "Hello, world.");
    assert_eq!(result["is_error"], false);
    assert_eq!(result["stop_reason"], "end_turn");
    assert_eq!(result["turns"], 1);
    assert_eq!((&result["usage"]["input"], &result["usage"]["output"]), (&json!(10), &json!(4)));
    assert!(result["session_id"].as_str().unwrap().starts_with("s_"));
    assert!(result["cost"].is_number() && result["duration_ms"].is_number());
    assert_eq!(result.get("error"), None);
    assert_eq!(result["subtype"], "success");
}

#[test]
fn what_a_model_without_a_price_costs_is_not_nothing() {
    let server = server(hello());
    let args = ["-p", "hi", "--model", "lab-1", "--output-format", "json"];
    let result = Person::asking(&server).run(&args).result();
    assert_eq!((&result["turns"], &result["cost"]), (&json!(1), &Value::Null));
}

#[test]
fn stream_json_is_a_line_for_each_event_and_the_result_last() {
    let script = Script::new()
        .turn(|t| t.text("Let me look.").call("read_file", json!({"path": "a.txt"})))
        .turn(|t| t.text("It says x."));
    let server = server(script);
    let person = Person::asking(&server);
    person.write("a.txt", "x\n");
    let ended = person.run(&["-p", "read a.txt", "--output-format", "stream-json"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let lines = ended.lines();
    let first = &lines[0];
    assert_eq!(
        (&first["type"], &first["subtype"], &first["protocol"]),
        (&json!("system"), &json!("init"), &json!(1))
    );
    assert_eq!(first["cwd"], person.project().to_str().unwrap());
    assert_eq!(first["version"], env!("CARGO_PKG_VERSION"));
    assert!(first["tools"].as_array().unwrap().contains(&json!("read_file")));
    let result = ended.result();
    assert_eq!((&result["turns"], &result["session_id"]), (&json!(2), &first["session_id"]));

    let types: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    let at = |name: &str| {
        types.iter().position(|seen| *seen == name).unwrap_or_else(|| panic!("{name}: {types:?}"))
    };
    let order = [
        "session:start",
        "agent:start",
        "turn:before",
        "stream:start",
        "stream:text",
        "turn:after",
        "tool:before",
        "tool:after",
        "tool-results:after",
        "agent:done",
        "session:end",
        "result",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{types:?}");
    for heavy in ["context:transform", "system:transform", "provider:payload"] {
        assert!(!types.contains(&heavy), "{heavy}");
    }
    let text: String = lines
        .iter()
        .filter(|line| line["type"] == "stream:text")
        .map(|line| line["delta"].as_str().unwrap())
        .collect();
    assert_eq!(text, "Let me look.It says x.");
    assert!(lines.iter().all(|line| line.get("agent").is_none()), "no sub-agent was asked");
}

#[test]
fn text_mode_prints_the_final_answer_alone() {
    let script = Script::new()
        .turn(|t| t.text("One.").call("list_files", json!({"path": "."})))
        .turn(|t| t.text("Two."));
    let ended = Person::asking(&server(script)).run(&["-p", "x"]);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("Two.\n", ""));
}

#[test]
fn tool_calls_are_told_on_standard_error_when_asked_for() {
    let script = Script::new()
        .turn(|t| t.text("One.").call("list_files", json!({"path": "."})))
        .turn(|t| t.text("Two."));
    let ended = Person::asking(&server(script)).run(&["-p", "x", "-v"]);
    assert_eq!(ended.stdout, "Two.\n");
    assert!(ended.stderr.starts_with("One.\n● "), "{}", ended.stderr);
    assert!(ended.stderr.contains('✓'), "{}", ended.stderr);
}

/// The text of the user's messages in the first request.
fn asked(server: &zk_testkit::FakeServer) -> String {
    let body = &server.bodies()[0];
    let messages = body["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].to_string()).collect()
}

#[test]
fn the_prompt_may_come_from_standard_input() {
    let server = server(hello());
    let ended = Person::asking(&server).run_with(&["-p"], "from a pipe\n");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(asked(&server).contains("from a pipe"));
}

#[test]
fn prompt_and_standard_input_go_together() {
    let server = server(hello());
    let ended = Person::asking(&server).run_with(&["-p", "explain this"], "some text\n");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(asked(&server).contains("explain this\\n\\nsome text"), "{}", asked(&server));
}

#[test]
fn a_pipe_that_stays_silent_does_not_hold_up_a_prompt() {
    let server = server(hello());
    let person = Person::asking(&server);
    let mut child = person.spawn(program(), &["-p", "hi"], Stdio::piped());
    let open = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello, world.\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing comes on standard input"));
    drop(open);
}

#[test]
fn without_permission_only_reading_tools_run_and_a_refusal_says_how_to_allow_it() {
    let script = Script::new()
        .turn(|t| {
            t.call("read_file", json!({"path": "a.txt"})).call("shell", json!({"command": "touch made"}))
        })
        .respond(|asked| Turn::new().text(asked.result_of("shell").unwrap().text));
    let server = server(script);
    let person = Person::asking(&server);
    person.write("a.txt", "x\n");
    let ended = person.run(&["-p", "x", "--output-format", "json"]);
    let result = ended.result();
    assert_eq!((ended.code, &result["is_error"]), (0, &json!(false)), "one call of the step did run");
    assert!(
        result["result"].as_str().unwrap().contains("--permission-mode all (or --allow-all)"),
        "{result}"
    );
    assert_eq!(result["denied"][0]["tool"], "shell");
    let denial = &result["permission_denials"][0];
    assert_eq!((&denial["tool"], &denial["flag"]), (&json!("shell"), &json!("--permission-mode all")));
    assert!(!person.project().join("made").exists());
}

#[test]
fn a_run_whose_last_step_was_refused_ends_with_5() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "touch made"})))
        .turn(|t| t.text("I may not."));
    let ended = Person::asking(&server(script)).run(&["-p", "x", "--output-format", "json"]);
    assert_eq!((ended.code, &ended.result()["is_error"]), (5, &json!(true)));
    let error = ended.result()["error"].as_str().unwrap().to_owned();
    assert!(error.contains("--permission-mode all would let it run"), "{error}");
}

#[test]
fn with_permission_every_tool_runs_and_no_secret_reaches_it() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({"command": "touch made; env"})))
        .respond(|asked| Turn::new().text(asked.result_of("shell").unwrap().text));
    let server = server(script);
    let person = Person::asking(&server);
    let ended = person.run(&["-p", "x", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(person.project().join("made").exists());
    assert!(ended.stdout.contains("PATH=") && !ended.stdout.contains("test-key"), "{}", ended.stdout);
}

#[test]
fn the_turn_limit_ends_with_3() {
    let server = server(Script::answering(|_| Turn::new().call("list_files", json!({"path": "."}))));
    let ended = Person::asking(&server).run(&["-p", "x", "--max-turns", "2", "--output-format", "json"]);
    let result = ended.result();
    assert_eq!((ended.code, &result["stop_reason"]), (3, &json!("turn_limit")), "{}", ended.stderr);
    assert_eq!((&result["turns"], &result["is_error"]), (&json!(2), &json!(true)));
}

#[test]
fn the_plan_preset_offers_only_reading_tools() {
    let server = server(hello());
    Person::asking(&server).run(&["-p", "x", "--preset", "plan"]);
    let tools: Vec<String> = server.bodies()[0]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    let reading = ["fetch", "glob", "grep", "list_files", "read_file", "recall", "todo_read", "todo_write"];
    assert_eq!(tools, reading);
}

fn system(body: &Value) -> String {
    body["system"].to_string()
}

#[test]
fn the_directory_stands_before_the_prompt_and_the_system_prompt_stays_small() {
    let server = server(hello());
    let person = Person::asking(&server);
    Person::run(&person, &["-p", "x"]);
    let body = &server.bodies()[0];
    let place = format!("Working directory: {}", person.project().display());
    assert!(body["messages"].to_string().contains(&place) && !system(body).contains(&place));
    let size = system(body).len() + body["tools"].to_string().len();
    assert!(size <= 8 * 1024, "{size} bytes");
}

#[test]
fn instructions_and_additions_join_the_system_prompt() {
    let server = server(hello());
    let person = Person::asking(&server);
    person.write("AGENTS.md", "Use tabs.").write(".git/HEAD", "").write("sub/AGENTS.md", "Be quick.");
    let ended =
        person.run(&["-p", "x", "--cwd", "sub", "--system", "You are S.", "--append-system", "The end."]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let prompt = system(&server.bodies()[0]);
    let places: Vec<_> =
        ["You are S.", "Use tabs.", "Be quick.", "The end."].map(|text| prompt.find(text)).into();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{prompt}");
}

#[test]
fn arguments_that_had_to_be_repaired_are_told_and_used() {
    let script = || {
        Script::new()
            .turn(|t| t.raw_call("read_file", "{\"path\": \"no\tsuch\"}"))
            .turn(|t| t.raw_call("read_file", "{\"path\": \"a.txt\"}"))
            .turn(|t| t.text("Done."))
    };
    let server = server(script());
    let person = Person::asking(&server);
    let ended = person.run(&["--verbose", "-p", "go"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Done.\n"), "{}", ended.stderr);
    let told = ended.stderr.matches("repaired characters in the arguments of read_file").count();
    assert_eq!(told, 1, "{}", ended.stderr);
}

// In each dialect, on a server that refuses what is longer than its model takes.
#[test]
fn a_conversation_over_the_window_is_sent_without_its_oldest_parts_and_told_so() {
    let script = || {
        Script::answering(|asked| {
            if context_size(&asked.messages) > 20_000 {
                return Turn::new().error(ErrorKind::ContextExceeded, "prompt is too long");
            }
            match asked.messages.iter().flat_map(|message| message.calls()).count() {
                0..=5 if asked.number <= 8 => {
                    Turn::new().call("read_file", json!({"path": format!("{}.txt", asked.number)}))
                }
                _ => Turn::new().text("Read."),
            }
        })
    };
    let book = |person: Person| {
        for page in 1..9 {
            person.write(&format!("{page}.txt"), &"words and words ".repeat(400));
        }
        person.settings("compaction.strategy = \"shorten\"\n");
        person
    };
    let server = server(script());
    let anthropic = book(Person::asking(&server));
    let ended = anthropic.run(&["-p", "read it"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Read.\n"), "{}", ended.stderr);
    let told = "zk: to make room in the context window: ";
    assert!(ended.stderr.starts_with(told), "{}", ended.stderr);
    assert!(ended.stderr.contains("results left out of requests from here on"), "{}", ended.stderr);
    assert_eq!(server.violations(), []);
    // All of the conversation is kept.
    let resumed = anthropic.run(&["--continue", "-p", "again", "--output-format", "stream-json"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    let begun = resumed.lines().into_iter().find(|line| line["type"] == "session:start").unwrap();
    assert!(begun["messages"].as_u64().unwrap() > 12, "{begun}");

    anthropic.settings("shorten = false\n");
    let ended = anthropic.run(&["--continue", "-p", "again"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("context window exceeded"), "{}", ended.stderr);

    let server = crate::zk::server(script());
    let openai = Person::new().with("OPENAI_BASE_URL", &server.openai_url()).with("OPENAI_API_KEY", "k");
    let ended = book(openai).run(&["-p", "read it", "--model", "m"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Read.\n"), "{}", ended.stderr);
    assert!(ended.stderr.starts_with(told), "{}", ended.stderr);
}

#[test]
fn a_nul_of_a_model_does_not_reach_the_reader_of_the_output() {
    let server = server(Script::answering(|_| Turn::new().text("a\0b")));
    let ended = Person::asking(&server).run(&["-p", "hi"]);
    assert_eq!((ended.code, &*ended.stdout), (0, "a\u{fffd}b\n"), "{}", ended.stderr);
}

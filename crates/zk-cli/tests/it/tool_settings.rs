//! Flags, settings and presets that say which tools there are and what becomes of their results.

use serde_json::{Value, json};
use zk_testkit::{Script, Turn};

use crate::zk::{Person, server};

/// The names of the tools in the first request of a run, and its system prompt.
fn offered(person: &Person, bodies: impl Fn() -> Vec<Value>, args: &[&str]) -> (Vec<String>, String) {
    let before = bodies().len();
    let ended = person.run(&[&["-p", "x"][..], args].concat());
    assert_eq!(ended.code, 0, "{args:?} {}", ended.stderr);
    let body = bodies()[before].clone();
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    (names, body["system"].to_string())
}

fn done() -> Script {
    Script::answering(|_| Turn::new().text("done"))
}

#[test]
fn flags_and_settings_say_which_tools_are_offered() {
    let server = server(done());
    let person = Person::asking(&server);
    let ask = |args: &[&str]| offered(&person, || server.bodies(), args).0;
    assert_eq!(ask(&["--allowed-tools", "read_file,grep"]), ["grep", "read_file"]);
    assert_eq!(ask(&["--allowed-tools", "read*", "--allowed-tools", "glob"]), ["glob", "read_file"]);
    let all = ask(&[]);
    assert!(all.contains(&"shell".to_owned()) && all.contains(&"edit".to_owned()), "{all:?}");
    let some = ask(&["--disallowed-tools", "shell,jobs"]);
    let rest: Vec<&String> = all.iter().filter(|name| !["shell", "jobs"].contains(&name.as_str())).collect();
    assert_eq!(some.iter().collect::<Vec<_>>(), rest);
    assert_eq!(ask(&["--disallowed-tools", "Bash,jobs"]), some, "as other programs call it");
    assert_eq!(ask(&["--allowed-tools", "Read,Grep"]), ["grep", "read_file"]);
    for flag in ["--disallowed-tools", "--allowed-tools"] {
        for (wrong, told) in [
            ("shel", "there is no tool `shel`; did you mean `shell`?"),
            ("shel,read_file", "there is no tool `shel`"),
            ("nosuch*", "there is no tool that begins with `nosuch`"),
            ("Bash(git:*)", "tools are named whole"),
        ] {
            let ended = person.run(&["-p", "x", flag, wrong]);
            let is_told = ended.stderr.contains(&format!("{flag}: ")) && ended.stderr.contains(told);
            assert!(ended.code == 2 && is_told, "{}: {}", ended.code, ended.stderr);
        }
        let ended = person.run(&["-p", "x", flag, "mcp__later__tool,ask_*,mcp*"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
    person.settings("[tools]\nallowed = [\"read_file\", \"edit\"]\n");
    assert_eq!(ask(&[]), ["edit", "read_file"]);
    assert_eq!(ask(&["--disallowed-tools", "edit"]), ["read_file"]);
    assert_eq!(ask(&["--allowed-tools", "glob"]), ["glob"]);
}

#[test]
fn presets_are_zks_own_or_files_and_what_is_said_beside_them_outranks_them() {
    let server = server(done());
    let person = Person::asking(&server);
    let ask = |args: &[&str]| offered(&person, || server.bodies(), args);
    for name in ["plan", "explore"] {
        let (tools, system) = ask(&["--preset", name]);
        assert!(tools.contains(&"read_file".to_owned()) && !tools.contains(&"edit".to_owned()), "{tools:?}");
        assert!(tools.contains(&"fetch".to_owned()) && !tools.contains(&"shell".to_owned()), "{tools:?}");
        assert!(system.contains("none that change anything"), "{system}");
    }
    let presets = person.home().join("presets");
    std::fs::create_dir(&presets).unwrap();
    std::fs::write(
        presets.join("review.toml"),
        "append_system = \"Look for mistakes.\"\n[tools]\nallowed = [\"read_file\", \"grep\"]\n",
    )
    .unwrap();
    let (tools, system) = ask(&["--preset", "review"]);
    assert_eq!(tools, ["grep", "read_file"]);
    assert!(system.contains("Look for mistakes."), "{system}");
    assert_eq!(ask(&["--preset", "review", "--allowed-tools", "glob"]).0, ["glob"]);
    person.settings("preset = \"review\"\n");
    assert_eq!(ask(&[]).0, ["grep", "read_file"]);
    assert!(ask(&["--preset", "build"]).0.len() > 2);
    let unknown = person.run(&["-p", "x", "--preset", "expolre"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.stderr.contains("there is no preset `expolre`")
            && unknown.stderr.contains("did you mean `explore`?")
    );
    for wrong in ["../settings", ""] {
        assert_eq!(person.run(&["-p", "x", "--preset", wrong]).code, 2, "{wrong}");
    }
}

#[test]
fn a_preset_of_the_project_counts_once_it_is_trusted_and_nothing_runs_before() {
    let server = server(done());
    let person = Person::asking(&server);
    person.write(
        ".zk/presets/review.toml",
        "[tools]\nallowed = [\"read_file\"]\n[permissions]\nmode = \"all\"\n",
    );
    let ended = person.run(&["-p", "x", "--preset", "review"]);
    assert_eq!((ended.code, server.bodies().len()), (2, 0), "{}", ended.stderr);
    assert!(ended.stderr.contains("run `zk trust add --preset review`"), "{}", ended.stderr);
    let added = person.run(&["trust", "add", "--preset", "review"]);
    assert!(added.code == 0 && added.stdout.contains(".zk/presets/review.toml: trusted"), "{}", added.stdout);
    let ended = person.run(&["-p", "x", "--preset", "review"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("`permissions.mode` is ignored"), "{}", ended.stderr);
    assert_eq!(server.bodies()[0]["tools"].as_array().unwrap().len(), 1);
}

#[test]
fn an_answer_follows_the_schema_of_a_file() {
    let script = Script::answering(|asked| match asked.tools.iter().find(|name| name.contains("output")) {
        Some(tool) => Turn::new().call(tool.as_str(), json!({ "name": "zk", "count": "3" })),
        None => Turn::new().text("{\"name\": \"zk\", \"count\": 3}"),
    });
    let server = server(script);
    let person = Person::asking(&server);
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "count": { "type": "integer" } },
        "required": ["name", "count"],
        "additionalProperties": false,
    });
    person.write("schema.json", &schema.to_string());
    let ended = person.run(&["-p", "x", "--json-schema", "schema.json"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let printed: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(printed, json!({ "name": "zk", "count": 3 }));
    let ended = person.run(&["-p", "x", "--json-schema", "schema.json", "--output-format", "json"]);
    assert_eq!(ended.result()["output"], json!({ "name": "zk", "count": 3 }));
    person.write("list.json", "{\"type\": \"array\"}").write("broken.json", "{");
    for (file, why) in
        [("list.json", "that of an object"), ("broken.json", "EOF"), ("none.json", "none.json")]
    {
        let ended = person.run(&["-p", "x", "--json-schema", file]);
        assert_eq!(ended.code, 2);
        assert!(
            ended.stderr.contains("cannot use ") && ended.stderr.contains(why),
            "{file}: {}",
            ended.stderr
        );
    }
}

#[test]
fn another_directory_can_be_worked_in() {
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = elsewhere.path().canonicalize().unwrap();
    std::fs::write(elsewhere.join("note.txt"), "found it").unwrap();
    let path = elsewhere.join("note.txt").display().to_string();
    let script = Script::answering(move |asked| match asked.results().first() {
        None => Turn::new().call("read_file", json!({ "path": path })),
        Some(result) => Turn::new().text(result.text.clone()),
    });
    let server = server(script);
    let person = Person::asking(&server);
    let ask = |args: &[&str]| person.run(&[&["-p", "x"][..], args].concat()).stdout;
    let dir = elsewhere.display().to_string();
    assert!(!ask(&[]).contains("found it"));
    assert!(ask(&["--add-dir", &dir]).contains("found it"));
    person.settings(&format!("add_dirs = [\"{dir}\"]\n"));
    assert!(ask(&[]).contains("found it"));
    assert_eq!(person.run(&["-p", "x", "--add-dir", "/nonexistent/dir"]).code, 2);
}

#[test]
fn a_call_that_repeats_the_last_gets_its_result_until_something_changes() {
    let script = Script::answering(|asked| match asked.number {
        1 | 2 | 4 => Turn::new().call("grep", json!({ "pattern": "needle" })),
        3 => Turn::new().call("write_file", json!({ "path": "b.txt", "content": "needle\n" })),
        _ => Turn::new().text("done"),
    });
    let server = server(script);
    let person = Person::asking(&server);
    person.settings("[tools]\ndedup = [\"grep\"]\n").write("a.txt", "needle\n");
    let ended = person.run(&["-p", "x", "--allow-all", "--output-format", "stream-json"]);
    let begun: Vec<Value> = ended.lines().into_iter().filter(|line| line["type"] == "tool:begin").collect();
    let names: Vec<&str> =
        begun.iter().map(|line| line["call"]["name"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["grep", "write_file", "grep"], "{}", ended.stdout);
}

#[test]
fn a_tool_over_its_budget_is_refused() {
    let script = Script::answering(|asked| match asked.number {
        1 => Turn::new().call("glob", json!({ "pattern": "*" })).call("glob", json!({ "pattern": "a*" })),
        _ => Turn::new()
            .text(asked.results().iter().map(|one| one.text.clone()).collect::<Vec<_>>().join("; ")),
    });
    let server = server(script);
    let person = Person::asking(&server);
    person.settings("[tools.budgets]\nglob = 1\n");
    let ended = person.run(&["-p", "x"]);
    assert!(
        ended.stdout.contains("`glob` was called 1 times in this run, its limit is 1"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_file_that_was_not_read_is_not_edited_if_the_settings_say_so() {
    let script = Script::answering(|asked| match asked.results().first() {
        None => {
            Turn::new().call("edit", json!({ "path": "a.txt", "old_string": "one", "new_string": "two" }))
        }
        Some(result) => Turn::new().text(result.text.clone()),
    });
    let server = server(script);
    let person = Person::asking(&server);
    for (setting, is_edited) in [("true", false), ("false", true)] {
        person.settings(&format!("[tools]\nread_before_edit = {setting}\n")).write("a.txt", "one\n");
        let ended = person.run(&["-p", "x", "--allow-all"]);
        let text = std::fs::read_to_string(person.project().join("a.txt")).unwrap();
        assert_eq!(text == "two\n", is_edited, "{setting}: {}", ended.stdout);
    }
}

#[test]
fn the_output_of_a_command_reaches_the_model_without_its_noise_unless_that_is_off() {
    let command = "for n in $(seq 200); do echo \"test module::case_$n ... ok\"; done; echo 'test result: FAILED'; # cargo";
    let script = Script::answering(move |asked| match asked.results().first() {
        None => {
            Turn::new().call("shell", json!({ "command": format!("cargo() {{ {command}\n}}; cargo test") }))
        }
        Some(result) => Turn::new().text(result.text.clone()),
    });
    let server = server(script);
    let person = Person::asking(&server);
    let text = person.run(&["-p", "x", "--allow-all"]).stdout;
    assert!(
        text.contains("[… 199 lines left out: passed tests]") && text.contains("test result: FAILED"),
        "{text}"
    );
    let cost = person.run(&["cost"]).stdout;
    assert!(
        cost.contains("outputs of commands: 6 KB became 1 KB before a model got them, 98 % less"),
        "{cost}"
    );
    let sums: Value = serde_json::from_str(&person.run(&["cost", "--json"]).stdout).unwrap();
    // The time that the command took is said as well, in more digits or fewer.
    assert!((5_720..5_740).contains(&sums[0]["output_bytes"].as_u64().unwrap()), "{sums}");
    assert!(sums[0]["output_bytes_sent"].as_u64().unwrap() < 200, "{sums}");
    person.settings("[tools]\ncompress = \"off\"\n");
    let text = person.run(&["-p", "x", "--allow-all"]).stdout;
    assert!(text.contains("case_77 ... ok"), "{text}");
}

/// Setting whose effect a text in the last calls shows.
struct Reaches {
    /// Other settings, with it and without.
    beside: &'static str,
    setting: &'static str,
    calls: Vec<(&'static str, Value)>,
    text: &'static str,
    /// Whether the text is there with the setting, and otherwise without.
    is_there: bool,
}

#[test]
fn each_setting_reaches_the_tool_it_names() {
    let read = || ("read_file", json!({ "path": "lines.txt" }));
    let shell = |command: &str| ("shell", json!({ "command": command }));
    let patient = ("shell", json!({ "command": "sleep 2", "timeout_ms": 60_000 }));
    let glob = || ("glob", json!({ "pattern": "f*.txt" }));
    let grep = || ("grep", json!({ "pattern": "needle" }));
    let row = |beside, setting, calls: Vec<(&'static str, Value)>, text, is_there| Reaches {
        beside,
        setting,
        calls,
        text,
        is_there,
    };
    let lines = "seq -f 'line %g' 400";
    let rows = [
        row("", "read_lines = 3", vec![read()], "lines 1-3 of 400", true),
        row("", "read_bytes = 64", vec![read()], "line 300", false),
        row("", "line_numbers = false", vec![read()], "7\tline 7", false),
        row("", "dedup_reads = false", vec![read(), read()], "unchanged since you read", false),
        row("", "shell_bytes = 200", vec![shell(lines)], "line 200\n", false),
        row("", "shell_footer = false", vec![shell("echo made")], "exit 0", false),
        row("", "shell_seconds = 1", vec![shell("sleep 2")], "took longer than 1000ms", true),
        row("shell_seconds = 1", "shell_seconds_max = 1", vec![patient], "took longer than 1000ms", true),
        row("shell_bytes = 500", "output_file_mb = 1", vec![shell("seq 300000")], "first 1.0 MB", true),
        row("", "grep_results = 2", vec![grep()], "f9.txt", false),
        row("", "glob_results = 2", vec![glob()], "2 newest of 9", true),
        row("", "spill_bytes = 300", vec![shell(lines)], "line 200\n", false),
        row("spill_bytes = 300", "spill_except = [\"shell\"]", vec![shell(lines)], "line 200\n", true),
        row("budgets.glob = 1", "over_budget = \"steer\"", vec![glob(), glob()], "its limit is 1", false),
        row("", "budgets.glob = 1", vec![glob(), glob()], "its limit is 1", true),
    ];
    for Reaches { beside, setting, calls, text, is_there } in rows {
        for (settings, is_expected) in [(String::new(), !is_there), (format!("{setting}\n"), is_there)] {
            let calls = calls.clone();
            let script = Script::answering(move |asked| match calls.get(asked.number - 1) {
                Some((name, args)) => Turn::new().call(*name, args.clone()),
                None => Turn::new().text(asked.results().last().unwrap().text.clone()),
            });
            let server = server(script);
            let person = Person::asking(&server);
            person.write("lines.txt", &(1..=400).map(|n| format!("line {n}\n")).collect::<String>());
            for n in 1..10 {
                person.write(&format!("f{n}.txt"), "needle\n");
            }
            person.settings(&format!("[tools]\n{beside}\n{settings}"));
            let ended = person.run(&["-p", "x", "--allow-all"]);
            // A call over its budget is refused.
            assert!(matches!(ended.code, 0 | 5), "{setting}: {}", ended.stderr);
            assert_eq!(ended.stdout.contains(text), is_expected, "{settings:?}: {}", ended.stdout);
        }
    }
}

#[test]
fn without_a_session_a_long_output_is_kept_until_the_end() {
    let script = Script::answering(|asked| match asked.results().first() {
        None => Turn::new().call("shell", json!({ "command": "echo first; seq 1 20000" })),
        Some(result) if result.tool == "shell" => {
            Turn::new().call("recall", json!({ "handle": path_in(&result.text), "limit": 1 }))
        }
        Some(_) => Turn::new().text("Done."),
    });
    let server = server(script);
    let person = Person::asking(&server);
    let ended = person.run(&["-p", "x", "--no-session", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let told = server.bodies()[2]["messages"].to_string();
    assert!(told.contains("1\\tfirst\\n"), "{told}");
    let path = path_in(&told);
    let dir = std::path::Path::new(&path).parent().unwrap();
    assert!(dir.file_name().unwrap().to_str().unwrap().starts_with("zk-") && !dir.exists(), "{path}");
}

/// The file that a result says an output is in.
fn path_in(result: &str) -> String {
    let mut words = result.split([' ', '\n', '\\', ')', ';', ',', '"', '`']);
    let is_file = |word: &&str| word.starts_with('/') && word.contains("/zk-");
    words.find(is_file).unwrap_or_else(|| panic!("no file is named in {result}")).to_owned()
}

/// A local server that can constrain an answer only in a request without tools, and a model that talks.
#[test]
fn a_model_that_only_talks_is_held_to_the_schema_where_its_server_can_do_that() {
    let script = Script::answering(|asked| match asked.tools.is_empty() {
        true => Turn::new().text("{\"capital\": \"Paris\"}"),
        false => Turn::new().text("The capital of France is Paris."),
    });
    let server = server(script);
    let person = Person::new();
    person.write(
        "schema.json",
        &json!({
            "type": "object",
            "properties": { "capital": { "type": "string" } },
            "required": ["capital"],
            "additionalProperties": false,
        })
        .to_string(),
    );
    let url = server.openai_url();
    let to = ["--provider", "llama.cpp", "--base-url", &url, "--model", "smollm2"];
    let ended =
        person.run(&[&["-p", "Capital of France?", "--json-schema", "schema.json"][..], &to].concat());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let printed: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(printed, json!({ "capital": "Paris" }));
    let bodies = server.bodies();
    let formats: Vec<&Value> = bodies.iter().map(|body| &body["response_format"]["type"]).collect();
    assert_eq!(formats, [&Value::Null, &json!("json_schema")]);
    assert_eq!(server.violations(), []);
}

#[test]
fn the_protocol_of_the_settings_is_that_of_the_requests_and_of_the_calls() {
    let args = json!({"name": "write_file", "arguments": {"path": "notes.txt", "content": "one\n"}});
    let script = Script::new().turn(|turn| turn.call("call_tool", args)).turn(|turn| turn.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    person.settings("[tools]\nprotocol = \"deferred\"\ncore = [\"read_file\"]\n");
    let ended = person.run(&["-p", "--allow-all", "--output-format", "stream-json", "write"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(person.project().join("notes.txt")).unwrap(), "one\n");
    let tools = server.bodies()[0]["tools"].to_string();
    assert!(tools.contains("\"call_tool\"") && tools.contains("\"read_file\""), "{tools}");
    assert!(!tools.contains("\"name\":\"write_file\""), "{tools}");
    let begun = ended.lines().into_iter().find(|line| line["type"] == "tool:begin").unwrap();
    assert_eq!(begun["call"]["name"], "write_file", "the real tool is judged and told");
}

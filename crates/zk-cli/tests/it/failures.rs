use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use zk_core::model::{StopReason, Usage};
use zk_testkit::{Asked, FakeServer, Fault, Script, Turn};

use crate::sessions::walk;
use crate::terminal::Terminal;
use crate::zk::{Ended, Person, program, server};

fn anything() -> Script {
    Script::answering(|_| Turn::new().text("Hello, world."))
}

/// Checks a failed run: its message on standard error, and its JSON result.
fn fails(person: &Person, code: i32, args: &[&str], words: &[&str]) -> Ended {
    let text = person.run(args);
    assert_eq!(text.code, code, "{}\n{}", text.stdout, text.stderr);
    for word in words {
        assert!(text.stderr.contains(word), "`{word}` is missing: {}", text.stderr);
    }
    let args: Vec<&str> = args.iter().copied().chain(["--output-format", "json"]).collect();
    let json = person.run(&args);
    let result = json.result();
    assert_eq!((json.code, &result["is_error"]), (code, &true.into()), "{result}");
    for word in words {
        assert!(result["error"].as_str().unwrap().contains(word), "`{word}` is missing: {result}");
    }
    text
}

#[test]
fn without_a_key_and_a_local_server_every_way_is_named() {
    for port in [8080, 11434] {
        if TcpListener::bind(("127.0.0.1", port)).is_err() {
            println!("skipped: something listens on port {port}");
            return;
        }
    }
    let ended = fails(
        &Person::new(),
        4,
        &["-p", "x"],
        &[
            "no API key found. Run `zk auth login anthropic`",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "--base-url",
            "zk demo",
        ],
    );
    assert_eq!(ended.stdout, "");
}

#[test]
fn a_wrong_key_ends_with_4_and_is_not_shown() {
    let server = FakeServer::builder(anything()).require_key("right").start().unwrap();
    let ended = fails(&Person::asking(&server), 4, &["-p", "x"], &["401"]);
    assert!(!ended.stderr.contains("test-key"), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
}

#[test]
fn an_error_says_where_when_and_what_to_do() {
    let guarded = FakeServer::builder(anything()).require_key("right").start().unwrap();
    let place = "zk: invalid API key for anthropic (401, request req_";
    let ended = fails(&Person::asking(&guarded), 4, &["-p", "x"], &["; run `zk auth login anthropic`"]);
    assert!(ended.stderr.starts_with(place), "{}", ended.stderr);

    let lost = server(anything());
    lost.fault_always(Fault::Html(404));
    let words = [
        "anthropic/claude-sonnet-5-5: request rejected (HTTP 404)",
        " ms: an HTML page",
        "check the base URL",
    ];
    fails(&Person::asking(&lost), 1, &["-p", "x"], &words);
}

#[test]
fn a_run_that_failed_or_was_cut_says_what_to_do_next_on_a_drawn_screen() {
    let usage = Usage { input: 9_000, output: 1_000, ..Usage::default() };
    let calls = move |_: &Asked| Turn::new().call("list_files", json!({ "path": "." })).usage(usage);
    let cut = Script::answering(|_| Turn::new().text("Half an answer").stop(StopReason::MaxTokens));
    for (script, key, args, words) in [
        (anything(), "other", "", "invalid API key for anthropic (401, request req_"),
        (anything(), "other", "", "; type /login anthropic, or run `zk"),
        (Script::answering(calls), "test-key", "--max-turns 1", ": --max-turns raises it"),
        (Script::answering(calls), "test-key", "--max-budget-usd 0.000001", ": --max-budget-usd raises it"),
        (cut, "test-key", "", "cut by the output limit: say `go on` for the rest"),
    ] {
        for screen in ["inline", "full"] {
            let server = FakeServer::builder(script.clone()).require_key(key).start().unwrap();
            let person = Person::asking(&server);
            let zk = program().display();
            let command = format!("stty cols 300; exec {zk} --screen {screen} {args} go");
            let Some(mut terminal) = Terminal::run(&person, &command) else { return };
            if args.contains("budget") {
                terminal.expect("3  stop here");
                // Alt-Q gives the question the keys; it hears none in its first moment.
                terminal.keys("\u{1b}q");
                std::thread::sleep(Duration::from_millis(1000));
                terminal.keys("3\r");
            }
            terminal.see(words);
        }
    }
}

#[test]
fn an_unknown_provider_gets_a_near_match() {
    fails(&Person::new(), 2, &["-p", "x", "--provider", "antropic"], &["did you mean `anthropic`?"]);
}

#[test]
fn a_server_named_with_its_address_alone_needs_no_name() {
    let args = ["-p", "x", "--provider", "foo", "--base-url", "http://127.0.0.1:1/v1"];
    fails(&Person::new(), 2, &args, &["--base-url alone is `openai_compat`"]);
}

#[test]
fn a_server_without_a_model_is_told_to_get_one() {
    let server = FakeServer::builder(anything()).models(Vec::<String>::new()).start().unwrap();
    let args = ["-p", "x", "--provider", "ollama", "--base-url", &server.url()];
    fails(&Person::new(), 2, &args, &["ollama has no model yet", "`ollama pull NAME`"]);
}

#[test]
fn an_option_of_a_provider_that_cannot_be_is_told_with_its_name_and_file() {
    let person = Person::new();
    person.settings("[providers.lab]\nbase_url = \"http://127.0.0.1:1\"\noptions = { echo = \"maybe\" }\n");
    let words = ["settings.toml: the options of lab", "`echo`: unknown variant `maybe`"];
    fails(&person, 2, &["-p", "x", "--provider", "lab"], &words);
}

#[test]
fn an_unknown_model_gets_near_matches_when_the_endpoint_rejects_it() {
    let server = FakeServer::builder(anything()).models(["claude-sonnet-4-5"]).start().unwrap();
    let person = Person::asking(&server);
    fails(&person, 2, &["-p", "x", "--model", "claude-sonet-4-5"], &["claude-sonnet-4-5"]);
    assert_eq!(person.run(&["-p", "x", "--model", "claude-sonnet-4-5"]).code, 0);
    // A name that is known, and is refused all the same, is not advised.
    let refused = person.run(&["-p", "x", "--model", "claude-opus-4-5"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("anthropic does not know claude-opus-4-5 (404"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("`claude-opus-4-5`"), "{}", refused.stderr);
}

#[test]
fn an_unreachable_host_is_named() {
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    let person = Person::new().with("ANTHROPIC_API_KEY", "k").with("ANTHROPIC_BASE_URL", &url);
    // Every attempt waits a little longer; one form of output is enough.
    let ended = person.run(&["-p", "x", "--output-format", "json"]);
    let result = ended.result();
    assert_eq!(ended.code, 1);
    assert!(result["error"].as_str().unwrap().contains(&free.port().to_string()), "{result}");
}

#[test]
fn a_prompt_that_reached_nobody_is_back_where_it_was_typed_and_leaves_no_session() {
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    let person = Person::new().with("ANTHROPIC_API_KEY", "k").with("ANTHROPIC_BASE_URL", &url);
    person.settings("[providers.anthropic]\nretry = { retries = 1 }\n");
    for screen in ["inline", "full"] {
        let Some(mut terminal) = Terminal::open(&person, &format!("--screen {screen}")) else { return };
        terminal.expect("\u{1b}[?2004h");
        terminal.keys("a thought for nobody\r");
        terminal.expect("› a thought for nobody");
        terminal.expect(&free.port().to_string());
        // If the prompt is given back before it was erased, only the cursor moves to its end.
        terminal.see_any(&["a thought for nobody", ";23H", "[23G", "[22C"]);
        terminal.keys(" yet\r");
        terminal.expect("› a thought for nobody yet");
        terminal.expect(&free.port().to_string());
        terminal.see_any(&["a thought for nobody yet", ";27H", "[27G", "[26C"]);
        terminal.keys("\u{3}");
        terminal.leave();
        assert_eq!(terminal.code(), Some(0), "{screen}");
    }
    assert!(person.run(&["sessions"]).stdout.contains("there are no sessions"));
}

#[test]
fn an_answer_that_is_html_is_told_as_such() {
    let server = server(anything());
    server.fault_always(Fault::Html(200));
    let ended = Person::asking(&server).run(&["-p", "x", "--output-format", "json"]);
    assert_eq!(ended.code, 1);
    assert!(ended.result()["error"].as_str().unwrap().contains("HTML"), "{}", ended.stdout);
}

#[test]
fn a_cut_answer_is_an_error_and_what_came_is_kept() {
    let server = server(anything());
    for request in [1, 2] {
        server.fault_on(request, Fault::CutAfterEvents(5));
    }
    let person = Person::asking(&server);
    person.settings("[providers.anthropic]\nretry = { retries = 1 }\n");
    let ended = person.run(&["-p", "x"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("zk --resume s_"), "{}", ended.stderr);
    let ended = person.run(&["-p", "again", "--continue"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Hello, world.\n"), "{}", ended.stderr);
    assert_eq!(server.violations(), []);
}

#[test]
fn what_an_answer_cost_that_broke_off_before_its_text_is_counted_stored_and_shown() {
    let usage = Usage { input: 65_432, output: 1, ..Usage::default() };
    let script =
        Script::new().turn(|t| t.text("Well.")).forever(move |_| Turn::new().text("never").usage(usage));
    let server = server(script);
    let person = Person::asking(&server);
    person.settings("[providers.anthropic]\nretry = { retries = 1 }\n");
    assert_eq!(person.run(&["-p", "x"]).code, 0);
    for request in [2, 3] {
        server.fault_on(request, Fault::CutAfterEvents(1));
    }
    let ended = person.run(&["-p", "again", "--continue", "--output-format", "json"]);
    // Both attempts cost.
    let cost = 2 * 65_432;
    assert_eq!((ended.code, &ended.result()["usage"]["input"]), (1, &cost.into()), "{}", ended.stdout);
    let mut kept = walk(&person.home()).into_iter().filter_map(|path| std::fs::read(path).ok());
    let stored = kept.any(|bytes| String::from_utf8_lossy(&bytes).contains(&cost.to_string()));
    assert!(stored, "it is in the session");
}

#[test]
fn a_base_url_that_is_none_is_wrong_usage() {
    fails(
        &Person::new(),
        2,
        &["-p", "x", "--provider", "anthropic", "--base-url", "not a url"],
        &["not a url"],
    );
}

#[test]
fn how_long_to_wait_and_how_often_to_try_is_a_setting() {
    let server = server(Script::new().forever(|_| Turn::new().text("never")));
    for number in 1..=3 {
        server.fault_on(number, Fault::HalfOpenAfterEvents(0));
    }
    let person = Person::asking(&server);
    let waits =
        "[providers.anthropic]\nclocks = { first_event = 1, liveness = 1 }\nretry = { retries = 1 }\n";
    person.settings(waits);
    let ended = person.run(&["-p", "hi"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    for text in ["`clocks` more time", " s and 2 attempts"] {
        assert!(ended.stderr.contains(text), "{text}: {}", ended.stderr);
    }
    assert_eq!(server.bodies().len(), 2);
}

#[test]
fn a_server_that_is_down_is_the_only_thing_an_early_error_tells_of() {
    let person = Person::new();
    let args = ["--provider", "llama.cpp", "--base-url", "http://127.0.0.1:9/v1", "-p", "hi"];
    let ended = person.run(&args);
    assert_ne!(ended.code, 0);
    assert!(ended.stderr.contains("list of models"), "{}", ended.stderr);
    for inner in ["the bus was dropped", "scope:close", "handler of"] {
        assert!(!ended.stderr.contains(inner), "{}", ended.stderr);
    }
}

#[test]
fn a_limit_of_file_sizes_fails_with_words_and_kills_nothing() {
    let server = server(Script::answering(|_| Turn::new().text("Hello.")));
    let person = Person::asking(&server);
    let line = "ulimit -f 0; exec \"$0\" -p hi";
    let program = program().to_str().unwrap().to_owned();
    let child = person.spawn(std::path::Path::new("/bin/bash"), &["-c", line, &program], Stdio::null());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{:?}: {stderr}", output.status);
    assert!(stderr.to_lowercase().contains("file too large"), "{stderr}");
}

//! Commands of settings files as hooks of the program.

use serde_json::json;
use zk_testkit::Script;

use crate::terminal::Terminal;
use crate::zk::{Ended, Person, server};

/// Script that writes a file, and then repeats the tool's result.
fn writing() -> Script {
    Script::new()
        .turn(|turn| turn.call("write_file", json!({"path": "out.txt", "content": "model"})))
        .turn(|turn| turn.text("Done."))
}

fn run(person: &Person, args: &[&str]) -> Ended {
    person.run(&[&["-p", "Write it."], args].concat())
}

fn written(person: &Person) -> Option<String> {
    std::fs::read_to_string(person.project().join("out.txt")).ok()
}

#[test]
fn a_hook_of_the_settings_blocks_changes_and_adds() {
    let block = r#"cat > ../seen; echo "not that file" >&2; exit 2"#;
    let change = r#"cat > ../seen
        echo '{"hookSpecificOutput":{"updatedInput":{"file_path":"out.txt","content":"hook"}}}'"#;
    for (command, content, said) in [
        (block, None, "Blocked: not that file"),
        (change, Some("hook"), "out.txt"),
        ("exit 1", None, "ended with exit code 1"),
    ] {
        let server = server(writing());
        let person = Person::asking(&server);
        person.settings(&format!("[[hooks.PreToolUse]]\nmatcher = \"Write\"\ncommand = '''{command}'''\n"));
        let ended = run(&person, &["--allow-all"]);
        assert_eq!(written(&person).as_deref(), content, "{command}\n{}", ended.stderr);
        let results = server.bodies().last().unwrap()["messages"].to_string();
        assert!(results.contains(said), "{results}");
        if command.contains("../seen") {
            let input = std::fs::read_to_string(person.project().join("../seen")).unwrap();
            let input: serde_json::Value = serde_json::from_str(&input).unwrap();
            assert_eq!(
                (&input["tool_name"], &input["permission_mode"]),
                (&json!("Write"), &json!("bypassPermissions"))
            );
            assert_eq!(input["tool_input"], json!({"file_path": "out.txt", "content": "model"}));
            assert!(input["session_id"].as_str().is_some_and(|id| !id.is_empty()), "{input}");
        }
    }
}

#[test]
fn a_prompt_that_a_hook_refuses_reaches_no_model_and_one_it_adds_to_does() {
    let server = server(Script::new().turn(|turn| turn.text("Done.")));
    let person = Person::asking(&server);
    person.settings("[[hooks.UserPromptSubmit]]\ncommand = 'echo no prompts today >&2; exit 2'\n");
    let ended = run(&person, &[]);
    assert_eq!((ended.code, server.bodies().len()), (0, 0), "{}", ended.stderr);
    assert!(ended.stderr.contains("blocked by hook: no prompts today"), "{}", ended.stderr);
    person.settings("[[hooks.UserPromptSubmit]]\ncommand = 'echo the branch is main'\n");
    assert_eq!(run(&person, &[]).code, 0);
    let told = server.bodies().last().unwrap()["messages"].to_string();
    assert!(told.contains("Write it.") && told.contains("the branch is main"), "{told}");
}

#[test]
fn a_hook_of_the_person_answers_a_question_and_one_of_the_project_does_not() {
    let allow = r#"echo '{"hookSpecificOutput":{"decision":{"behavior":"allow"}}}'"#;
    let settings = format!("[[hooks.PermissionRequest]]\ncommand = '''{allow}'''\n");
    let server_of_own = server(writing());
    let person = Person::asking(&server_of_own);
    person.settings(&settings);
    let ended = run(&person, &[]);
    assert_eq!((ended.code, written(&person).as_deref()), (0, Some("model")), "{}", ended.stderr);
    let server_of_project = server(writing());
    let person = Person::asking(&server_of_project);
    person.write(".zk/settings.toml", &settings);
    assert_eq!(person.run(&["trust", "add"]).code, 0);
    let ended = run(&person, &[]);
    assert_eq!(written(&person), None, "{}", ended.stderr);
}

#[test]
fn hooks_of_a_project_run_once_exactly_they_are_trusted() {
    let mark = "touch ../ran; cat > ../seen; exit 2";
    let toml = format!("[[hooks.PreToolUse]]\ncommand = '''{mark}'''\n");
    let claude = json!({
        "model": "opus",
        "hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": mark}]}]},
    });
    for (file, text, other) in [
        (".zk/settings.toml", toml.clone(), toml.replace("exit 2", "exit 3")),
        (".claude/settings.json", claude.to_string(), claude.to_string().replace("exit 2", "exit 3")),
    ] {
        let server = server(writing().turn(|turn| turn.text("Done.")));
        let person = Person::asking(&server);
        person.write(file, &text);
        let ran = || std::fs::remove_file(person.project().join("../ran")).is_ok();
        let ended = run(&person, &["--allow-all"]);
        assert!(!ran() && ended.stderr.contains("run `zk trust add`"), "{file}: {}", ended.stderr);
        let shown = person.run(&["trust"]).stdout;
        assert!(shown.contains(mark), "what is trusted is shown: {shown}");
        let listed = person.run(&["hooks", "list"]).stdout;
        assert!(listed.contains("not trusted") && listed.contains(mark), "{listed}");
        assert!(person.run(&["doctor"]).stdout.contains("1 of the project that are not trusted"));
        assert_eq!(person.run(&["trust", "add"]).code, 0);
        assert!(person.run(&["hooks", "list"]).stdout.contains("counts"));
        // The model's script is over; the prompt of another run begins it anew.
        let again = zk_testkit::FakeServer::start(writing()).unwrap();
        let person = person.with("ANTHROPIC_BASE_URL", &again.url());
        let ran = || std::fs::remove_file(person.project().join("../ran")).is_ok();
        run(&person, &["--allow-all"]);
        assert!(ran(), "{file}");
        let input = std::fs::read_to_string(person.project().join("../seen")).unwrap();
        assert_eq!(input.contains(r#""tool_name":"Write""#), file.contains("claude"), "{input}");
        person.write(file, &other);
        let last = zk_testkit::FakeServer::start(writing()).unwrap();
        let person = person.with("ANTHROPIC_BASE_URL", &last.url());
        run(&person, &["--allow-all"]);
        assert!(!person.project().join("../ran").exists(), "{file} changed");
    }
}

#[test]
fn no_file_takes_away_the_hooks_of_another() {
    let server = server(writing());
    let person = Person::asking(&server);
    person.settings("[[hooks.PreToolUse]]\ncommand = 'exit 2'\n");
    person.write(".zk/settings.toml", "[hooks]\nPreToolUse = []\n[[hooks.Stop]]\ncommand = 'exit 0'\n");
    assert_eq!(person.run(&["trust", "add"]).code, 0);
    run(&person, &["--allow-all"]);
    assert_eq!(written(&person), None);
}

#[test]
fn a_misspelt_hook_stops_the_start_and_one_of_claude_does_not_count() {
    let person = Person::new();
    for (text, said) in [
        ("[[hooks.PreToolUze]]\ncommand = 'x'\n", "`hooks.PreToolUze` is no event"),
        ("[[hooks.PreToolUse]]\ncomand = 'x'\n", "unknown field `comand`"),
        ("hooks = 5\n", "`hooks` must be a table"),
    ] {
        person.settings(text);
        let ended = person.run(&["config", "show"]);
        assert_eq!(ended.code, 2, "{text}");
        assert!(ended.stderr.contains(said) && ended.stderr.contains("settings.toml"), "{}", ended.stderr);
    }
    person.settings("");
    for damaged in ["{\"hooks\":", "{\"hooks\": {\"PreToolUze\": []}}", "{\"hooks\": 5}"] {
        person.write(".claude/settings.json", damaged);
        let ended = person.run(&["config", "show"]);
        assert_eq!(ended.code, 0, "{damaged}: {}", ended.stderr);
        assert!(ended.stderr.contains(".claude/settings.json do not count"), "{}", ended.stderr);
    }
}

#[test]
fn hooks_run_outside_of_the_sandbox_that_holds_commands() {
    let server = server(writing());
    let person = Person::asking(&server);
    person.settings("[[hooks.PreToolUse]]\ncommand = 'touch ../outside'\n");
    let ended = run(&person, &["--allow-all", "--context", "sandbox"]);
    if ended.code == 2 {
        println!("skipped: no sandbox here: {}", ended.stderr);
        return;
    }
    assert!(person.project().join("../outside").exists(), "{}", ended.stderr);
    assert_eq!(written(&person).as_deref(), Some("model"), "{}", ended.stderr);
}

#[test]
fn a_conversation_shows_the_commands_of_a_project_before_they_are_trusted() {
    let server = server(writing());
    let person = Person::asking(&server);
    person.write(".zk/settings.toml", "[[hooks.PreToolUse]]\ncommand = 'echo not here >&2; exit 2'\n");
    let Some(mut terminal) = Terminal::open(&person, "--allow-all 'Write it.'") else { return };
    let question = terminal.until("y  Yes, trust it");
    assert!(question.contains("hooks.PreToolUse") && question.contains("echo not here"), "{question}");
    std::thread::sleep(std::time::Duration::from_millis(1000));
    terminal.keys("y");
    terminal.expect("not here");
    terminal.expect("Done.");
    terminal.expect("› ");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    assert_eq!(written(&person), None);
}

#[test]
fn a_hook_has_a_person_asked_where_nobody_would_be() {
    let ask =
        r#"echo '{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"sure?"}}'"#;
    for (key, content) in [("y", Some("model")), ("n", None)] {
        let server = server(writing());
        let person = Person::asking(&server);
        person.settings(&format!("[[hooks.PreToolUse]]\ncommand = '''{ask}'''\n"));
        let Some(mut terminal) = Terminal::open(&person, "--allow-all 'Write it.'") else { return };
        terminal.expect("a hook wants you to decide: sure?");
        terminal.answer(key);
        terminal.expect("Done.");
        terminal.expect("› ");
        terminal.leave();
        assert_eq!(terminal.code(), Some(0));
        assert_eq!(written(&person).as_deref(), content);
        let audit = std::fs::read_dir(person.home().join("audit")).unwrap().next().unwrap().unwrap();
        let audit = std::fs::read_to_string(audit.path()).unwrap();
        let first: serde_json::Value = serde_json::from_str(audit.lines().next().unwrap()).unwrap();
        let verdict = if content.is_some() { "allow" } else { "deny" };
        assert_eq!((&first["verdict"], &first["by"]), (&json!(verdict), &json!("person")), "{audit}");
        let said = first["reasons"][0].as_str().unwrap();
        assert!(said.starts_with("a hook had a person asked: sure?"), "{audit}");
        assert_eq!(audit.matches("\"decided\"").count(), 1, "one decision, one line: {audit}");
    }
}

#[test]
fn a_hook_that_fails_while_somebody_types_leaves_the_draft_whole() {
    let script = Script::new()
        .turn(|t| t.call("shell", json!({ "command": "until [ -e typed ]; do sleep 0.05; done" })))
        .forever(|asked| zk_testkit::Turn::new().text(format!("Heard: {}.", asked.last_user_text())));
    for screen in ["inline", "full"] {
        let server = server(script.clone());
        let person = Person::asking(&server);
        person.settings("[[hooks.PostToolUse]]\ncommand = 'echo a broken hook >&2; exit 1'\n");
        let args = format!("--screen {screen} --allow-all 'go'");
        let Some(mut terminal) = Terminal::open(&person, &args) else { return };
        terminal.expect("until [ -e typed ]");
        terminal.keys("half a draft");
        terminal.expect("half a draft");
        person.write("typed", "");
        terminal.expect("a broken hook");
        terminal.expect("Heard: go.");
        terminal.expect("2 turns ·");
        terminal.keys(" and its end\r");
        terminal.expect("Heard: half a draft and its end.");
        terminal.expect("1 turn ·");
        terminal.leave();
        assert_eq!(terminal.code(), Some(0), "{screen}");
    }
}

#[test]
fn a_prompt_that_is_typed_goes_to_its_hooks_once_on_every_screen() {
    for screen in ["inline", "full", "plain"] {
        let server = server(Script::answering(|asked| {
            zk_testkit::Turn::new().text(format!("Answer-{}.", asked.messages.len()))
        }));
        let person = Person::asking(&server);
        person.settings("[[hooks.UserPromptSubmit]]\ncommand = 'echo once >> ../prompts'\n");
        let Some(mut terminal) = Terminal::open(&person, &format!("--screen {screen} 'first'")) else {
            return;
        };
        terminal.expect("Answer-1.");
        terminal.expect("1 turn ·");
        for answer in ["Answer-3.", "Answer-5."] {
            terminal.keys("typed\r");
            terminal.expect(answer);
            terminal.expect("1 turn ·");
        }
        let heard = std::fs::read_to_string(person.project().join("../prompts")).unwrap();
        assert_eq!(heard, "once\n".repeat(3), "{screen}");
        drop(terminal);
    }
}

#[test]
fn without_a_hook_its_list_is_one_line_and_names_no_source_file() {
    let listed = Person::new().run(&["hooks"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert_eq!(listed.stdout.lines().count(), 1, "{}", listed.stdout);
    assert!(
        listed.stdout.contains("no command is a hook") && !listed.stdout.contains(".rs:"),
        "{}",
        listed.stdout
    );
}

//! Named sub-agents, to-dos and the tools that ask, in the program.

use serde_json::{Value, json};
use zk_testkit::Script;

use crate::zk::{Person, server};

const CRITIC: &str =
    "---\nname: critic\ndescription: Finds what is wrong.\ntools: Read, Grep\n---\nYou are the critic.\n";

fn spawn(body: &Value) -> Value {
    let tools = body["tools"].as_array().unwrap().iter();
    tools.clone().find(|tool| tool["name"] == "spawn").cloned().unwrap_or_default()
}

fn names(body: &Value) -> Vec<&str> {
    body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn an_agent_of_the_person_is_named_and_has_the_tools_of_its_file() {
    let script = Script::new()
        .turn(|turn| turn.call("spawn", json!({"agent": "critic", "task": "look"})))
        .turn(|turn| turn.text("It is fine."))
        .turn(|turn| turn.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    let dir = person.home().join(".claude/agents");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("critic.md"), CRITIC).unwrap();
    let ended = person.run(&["-p", "Review it."]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let bodies = server.bodies();
    assert!(
        spawn(&bodies[0]).to_string().contains("- critic: Finds what is wrong."),
        "{}",
        spawn(&bodies[0])
    );
    assert!(bodies[1]["system"].to_string().contains("You are the critic."));
    for own in ["You are zk", "Nobody reads along", "Look before you act"] {
        assert!(bodies[0]["system"].to_string().contains(own), "{own}");
        assert!(!bodies[1]["system"].to_string().contains(own), "{own}: its definition says so");
    }
    assert_eq!(names(&bodies[1]), ["grep", "read_file"]);
    assert!(bodies[2]["messages"].to_string().contains("It is fine."));
}

#[test]
fn agents_of_a_project_count_once_they_are_trusted_and_are_named_until_then() {
    let script = Script::new().turn(|turn| turn.text("One.")).turn(|turn| turn.text("Two."));
    let server = server(script);
    let person = Person::asking(&server);
    person.write(".zk/agents/critic.md", CRITIC);
    let ended = person.run(&["-p", "Hello"]);
    assert!(ended.stderr.contains("agents of this project are not trusted"), "{}", ended.stderr);
    assert!(!spawn(&server.bodies()[0]).to_string().contains("critic"));
    let trusted = person.run(&["trust", "add"]);
    assert!(trusted.stdout.contains(".zk/agents/critic.md: trusted"), "{}{}", trusted.stdout, trusted.stderr);
    let ended = person.run(&["-p", "Hello"]);
    assert!(!ended.stderr.contains("not trusted"), "{}", ended.stderr);
    assert!(spawn(&server.bodies()[1]).to_string().contains("critic"));
}

#[test]
fn agents_come_from_the_command_line_too() {
    let server = server(Script::new().turn(|turn| turn.text("Done.")));
    let person = Person::asking(&server);
    let agents =
        json!({"critic": {"description": "Finds faults.", "prompt": "You are it.", "tools": ["Read"]}});
    let ended = person.run(&["-p", "x", "--agents", &agents.to_string()]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(spawn(&server.bodies()[0]).to_string().contains("- critic: Finds faults."));
    let with = |field: &str| format!("{{\"a\": {{\"description\": \"d\", \"prompt\": \"p\", {field}}}}}");
    for (given, why) in [
        ("{\"a\": 1}", "--agents: "),
        ("nowhere.json", "cannot read nowhere.json"),
        (&*with("\"thinking\": \"hihg\""), "of `a`, its `thinking` is `hihg`; there are "),
        (&*with("\"tool\": [\"Read\"]"), "unknown field `tool`"),
        (&*with("\"tools\": [\"Bash(git:*)\"]"), "its tool `Bash(git:*)` has a pattern"),
    ] {
        let ended = person.run(&["-p", "x", "--agents", given]);
        assert!(ended.code == 2 && ended.stderr.contains(why), "{}", ended.stderr);
    }
}

#[test]
fn without_a_terminal_no_tool_asks_and_a_to_do_list_comes_back_with_its_session() {
    let todos = json!({"todos": [{"content": "test it", "status": "in_progress"}]});
    let script = Script::new()
        .turn(|turn| turn.call("todo_write", todos.clone()))
        .turn(|turn| turn.text("Begun."))
        .turn(|turn| turn.text("Going on."));
    let server = server(script);
    let person = Person::asking(&server);
    assert_eq!(person.run(&["-p", "Do it."]).code, 0);
    let ended = person.run(&["-p", "Go on.", "--continue"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let bodies = server.bodies();
    let offered = names(&bodies[0]);
    assert!(offered.contains(&"todo_write") && offered.contains(&"fetch"), "{offered:?}");
    assert!(!offered.contains(&"ask_user") && !offered.contains(&"present_plan"), "{offered:?}");
    for body in [&bodies[1], &bodies[2]] {
        let told = body["messages"].as_array().unwrap().last().unwrap().to_string();
        assert!(told.contains("to-do list, 0 of 1 done: [~] test it"), "{told}");
    }
}

#[test]
fn a_page_inside_is_fetched_only_where_settings_allow_its_address() {
    let script = Script::new()
        .turn(|turn| turn.call("fetch", json!({"url": "http://127.0.0.1:9/"})))
        .turn(|turn| turn.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    let ended = person.run(&["-p", "x", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(server.bodies()[1]["messages"].to_string().contains("not a public address"));
    person.write("wrong.toml", "[fetch]\nallow = [\"localhost\"]\n");
    let ended = person.run(&["-p", "x", "--config", "wrong.toml"]);
    assert!(ended.code == 2 && ended.stderr.contains("no address with a port"), "{}", ended.stderr);
}

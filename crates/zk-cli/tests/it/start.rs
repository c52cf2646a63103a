//! Starts without a project's files, presets that add up, and prompts that are sent again.

use serde_json::json;
use zk_testkit::{Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server};

/// Words of the project's and the person's files, by which a request is known to have them.
const OF_PROJECT: [&str; 5] =
    ["settings-of-project", "agents-of-project", "skill-of-project", "agent-of-project", "prompt-of-project"];
const OF_PERSON: [&str; 3] = ["agents-of-person", "skill-of-person", "agent-of-person"];

fn skill(name: &str, words: &str) -> String {
    format!("---\nname: {name}\ndescription: {words}\n---\nDo it.\n")
}

fn agent(name: &str, words: &str) -> String {
    format!("---\nname: {name}\ndescription: {words}\n---\nYou do it.\n")
}

/// Person with parts of every kind, and a trusted project with parts of every kind.
fn furnished(person: &Person) {
    person.write("AGENTS.md", "agents-of-project\n");
    person.write(
        ".zk/settings.toml",
        "append_system = \"settings-of-project\"\n[[hooks.UserPromptSubmit]]\ncommand = 'touch ../hook-of-project'\n",
    );
    person.write(".zk/APPEND_SYSTEM.md", "prompt-of-project\n");
    person.write(".zk/skills/theirs/SKILL.md", &skill("theirs", "skill-of-project"));
    person.write(".zk/agents/theirs.md", &agent("theirs", "agent-of-project"));
    person.write(".zk/commands/theirs.md", "command-of-project");
    person
        .write(".mcp.json", &json!({"mcpServers": {"theirs": {"command": "./no-such-server"}}}).to_string());
    // Either file appends a text; the settings are trusted first, and the prompt file then does not count.
    std::fs::remove_file(person.project().join(".zk/APPEND_SYSTEM.md")).unwrap();
    person.write(".zk/SYSTEM.md", "prompt-of-project\n");
    assert_eq!(person.run(&["trust", "add"]).code, 0);
    let home = person.home();
    std::fs::create_dir_all(home.join("skills/mine")).unwrap();
    std::fs::create_dir_all(home.join("agents")).unwrap();
    std::fs::write(home.join("AGENTS.md"), "agents-of-person\n").unwrap();
    std::fs::write(home.join("skills/mine/SKILL.md"), skill("mine", "skill-of-person")).unwrap();
    std::fs::write(home.join("agents/mine.md"), agent("mine", "agent-of-person")).unwrap();
    person.settings("[[hooks.UserPromptSubmit]]\ncommand = 'touch ../hook-of-person'\n");
}

#[test]
fn safe_mode_uses_nothing_of_the_project_and_bare_nothing_of_the_person_either_and_both_say_so() {
    for (flags, has_project, has_person, said) in [
        (&[][..], true, true, ""),
        (&["--safe-mode"][..], false, true, "safe mode: nothing of this project is used"),
        (&["--bare"][..], false, false, "bare: nothing of this project is used, and of yours settings"),
    ] {
        let server = server(Script::answering(|_| Turn::new().text("done")));
        let person = Person::asking(&server);
        furnished(&person);
        let ended = person.run(&[&["-p", "hello"], flags].concat());
        assert_eq!(ended.code, 0, "{flags:?} {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{flags:?} {}", ended.stderr);
        let body = server.bodies().last().unwrap().to_string();
        for word in OF_PROJECT {
            assert_eq!(body.contains(word), has_project, "{flags:?} {word}: {body}");
        }
        for word in OF_PERSON {
            assert_eq!(body.contains(word), has_person, "{flags:?} {word}: {body}");
        }
        let ran = |name: &str| person.project().join("..").join(name).exists();
        assert_eq!((ran("hook-of-project"), ran("hook-of-person")), (has_project, has_person), "{flags:?}");
        assert_eq!(ended.stderr.contains("no-such-server") || ended.stderr.contains("theirs"), has_project);
        let listed = person.run(&[&["hooks"], flags].concat()).stdout;
        assert_eq!(listed.contains("hook-of-project"), has_project, "{flags:?} {listed}");
    }
}

#[test]
fn bare_uses_what_the_command_line_names() {
    let server = server(Script::answering(|_| Turn::new().text("done")));
    let person = Person::asking(&server);
    furnished(&person);
    let agents = r#"{"named": {"description": "agent-of-line", "prompt": "x"}}"#;
    let ended =
        person.run(&["-p", "hello", "--bare", "--agents", agents, "--append-system", "words-of-line"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let body = server.bodies().last().unwrap().to_string();
    assert!(body.contains("agent-of-line") && body.contains("words-of-line"), "{body}");
    let both = person.run(&["-p", "hello", "--bare", "--safe-mode"]);
    assert_eq!(both.code, 2, "one of them is enough: {}", both.stderr);
}

#[test]
fn bare_uses_hooks_and_skills_of_a_preset_only_if_the_command_line_names_it() {
    let server = server(Script::answering(|_| Turn::new().text("done")));
    let person = Person::asking(&server);
    let inline =
        |name: &str| format!("[skills.inline.{name}]\ndescription = \"skill-{name}\"\ntext = \"x\"\n");
    let presets = person.home().join("presets");
    std::fs::create_dir_all(&presets).unwrap();
    let hook = "[[hooks.UserPromptSubmit]]\ncommand = 'touch ../hook-of-preset'\n";
    std::fs::write(presets.join("mine.toml"), format!("{}{hook}", inline("preset"))).unwrap();
    person.settings(&format!("preset = \"mine\"\n{}", inline("settings")));
    let hook_ran = || person.project().join("../hook-of-preset").exists();
    for (flags, is_used) in [(&["--bare"][..], false), (&["--bare", "--preset", "mine"][..], true)] {
        let ended = person.run(&[&["-p", "hello"], flags].concat());
        assert_eq!(ended.code, 0, "{flags:?} {}", ended.stderr);
        let body = server.bodies().last().unwrap().to_string();
        assert_eq!((body.contains("skill-preset"), hook_ran()), (is_used, is_used), "{flags:?} {body}");
        assert!(!body.contains("skill-settings"), "{flags:?} {body}");
    }
}

#[test]
fn no_short_flag_lifts_every_question() {
    let person = Person::new();
    for flag in ["-y", "--yolo"] {
        let ended = person.run(&["-p", "x", flag]);
        assert_eq!(ended.code, 2);
        assert!(ended.stderr.contains("no short flag lifts every question"), "{}", ended.stderr);
    }
}

#[test]
fn presets_add_up_the_last_one_wins_by_value_and_server_and_hooks_of_all_run_in_their_order() {
    let server = server(
        Script::new()
            .turn(|t| t.call("shell", json!({ "command": "true" })))
            .turn(|t| t.text("done"))
            .turn(|t| t.text("done")),
    );
    let person = Person::asking(&server);
    let presets = person.home().join("presets");
    std::fs::create_dir_all(&presets).unwrap();
    let hook = |name: &str| format!("[[hooks.PostToolUse]]\ncommand = 'echo {name} >> ../order'\n");
    let inline = |name: &str| {
        format!("[skills.inline.{name}]\ndescription = \"inline-{name}\"\ntext = \"Text of {name}.\"\n")
    };
    let docs = |command: &str| format!("[mcp.servers.docs]\ncommand = \"{command}\"\n");
    let write =
        |name: &str, text: String| std::fs::write(presets.join(format!("{name}.toml")), text).unwrap();
    write(
        "one",
        format!(
            "append_system = \"system-of-one\"\npreset_system = \"preset-of-one\"\n{}args = [\"--from-one\"]\n{}{}",
            docs("./server-of-one"),
            hook("one"),
            inline("notes"),
        ),
    );
    write("two", format!("append_system = \"system-of-two\"\n{}{}", docs("./server-of-two"), hook("two")));
    let asked = |args: &[&str]| {
        let before = server.bodies().len();
        let ended = person.run(&[&["-p", "x", "--allow-all"], args].concat());
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        (server.bodies()[before].to_string(), ended.stderr)
    };
    let (body, stderr) = asked(&["--preset", "one,two"]);
    assert!(body.contains("system-of-two") && !body.contains("system-of-one"), "{body}");
    assert!(body.contains("preset-of-one") && body.contains("inline-notes"), "{body}");
    assert!(stderr.contains("server-of-two") && !stderr.contains("server-of-one"), "{stderr}");
    assert_eq!(std::fs::read_to_string(person.project().join("../order")).unwrap(), "one\ntwo\n");
    let (body, stderr) = asked(&["--preset", "two", "--preset", "one"]);
    assert!(body.contains("system-of-one") && !body.contains("system-of-two"), "{body}");
    assert!(stderr.contains("server-of-one"), "{stderr}");
    let unknown = person.run(&["-p", "x", "--preset", "one,nosuch"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("there is no preset `nosuch`"), "{}", unknown.stderr);
}

#[test]
fn the_server_and_the_skill_of_a_preset_work_for_the_model_and_without_it_they_are_absent() {
    let server = server(Script::answering(|asked| match asked.results().len() {
        _ if !asked.tools.contains(&"mcp_fake_echo".to_owned()) => Turn::new().text("no server"),
        0 => Turn::new()
            .call("mcp_fake_echo", json!({"text": "from the server"}))
            .call("skills_use", json!({"skill": "notes"})),
        _ => Turn::new().text("done"),
    }));
    let person = Person::asking(&server);
    let presets = person.home().join("presets");
    std::fs::create_dir_all(&presets).unwrap();
    let of_server = crate::mcp::settings(&zk_testkit::FakeMcpScript::default());
    std::fs::write(presets.join("server.toml"), of_server).unwrap();
    let skill = "[skills.inline.notes]\ndescription = \"Writes notes\"\ntext = \"Text of the notes.\"\n";
    std::fs::write(presets.join("skill.toml"), skill).unwrap();
    let ended = person.run(&["-p", "x", "--allow-all", "--preset", "server,skill"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let last = server.bodies().last().unwrap()["messages"].to_string();
    assert!(last.contains("from the server") && last.contains("Text of the notes."), "{last}");
    let ended = person.run(&["-p", "x", "--allow-all"]);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "no server"), "{}", ended.stderr);
    assert!(!server.bodies().last().unwrap().to_string().contains("Writes notes"));
}

#[test]
fn only_skills_that_are_named_are_used() {
    let server = server(Script::answering(|_| Turn::new().text("done")));
    let person = Person::asking(&server);
    for name in ["pdf", "charts"] {
        let dir = person.home().join("skills").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("SKILL.md"), skill(name, &format!("skill-{name}"))).unwrap();
    }
    person.settings(
        "[skills]\nonly = [\"charts\", \"notes\"]\n[skills.inline.notes]\ndescription = \"skill-notes\"\ntext = \"x\"\n",
    );
    let ended = person.run(&["-p", "x"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let body = server.bodies().last().unwrap().to_string();
    assert!(
        body.contains("skill-charts") && body.contains("skill-notes") && !body.contains("skill-pdf"),
        "{body}"
    );
    person.settings("[skills.inline.\"Bad Name\"]\ndescription = \"skill-bad\"\ntext = \"x\"\n");
    let ended = person.run(&["-p", "x"]);
    let said = "warning: `skills.inline.Bad Name` is not used: its name `Bad Name` is not in lower case: give it a name";
    assert!(ended.code == 0 && ended.stderr.contains(said), "{}", ended.stderr);
    assert!(!server.bodies().last().unwrap().to_string().contains("skill-bad"));
}

#[test]
fn a_prompt_is_sent_again_until_esc_and_a_recap_tells_what_happened_beside_the_conversation() {
    let server = server(Script::answering(|asked| {
        if asked.system.contains("returning user") {
            return Turn::new().text("You looped a prompt.");
        }
        Turn::new().text(format!("Answer-{}.", asked.messages.len()))
    }));
    let person = Person::asking(&server);
    for screen in ["plain", "inline"] {
        let Some(mut terminal) = Terminal::open(&person, &format!("--screen {screen}")) else { return };
        terminal.expect(if screen == "plain" { "› " } else { "? keys" });
        terminal.keys("/loop 3 look again\r");
        terminal.expect("Answer-1.");
        terminal.expect("Answer-3.");
        terminal.expect("Answer-5.");
        terminal.expect("the loop is over: 3 done");
        terminal.keys("/recap\r");
        terminal.expect("You looped a prompt.");
        terminal.keys("/loop every 1h look again\r");
        terminal.expect("Answer-7.");
        let sent = server.bodies().len();
        // The loop waits for an hour; Esc ends it, and the conversation goes on.
        std::thread::sleep(std::time::Duration::from_millis(700));
        terminal.keys("\u{1b}");
        terminal.expect("stopped");
        if screen == "plain" {
            // Lines that are typed before the prompt is back become its draft.
            terminal.expect("\u{1b}[?2004h");
        }
        terminal.keys("and now\r");
        terminal.expect("Answer-9.");
        assert_eq!(server.bodies().len(), sent + 1, "{screen}");
        terminal.leave();
        assert_eq!(terminal.code(), Some(0));
    }
}

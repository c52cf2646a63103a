//! Skills in the program.

use serde_json::{Value, json};
use zk_testkit::{Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server, until};

const PDF: &str = "---\nname: pdf\ndescription: Reads PDF files.\n---\nTake $1.\n";

/// A person with the skill `pdf` of their own.
fn with_pdf(person: &Person) {
    let dir = person.home().join(".agents/skills/pdf/references");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("forms.md"), "Forms.\n").unwrap();
    std::fs::write(dir.join("../SKILL.md"), PDF).unwrap();
}

fn system(body: &Value) -> String {
    body["system"].to_string()
}

#[test]
fn the_model_is_told_of_a_skill_and_gets_it_when_it_asks() {
    let script = Script::new()
        .turn(|turn| turn.call("skills_use", json!({"skill": "pdf", "arguments": "page 2"})))
        .turn(|turn| turn.call("skills_read", json!({"skill": "pdf", "path": "references/forms.md"})))
        .turn(|turn| turn.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    with_pdf(&person);
    let ended = person.run(&["-p", "Read it."]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let bodies = server.bodies();
    assert!(system(&bodies[0]).contains("Reads PDF files."), "{}", system(&bodies[0]));
    let last = bodies[2]["messages"].to_string();
    assert!(last.contains("Take page.") && last.contains("Forms."), "{last}");
    assert_eq!(bodies[0]["system"], bodies[2]["system"], "the prompt stays as it is");
}

#[test]
fn a_skill_inside_of_another_is_listed_as_left_out_with_the_reason() {
    let person = Person::new();
    with_pdf(&person);
    let inner = person.home().join(".agents/skills/pdf/inner");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(inner.join("SKILL.md"), PDF).unwrap();
    let listed = person.run(&["skills", "list"]).stdout;
    assert!(listed.contains("left out") && listed.contains("inside of another skill"), "{listed}");
    let rows: Value = serde_json::from_str(&person.run(&["skills", "list", "--json"]).stdout).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "inner").unwrap();
    assert_eq!((&row["state"], &row["source"]), (&json!("left out"), &json!("user")));
}

#[test]
fn a_person_asks_for_a_skill_by_name() {
    let server = server(Script::new().turn(|turn| turn.text("Done.")));
    let person = Person::asking(&server);
    with_pdf(&person);
    let ended = person.run(&["-p", "/skill:pdf page"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let messages = server.bodies()[0]["messages"].to_string();
    assert!(messages.contains("/skill:pdf page") && messages.contains("Take page."), "{messages}");
}

#[test]
fn skills_of_a_project_count_once_they_are_trusted_and_are_named_until_then() {
    let script = Script::new().turn(|turn| turn.text("One.")).turn(|turn| turn.text("Two."));
    let server = server(script);
    let person = Person::asking(&server);
    person.write(".agents/skills/pdf/SKILL.md", PDF);
    let ended = person.run(&["-p", "Hello"]);
    assert!(ended.stderr.contains("skills of this project are not trusted"), "{}", ended.stderr);
    assert!(!system(&server.bodies()[0]).contains("Reads PDF"));
    let trusted = person.run(&["trust", "add"]);
    assert!(
        trusted.stdout.contains("trusted from now on") && trusted.stdout.contains("Reads PDF"),
        "{}",
        trusted.stdout
    );
    let ended = person.run(&["-p", "Hello"]);
    assert_eq!(ended.stderr, "");
    assert!(system(&server.bodies()[1]).contains("Reads PDF"));
}

#[test]
fn without_skills_nothing_is_said_of_them() {
    let server = server(Script::new().turn(|turn| turn.text("Done.")));
    let person = Person::asking(&server);
    assert_eq!(person.run(&["-p", "Hello"]).code, 0);
    assert!(!server.bodies()[0].to_string().contains("skill"), "{}", server.bodies()[0]);
}

#[test]
fn skills_are_made_checked_copied_listed_shown_and_removed() {
    let person = Person::new();
    let made = person.run(&["skills", "new", "my-skill", "--project"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert_eq!(person.run(&["skills", "check", ".agents/skills/my-skill"]).code, 0);
    let named = person.run(&["skills", "check", "my-skill"]);
    assert!(named.code == 0 && named.stdout.contains("my-skill: valid"), "{}{}", named.stdout, named.stderr);
    let unknown = person.run(&["skills", "check", "your-skill"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("no skill of that name"), "{}", unknown.stderr);
    assert_eq!(person.run(&["skills", "new", "My Skill"]).code, 2);
    let added = person.run(&["skills", "add", ".agents/skills/my-skill"]);
    assert!(added.stdout.contains("my-skill is now in"), "{}{}", added.stdout, added.stderr);
    // Just the directory that is named, whatever is next to it.
    person.write(".draft/SKILL.md", "---\nname: draft\ndescription: Is a draft.\n---\nDo it.\n");
    let draft = person.run(&["skills", "add", ".draft"]);
    assert!(draft.stdout.contains("draft is now in"), "{}{}", draft.stdout, draft.stderr);
    assert_eq!(person.run(&["skills", "remove", "draft"]).code, 0);
    let none = person.run(&["skills", "add", ".agents"]);
    assert!(none.code == 2 && none.stderr.contains("it has no SKILL.md"), "{}", none.stderr);
    let listed = person.run(&["skills", "list", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
    let brief: Vec<_> =
        rows.iter().map(|row| (row["name"].clone(), row["source"].clone(), row["state"].clone())).collect();
    let wanted = [
        (json!("my-skill"), json!("user"), json!("offered")),
        (json!("my-skill"), json!("project"), json!("not trusted")),
    ];
    assert_eq!(brief, wanted);
    assert_eq!((&rows[0]["valid"], &rows[0]["diagnostics"]), (&json!(true), &json!([])));
    let shown = person.run(&["skills", "show", "my-skill"]);
    assert!(
        shown.stdout.contains("description: What it does") && shown.stdout.contains("# my-skill"),
        "{}",
        shown.stdout
    );
    person.write(".agents/skills/my-skill/SKILL.md", "---\nname: other\n---\n");
    let checked = person.run(&["skills", "check", "--json", ".agents/skills"]);
    assert_eq!(checked.code, 1);
    let rows: Vec<Value> = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(rows.len(), 1);
    let faults = rows[0]["diagnostics"].to_string();
    assert!(
        faults.contains("`description` is missing")
            && faults.contains("`other` is not that of its directory"),
        "{faults}"
    );
    assert_eq!(person.run(&["skills", "remove", "my-skill"]).code, 0);
    let gone = person.run(&["skills", "remove", "my-skill"]);
    assert!(gone.code == 2 && gone.stderr.contains("there is no skill"), "{}", gone.stderr);
}

#[test]
fn skills_can_be_switched_off() {
    let server = server(Script::new().turn(|turn| turn.text("Done.")));
    let person = Person::asking(&server);
    with_pdf(&person);
    person.settings("[skills]\nenabled = false\n");
    assert_eq!(person.run(&["-p", "Hello"]).code, 0);
    assert!(!server.bodies()[0].to_string().contains("skills_use"));
}

#[test]
fn commands_in_the_text_of_a_command_file_run_once_zk_trust_add_approved_exactly_that_text() {
    let server = server(Script::answering(|asked| Turn::new().text(asked.last_user_text())));
    let person = Person::asking(&server);
    person.write(".zk/commands/state.md", "State: !`echo r\\un`\n").write(".zk/commands/plain.md", "Plain.");
    let state = |text: &str| {
        let ended = person.run(&["-p", "/state", "--allow-all"]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert!(ended.stdout.contains(text), "{text}: {}", ended.stdout);
    };
    state("!`echo");
    let status = person.run(&["trust"]).stdout;
    assert!(status.contains("/state (.zk/commands/state.md): not trusted"), "{status}");
    assert!(!status.contains("/plain"), "it runs nothing: {status}");
    assert_eq!(person.run(&["trust", "add"]).code, 0);
    state("State: run");
    person.write(".zk/commands/state.md", "Now: !`echo r\\un`\n");
    state("Now: !`echo");
}

#[test]
fn a_skill_that_a_person_trusted_a_moment_ago_can_be_asked_for_with_the_first_prompt() {
    let server = server(Script::new().turn(|turn| turn.text("It is read. END")));
    let person = Person::asking(&server);
    person.write(".agents/skills/pdf/SKILL.md", PDF);
    let Some(mut terminal) = Terminal::open(&person, "") else { return };
    terminal.expect("Trust these skills of the project");
    terminal.expect("Reads PDF files.");
    terminal.expect("y  Yes, trust it");
    // Questions are deaf for half a second after they were drawn.
    std::thread::sleep(std::time::Duration::from_millis(1000));
    terminal.keys("y");
    terminal.expect("› ");
    terminal.keys("/skill:pdf page\r");
    terminal.expect("END");
    terminal.keys("/quit\r");
    terminal.rest();
    let messages = server.bodies()[0]["messages"].to_string();
    assert!(messages.contains("/skill:pdf page") && messages.contains("Take page."), "{messages}");
}

#[test]
fn a_command_of_a_project_takes_neither_the_name_of_a_persons_own_nor_that_of_zk_and_both_are_told() {
    let server = server(Script::answering(|asked| Turn::new().text(asked.last_user_text())));
    let person = Person::asking(&server);
    person.write(".zk/commands/review.md", "Send it away.").write(".zk/commands/context.md", "Anything.");
    std::fs::create_dir_all(person.home().join(".claude/commands")).unwrap();
    std::fs::write(person.home().join(".claude/commands/review.md"), "Read it.").unwrap();
    let ended = person.run(&["-p", "/review"]);
    assert!(ended.stdout.contains("Read it."), "{}{}", ended.stdout, ended.stderr);
    for part in
        ["/review of ", ".claude/commands/review.md has that name", "zk has a command /context of its own"]
    {
        assert!(ended.stderr.contains(part), "{part} in {}", ended.stderr);
    }
    let refused = person.run(&["-p", "/context"]);
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    assert!(refused.stderr.contains("/context is for conversations"), "{}", refused.stderr);
    assert_eq!(server.bodies().len(), 1);
}

#[test]
fn a_skill_whose_name_another_one_has_is_told_once() {
    let server = server(Script::answering(|_| Turn::new().text("Hello.")));
    let person = Person::asking(&server);
    for dir in [".agents/skills/pdf", ".claude/skills/pdf"] {
        std::fs::create_dir_all(person.home().join(dir)).unwrap();
        std::fs::write(person.home().join(dir).join("SKILL.md"), PDF).unwrap();
    }
    let ended = person.run(&["-p", "Hello"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let told: Vec<&str> =
        ended.stderr.lines().filter(|line| line.contains("others have their names")).collect();
    assert_eq!(told.len(), 1, "{}", ended.stderr);
    assert!(
        told[0].contains("pdf of ") && told[0].contains(".claude/skills/pdf (used is that of"),
        "{told:?}"
    );
}

#[test]
fn a_skill_and_a_command_that_are_typed_during_a_run_take_effect_in_it_and_behind_it() {
    let script = Script::new()
        .turn(|turn| {
            turn.call("shell", json!({"command": "touch begun; until [ -e go ]; do sleep 0.1; done"}))
        })
        .turn(|turn| turn.text("Steered. END"))
        .turn(|turn| turn.text("All done. STOP"));
    let server = server(script);
    let person = Person::asking(&server);
    let dir = person.home().join(".agents/skills/pdf");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("SKILL.md"), PDF).unwrap();
    let Some(mut terminal) = Terminal::open(&person, "--screen inline --allow-all 'go'") else { return };
    until("the command", || person.project().join("begun").exists());
    // Keys that come all at once are a paste.
    for (keys, end) in [("/skill:pdf page", "\r"), ("!echo mi''ne", "\r"), ("then this", "\t")] {
        terminal.keys(keys);
        terminal.expect(keys);
        std::thread::sleep(std::time::Duration::from_millis(300));
        terminal.keys(end);
        // The text is seen while it waits.
        terminal.expect(keys);
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    person.write("go", "");
    terminal.expect("END");
    terminal.expect("mine");
    terminal.expect("STOP");
    terminal.expect("1 turn ·");
    terminal.leave();
    assert_eq!(terminal.code(), Some(0));
    let bodies = server.bodies();
    let (steered, last) = (bodies[1]["messages"].to_string(), bodies[2]["messages"].to_string());
    assert!(steered.contains("Take page.") && !steered.contains("mine"), "{steered}");
    let (ran, asked) = (last.find("\\nmine"), last.find("then this"));
    assert!(ran.is_some() && ran < asked, "{last}");
}

#[test]
fn a_list_of_skills_has_no_trailing_blanks_made_visible() {
    let person = Person::new();
    person.write(".agents/skills/broken/SKILL.md", "no frontmatter\n");
    let listed = person.run(&["skills", "list"]).stdout;
    assert!(listed.contains("broken") && listed.contains("not usable"), "{listed}");
    assert!(!listed.contains("U+0020"), "{listed}");
}

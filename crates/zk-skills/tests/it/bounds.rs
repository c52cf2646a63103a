//! Parts of a skill that count: the files that a person approved, and the commands that its text has.

use serde_json::{Value, json};

use crate::agent::{calls, rig};
use crate::support::Place;

/// Results of all calls, errors marked.
async fn results(at: Place, all: &[(&str, Value)]) -> Vec<String> {
    let (rig, _at) = rig(at, calls(all));
    rig.run("Go").await;
    let mark = |after: &Value| if after["is_error"] == json!(true) { "!" } else { "" };
    let after = rig.recorder.named("tool:after");
    after.iter().map(|one| format!("{}{}", mark(one), one["content"].as_str().unwrap_or_default())).collect()
}

#[tokio::test]
async fn files_of_a_skill_that_nobody_approves_are_neither_read_nor_run() {
    let at = Place::new();
    at.skill("project/.agents/skills/a", "Some.");
    let skill = "project/.agents/skills/a";
    at.write(&format!("{skill}/run.sh"), "echo approved\n");
    at.approve_all();
    let hidden = [".git/x.sh", "node_modules/x.sh", "1/2/3/4/5/6/7/x.sh"];
    for path in hidden {
        at.write(&format!("{skill}/{path}"), "echo nobody approved it\n");
    }
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(at.path(&format!("{skill}/{to}")), at.path(&format!("{skill}/{name}")))
            .unwrap();
    };
    link(".git/x.sh", "link.sh");
    link("node_modules", "modules");
    link("run.sh", "same.sh");
    let run = |script: &str| ("skills_run_script", json!({ "skill": "a", "script": script }));
    let read = |path: &str| ("skills_read", json!({ "skill": "a", "path": path }));
    let refused: Vec<&str> = hidden.into_iter().chain(["link.sh", "modules/x.sh"]).collect();
    let mut all = vec![("skills_use", json!({ "skill": "a" })), run("run.sh"), run("same.sh")];
    all.extend(refused.iter().flat_map(|path| [run(path), read(path)]));
    let results = results(at, &all).await;
    assert_eq!(results[1..3], ["approved", "approved"]);
    assert_eq!(results.len(), all.len());
    for (result, call) in results[3..].iter().zip(&all[3..]) {
        assert!(result.starts_with("!`") && result.contains("is not one of the files"), "{call:?}: {result}");
    }
}

#[tokio::test]
async fn files_of_a_skill_that_changed_are_not_read_either() {
    let at = Place::new();
    at.skill("project/.agents/skills/a", "Some.").write("project/.agents/skills/a/notes.md", "Good.\n");
    at.approve_all();
    let read = ("skills_read", json!({ "skill": "a", "path": "notes.md" }));
    let write = ("shell", json!({ "command": "echo Bad. > .agents/skills/a/notes.md" }));
    let results = results(at, &[("skills_use", json!({ "skill": "a" })), read.clone(), write, read]).await;
    assert_eq!(results[1], "Good.\n");
    assert!(
        results[3].starts_with('!') && results[3].contains("changed since the user approved"),
        "{results:?}"
    );
}

#[tokio::test]
async fn the_text_of_a_skill_is_approved_where_it_is_a_link_too() {
    let at = Place::new();
    let text = "---\nname: a\ndescription: Some.\n---\n";
    at.write("project/.agents/skills/a/.text/own.md", &format!("{text}Good.\n"));
    std::os::unix::fs::symlink(
        at.path("project/.agents/skills/a/.text/own.md"),
        at.path("project/.agents/skills/a/SKILL.md"),
    )
    .unwrap();
    at.approve_all();
    at.write("project/.agents/skills/a/.text/own.md", &format!("{text}Bad.\n"));
    let results = results(at, &[("skills_use", json!({ "skill": "a" }))]).await;
    assert!(results[0].starts_with('!') && results[0].contains("changed since"), "{results:?}");
}

#[tokio::test]
async fn arguments_of_a_skill_are_text_and_run_nothing() {
    let at = Place::new();
    at.write(
        "home/.agents/skills/a/SKILL.md",
        "---\nname: a\ndescription: Some.\n---\nTake $1: !`printf '%s' $1`\nAll: $ARGUMENTS\n",
    );
    let evil = "!`touch x` $(touch y)";
    let uses = ("skills_use", json!({ "skill": "a", "arguments": format!("'{evil}'") }));
    let seen = ("shell", json!({ "command": "ls" }));
    let results = results(at, &[uses, seen]).await;
    // The command in its text is a separate call.
    let [_, text, listed] = &results[..] else { panic!("{results:?}") };
    assert!(text.contains(&format!("Take {evil}: {evil}")), "{text}");
    assert!(text.contains(&format!("All: '{evil}'")), "{text}");
    assert!(!listed.lines().any(|line| line == "x" || line == "y"), "{listed}");
}

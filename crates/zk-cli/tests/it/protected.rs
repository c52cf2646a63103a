use std::fs;

use serde_json::json;
use zk_testkit::Script;

use crate::zk::{Person, server};

/// Started in the home directory, with everything allowed: keys and start files stay out of reach all the same.
#[test]
fn protected_files_are_refused_although_everything_is_allowed() {
    let secrets = [".ssh/id_rsa", ".netrc", "auth/credentials.json", ".aws/credentials"];
    let run_later = [
        ".bashrc",
        ".git/hooks/pre-commit",
        ".git/config",
        ".zk/settings.toml",
        "settings.toml",
        "approvals.toml",
        "trust.json",
        "mcp/accepted/docs.json",
        "sandbox/tested",
        "skills/quiet/SKILL.md",
        "APPEND_SYSTEM.md",
    ];
    let script = Script::new()
        .turn(|t| secrets.iter().fold(t, |t, path| t.call("read_file", json!({ "path": path }))))
        .turn(|t| {
            let call = |path: &str| json!({ "path": path, "content": "echo owned" });
            run_later.iter().fold(t, |t, path| t.call("write_file", call(path)))
        })
        .turn(|t| t.call("grep", json!({ "pattern": "canary", "ignored": true, "mode": "content" })))
        .turn(|t| t.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    let home = person.home();
    for secret in secrets {
        fs::create_dir_all(home.join(secret).parent().unwrap()).unwrap();
        fs::write(home.join(secret), "{\"canary\": {}}").unwrap();
    }
    let args = ["-p", "x", "--allow-all", "--output-format", "stream-json", "--cwd", home.to_str().unwrap()];
    let ended = person.run(&args);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stdout.contains("canary\\\": {}"), "{}", ended.stdout);
    for path in secrets {
        assert!(ended.stdout.contains(&format!("`{path}` may not be read")), "{path}: {}", ended.stdout);
    }
    for path in run_later {
        assert!(ended.stdout.contains(&format!("`{path}` may not be written")), "{path}: {}", ended.stdout);
        assert!(!home.join(path).exists(), "{path}");
    }
    assert!(ended.stdout.contains("with credentials left out"), "{}", ended.stdout);
}

#[test]
fn what_a_rule_denies_or_asks_about_is_not_found_from_a_directory_above() {
    let script = Script::new()
        .turn(|t| t.call("grep", json!({ "pattern": "canary", "path": "plans/inner", "mode": "content" })))
        .turn(|t| t.call("grep", json!({ "pattern": "canary", "mode": "content" })))
        .turn(|t| t.call("grep", json!({ "pattern": "canary", "path": "plans", "mode": "content" })))
        .turn(|t| t.call("glob", json!({ "pattern": "**/*.txt" })))
        .turn(|t| t.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    person.write("plans/inner/next.txt", "canary of plans").write("open.txt", "canary in the open");
    person.write("a/b.pem.txt", "canary asked about").write("plans/free.txt", "canary for free");
    person.settings("[permissions]\ndeny = [\"read(plans/inner/**)\"]\nask = [\"read(**/*.pem.txt)\"]\n");
    let ended = person.run(&["-p", "x", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let told = server.bodies().last().unwrap()["messages"].to_string();
    for expected in ["canary in the open", "canary for free", "that a rule restricts"] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    for hidden in ["canary of plans", "canary asked about", "next.txt", "b.pem"] {
        assert!(!told.contains(hidden), "{hidden}: {told}");
    }
}

/// Without a sandbox for commands it is the tools that do not see what is hidden.
#[test]
fn what_the_settings_hide_is_hidden_from_tools_too() {
    let script = Script::new()
        .turn(|t| t.call("read_file", json!({ "path": "plans/next.txt" })))
        .turn(|t| t.call("write_file", json!({ "path": "plans/new.txt", "content": "x" })))
        .turn(|t| t.call("grep", json!({ "pattern": "canary", "mode": "content" })))
        .turn(|t| t.call("glob", json!({ "pattern": "**/*.txt" })))
        .turn(|t| t.text("Done."));
    let server = server(script);
    let person = Person::asking(&server);
    person.write("plans/next.txt", "canary of plans").write("open.txt", "canary in the open");
    person.settings(&format!("[sandbox]\nhidden = [{:?}]\n", person.project().join("plans")));
    let ended = person.run(&["-p", "x", "--allow-all"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let told = server.bodies().last().unwrap()["messages"].to_string();
    for expected in [
        "`plans/next.txt` may not be read: the settings hide it",
        "`plans/new.txt` may not be read: the settings hide it",
        "canary in the open",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert!(!told.contains("canary of plans") && !person.project().join("plans/new.txt").exists(), "{told}");
}

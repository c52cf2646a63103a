use std::fs;

use serde_json::json;
use zk_testkit::Script;

use crate::zk::{Person, server};

/// Started in the home directory, with everything allowed: keys and start files stay out of reach all the same.
#[test]
fn protected_files_are_refused_although_everything_is_allowed() {
    let secrets = [".ssh/id_rsa", ".netrc", "auth/credentials.json", ".aws/credentials"];
    let run_later = [".bashrc", ".git/hooks/pre-commit", ".git/config", ".zk/settings.toml", "settings.toml"];
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

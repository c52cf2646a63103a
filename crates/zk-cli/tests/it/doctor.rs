use zk_testkit::{FakeServer, Script};

use crate::zk::Person;

#[test]
fn a_working_setup_is_told_line_by_line_and_ends_with_0() {
    let server = FakeServer::builder(Script::new()).models(["claude-x"]).start().unwrap();
    let person = Person::asking(&server);
    let ended = person.run(&["doctor", "--model", "claude-x"]);
    assert_eq!(ended.code, 0, "{}", ended.stdout);
    assert!(ended.stdout.lines().all(|line| line.starts_with("ok ") || line.starts_with("warn")));
    for word in [
        "a key is set",
        "environment: ANTHROPIC_API_KEY",
        "answers and has claude-x",
        "sessions: 0",
        "bash: /",
    ] {
        assert!(ended.stdout.contains(word), "`{word}` is missing:\n{}", ended.stdout);
    }
    assert!(!ended.stdout.contains("test-key"));
}

#[test]
fn what_is_missing_is_told_with_what_to_do_and_ends_with_1() {
    let person =
        Person::new().with("ANTHROPIC_API_KEY", "k").with("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
    let ended = person.run(&["doctor"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stdout.contains("fail  endpoint: "), "{}", ended.stdout);
}

#[test]
fn what_a_server_has_is_counted() {
    for (models, told) in [(vec!["a"], "answers; 1 model\n"), (vec!["a", "b"], "answers; 2 models\n")] {
        let server = FakeServer::builder(Script::new()).models(models).start().unwrap();
        let person = Person::new().with("OPENAI_BASE_URL", &server.openai_url());
        let ended = person.run(&["doctor", "--provider", "openai_compat"]);
        assert!(ended.stdout.contains(told), "{}", ended.stdout);
    }
}

use serde_json::json;
use zk_testkit::{FakeServer, Script, Turn};

use crate::zk::{Person, server};

fn hello() -> FakeServer {
    server(Script::answering(|_| Turn::new().text("Hello.")))
}

#[test]
fn a_provider_of_ones_own_is_all_data() {
    let server = hello();
    let person = Person::new();
    person.settings(&format!(
        "provider = \"lab\"\n\
         [providers.lab]\n\
         like = \"openai_compat\"\n\
         base_url = \"{}\"\n\
         api_key = \"k-lab\"\n\
         auth_header = \"api-key\"\n\
         auth_prefix = \"Token \"\n\
         model = \"lab-1\"\n\
         headers = {{ x-team = \"blue\" }}\n\
         extra_body = {{ top_k = 5 }}\n\
         options = {{ max_tokens_field = \"max_completion_tokens\", stream_options = false }}\n",
        server.openai_url()
    ));
    let ended = person.run(&["-p", "hi"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Hello.\n"), "{}", ended.stderr);
    let request = server.requests().pop().unwrap();
    assert_eq!(request.header("api-key"), Some("Token k-lab"));
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("x-team"), Some("blue"));
    let body = request.json();
    assert_eq!((&body["model"], &body["top_k"]), (&json!("lab-1"), &json!(5)));
    assert!(body["max_completion_tokens"].is_u64() && body.get("stream_options").is_none(), "{body}");
}

#[test]
fn an_option_that_is_none_is_told_with_those_there_are() {
    let person = Person::new();
    person.settings(
        "provider = \"lab\"\n[providers.lab]\nbase_url = \"http://127.0.0.1:1/v1\"\noptions = { visoin = false }\n",
    );
    let ended = person.run(&["-p", "hi"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("visoin") && ended.stderr.contains("`vision`"), "{}", ended.stderr);
}

#[test]
fn a_project_cannot_say_where_requests_go() {
    let server = hello();
    let person = Person::asking(&server);
    person.write(
        ".zk/settings.toml",
        "[providers.anthropic]\nbase_url = \"http://127.0.0.1:1\"\nheaders = { x = \"y\" }\noptions = { version = \"0\" }\n",
    );
    // Not even a project that is trusted.
    assert_eq!(person.run(&["trust", "add"]).code, 0);
    let ended = person.run(&["-p", "hi"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Hello.\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("`providers.anthropic.base_url` is ignored"), "{}", ended.stderr);
    assert!(ended.stderr.contains("`providers.anthropic.options.version` is ignored"), "{}", ended.stderr);
    assert_eq!(server.requests()[0].header("anthropic-version"), Some("2023-06-01"));
}

#[test]
fn every_vendor_is_offered_by_name() {
    let server = hello();
    let person = Person::new();
    for vendor in ["openrouter", "groq", "deepseek", "mistral", "cerebras", "moonshot", "zai", "lmstudio"] {
        let url = server.openai_url();
        let args = ["-p", "hi", "--provider", vendor, "--base-url", &url, "--api-key", "k", "--model", "m"];
        let ended = person.run(&args);
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "Hello.\n"), "{vendor}: {}", ended.stderr);
    }
    let ended = person.run(&["-p", "hi", "--provider", "openruter"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("did you mean `openrouter`"), "{}", ended.stderr);
}

#[test]
fn a_session_goes_on_at_every_other_provider() {
    let server = server(Script::answering(|asked| match asked.messages.len() % 4 {
        1 => {
            Turn::new().thinking("hm").call("list_files", json!({"path": "."})).call("list_files", json!({}))
        }
        _ => Turn::new().text(format!("message {}", asked.messages.len())),
    }));
    let person = Person::new();
    let urls = [
        ("anthropic", server.url()),
        ("openai", server.openai_url()),
        ("gemini", format!("{}/v1beta", server.url())),
        ("openai_compat", server.openai_url()),
        ("ollama", server.url()),
    ];
    let mut seen = 0;
    for (name, url) in urls.iter().chain(urls.iter().rev()) {
        let args = ["-p", "go on", "--provider", name, "--base-url", url, "--api-key", "k", "--model", "m"];
        let ended = person.run(&[&args[..], if seen > 0 { &["--continue"] } else { &[] }].concat());
        seen += 4;
        let said = format!("message {}\n", seen - 1);
        assert_eq!((ended.code, ended.stdout), (0, said), "{name}: {}", ended.stderr);
    }
    assert_eq!(server.violations(), []);
}

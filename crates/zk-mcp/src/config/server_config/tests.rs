use super::*;

fn read(definition: &Value) -> Result<ServerConfig, ServerConfigError> {
    ServerConfig::read("s", definition)
}

#[test]
fn commands_and_addresses_are_told_apart_and_anything_else_is_an_error_that_says_what_to_write() {
    assert_eq!(read(&json!({"command": "a", "args": ["b"]})).unwrap().transport.as_str(), "stdio");
    assert_eq!(read(&json!({"type": "http", "url": "http://h"})).unwrap().transport.as_str(), "http");
    assert_eq!(read(&json!({"url": "http://h"})).unwrap().transport.as_str(), "http");
    assert!(read(&json!({"type": "sse", "url": "http://h"})).unwrap().is_event_stream);
    for (wrong, part) in [
        (json!({}), "needs a `command`"),
        (json!({"command": " "}), "must be `stdio`"),
        (json!({"command": "a", "url": "b"}), "both"),
        (json!({"type": "sse", "command": "b"}), "`sse` with a `url`"),
        (json!({"type": "pigeon", "url": "b"}), "must be `stdio`"),
        (json!({"command": 1}), "invalid type"),
        (json!({"command": "a", "trust": "blindly"}), "`trusted`, `untrusted`, `sandboxed`"),
    ] {
        let error = read(&wrong).unwrap_err().to_string();
        assert!(error.contains(part), "{wrong}: {error}");
    }
    assert!(ServerConfig::read("a b", &json!({"command": "a"})).is_err());
}

#[test]
fn variables_expand_in_command_arguments_environment_address_and_headers() {
    let lookup = |name: &str| (name == "T").then(|| "secret".to_owned());
    let server = read(&json!({"command": "${T}", "args": ["${T}", "${NO}"], "env": {"K": "a${T}"}}));
    let ServerTransport::Stdio { command, args, env, .. } = server.unwrap().expanded(&lookup).transport
    else {
        panic!()
    };
    assert_eq!((command.as_str(), args[0].as_str(), args[1].as_str()), ("secret", "secret", "${NO}"));
    assert_eq!(env.get("K"), Some("asecret"));
    let server = read(&json!({"url": "http://${H:-host}", "headers": {"A": "Bearer ${T}"}}));
    let ServerTransport::Http { url, headers } = server.unwrap().expanded(&lookup).transport else {
        panic!()
    };
    assert_eq!((url.as_str(), headers.get("A")), ("http://host", Some("Bearer secret")));
}

#[test]
fn the_approved_definition_is_the_written_one_and_the_identity_ignores_name_and_values() {
    let definition = json!({"command": "a", "env": {"K": "${T}"}});
    let server = read(&definition).unwrap().expanded(&|_| Some("secret".to_owned()));
    assert_eq!(server.definition(), br#"{"command":"a","env":{"K":"${T}"}}"#);
    let other = ServerConfig::read("other", &json!({"command": "a", "env": {"K": "x"}})).unwrap();
    assert_eq!(server.identity(), other.identity());
    let changed = read(&json!({"command": "a", "args": ["x"], "env": {"K": "x"}})).unwrap();
    assert_ne!(changed.identity(), other.identity());
}

#[test]
fn what_was_accepted_of_one_server_holds_for_no_other_name_and_for_new_values_of_its_variables() {
    let key = |name: &str, definition: Value| ServerConfig::read(name, &definition).unwrap().pin_key();
    let one = json!({"command": "a", "env": {"K": "x"}});
    assert_eq!(key("one", one.clone()), key("one", json!({"command": "a", "env": {"K": "renewed"}})));
    assert_ne!(key("one", one.clone()), key("two", one.clone()));
    assert_ne!(key("one", one), key("one", json!({"command": "a", "env": {"L": "x"}})));
}

#[test]
fn the_values_of_variables_headers_and_secrets_are_in_no_debug_text_and_no_error() {
    let canary = "sk-canary";
    let program = json!({"command": "a", "env": {"K": "${T}", "L": canary}});
    let far = json!({"url": "http://h", "headers": {"A": canary}, "oauth": {"client_secret": canary}});
    for definition in [program, far] {
        let server = read(&definition).unwrap().expanded(&|_| Some(canary.to_owned()));
        let shown = format!("{server:?} {:?} {}", server.transport, server.summary());
        assert!(!shown.contains(canary), "{shown}");
        assert!(server.definition().windows(canary.len()).any(|part| part == canary.as_bytes()));
    }
    for wrong in [json!({"command": "a", "env": canary}), json!({"url": "h", "headers": [canary]})] {
        let error = read(&wrong).unwrap_err().to_string();
        assert!(error.contains("must be a table of texts") && !error.contains(canary), "{error}");
    }
}

#[test]
fn a_program_has_longer_to_start_than_an_address_and_the_definition_has_the_last_word() {
    let seconds = |definition: Value| read(&definition).unwrap().start_cap.as_secs();
    assert_eq!(seconds(json!({"command": "a"})), 30);
    assert_eq!(seconds(json!({"url": "http://h"})), 10);
    assert_eq!(seconds(json!({"url": "http://h", "start_timeout": 60_000})), 60);
    assert_eq!(seconds(json!({"command": "a", "start_timeout": 5_000})), 5);
}

#[test]
fn a_server_that_is_not_trusted_cannot_ask_the_model_whatever_else_is_set() {
    for (trust, sampling, skills) in [
        ("trusted", ServerPermission::Allow, ServerPermission::Allow),
        ("untrusted", ServerPermission::Deny, ServerPermission::Deny),
        ("sandboxed", ServerPermission::Deny, ServerPermission::Allow),
    ] {
        let definition = json!({"command": "a", "trust": trust, "sampling": "allow", "skills": "allow"});
        let server = read(&definition).unwrap();
        assert_eq!((server.sampling, server.skills), (sampling, skills), "{trust}");
    }
}

#[test]
fn one_unusable_server_of_a_file_does_not_take_the_others_with_it() {
    let file = br#"{"mcpServers":{"a":{"command":"x"},"b":{}}}"#;
    let servers = ServerConfig::read_file(file).unwrap();
    assert!(servers[0].is_ok() && servers[1].is_err());
    assert!(ServerConfig::read_file(b"[]").is_err() && ServerConfig::read_file(b"{").is_err());
}

//! Skills of servers: listed, and read only when somebody uses them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use zk_mcp::{ServerConfig, ServerState};
use zk_testkit::{FakeMcpEra, FakeMcpScript};

use crate::support::{Host, LONG, fake};

const SKILL: &str = "skill://greet/SKILL.md";
const FILE: &str = "skill://greet/words.txt";
const TEXT: &str = "---\nname: greet\ndescription: Greets people\n---\nSay hello.\n";

fn file(uri: &str, text: &str) -> Value {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"uri": uri, "digest": format!("sha256:{hex}"), "size": text.len()})
}

fn entry(resources: &Value) -> Value {
    let frontmatter = json!({"name": "greet", "description": "Greets people"});
    json!({"uri": SKILL, "frontmatter": frontmatter, "resources": resources})
}

async fn host(entry: Value, files: &[(&str, &str)], skills: &str) -> Host {
    let files: BTreeMap<String, String> =
        files.iter().map(|(uri, text)| ((*uri).to_owned(), (*text).to_owned())).collect();
    let era = FakeMcpEra::Modern;
    let script = FakeMcpScript { skills: vec![entry], files, era, ..FakeMcpScript::default() };
    let mut definition = fake(&script);
    definition["skills"] = json!(skills);
    let host = Host::of([ServerConfig::read("fake", &definition).unwrap()]);
    host.servers.skills_ready(LONG).await;
    assert!(matches!(host.state(), ServerState::Ready { .. }), "{:?}", host.state());
    host
}

#[tokio::test]
async fn skills_are_listed_with_their_server_and_their_files_are_what_the_list_says() {
    let listed = entry(&json!([file(SKILL, TEXT), file(FILE, "hello\n")]));
    let host = host(listed, &[(SKILL, TEXT), (FILE, "hello\n")], "ask").await;
    assert_eq!(host.events("mcp:skills"), [json!({"server": "fake", "skills": ["greet"]})]);
    let skill = host.servers.skills().remove(0);
    assert_eq!((skill.server.as_str(), skill.uri.as_str(), skill.is_allowed), ("fake", SKILL, false));
    assert_eq!(skill.files.len(), 2);
    let cx = host.bus.cx();
    assert_eq!(host.servers.read_skill("fake", SKILL, SKILL, &cx).await.unwrap(), TEXT.as_bytes());
    assert_eq!(host.servers.read_skill("fake", SKILL, FILE, &cx).await.unwrap(), b"hello\n");
    for (skill, file) in [(SKILL, "skill://greet/other.txt"), ("skill://other/SKILL.md", SKILL)] {
        assert!(host.servers.read_skill("fake", skill, file, &cx).await.is_err(), "{skill} {file}");
    }
    host.bus.close().await;
}

#[tokio::test]
async fn a_server_that_never_lists_its_skills_is_ready_with_its_tools() {
    for era in [FakeMcpEra::Legacy, FakeMcpEra::Modern] {
        let (skills, silent_on) = (vec![entry(&json!("dynamic"))], vec!["skills/list".to_owned()]);
        let script = FakeMcpScript { skills, silent_on, era, ..FakeMcpScript::default() };
        let mut definition = fake(&script);
        // Shorter than it is waited for its skills.
        definition["start_timeout"] = json!(10_000);
        let host = Host::of([ServerConfig::read("fake", &definition).unwrap()]);
        host.servers.warm_up(LONG).await;
        assert!(matches!(host.state(), ServerState::Ready { .. }), "{era:?}: {:?}", host.state());
        assert_eq!(host.text("mcp_fake_echo", json!({"text": "x"})).await, "x");
        let started = host.events("mcp:bootstrap:end");
        assert_eq!((started.len(), &started[0]["ok"]), (1, &json!(true)), "{era:?}: {started:?}");
        host.bus.close().await;
    }
}

#[tokio::test]
async fn a_file_of_another_size_or_digest_is_not_handed_out() {
    for text in ["hello you\n", "hallo\n"] {
        let listed = entry(&json!([file(SKILL, TEXT), file(FILE, "hello\n")]));
        let host = host(listed, &[(SKILL, TEXT), (FILE, text)], "allow").await;
        let read = host.servers.read_skill("fake", SKILL, FILE, &host.bus.cx()).await;
        assert!(read.unwrap_err().contains("not the file that was listed"));
        host.bus.close().await;
    }
}

#[tokio::test]
async fn skills_that_break_the_rules_or_are_denied_are_not_offered() {
    let outside = entry(&json!([file(SKILL, TEXT), file("skill://other/words.txt", "x")]));
    let without = entry(&json!([file(FILE, "x")]));
    let good = entry(&json!("dynamic"));
    for (entry, skills, count) in
        [(outside, "allow", 0), (without, "allow", 0), (good.clone(), "deny", 0), (good, "ask", 1)]
    {
        let host = host(entry, &[], skills).await;
        assert_eq!(host.servers.skills().len(), count);
        host.bus.close().await;
    }
}

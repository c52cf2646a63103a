//! The other end of the protocol: `zk acp` as the agent of another program.

use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::net::unix::pipe;
use zk_serve::acp::{AcpConnection, AcpError, AcpHost};
use zk_testkit::Script;

use crate::zk::{Person, program, server};

/// A host that keeps what it hears, and answers every question with the first option of a kind.
struct Keeping {
    updates: Mutex<Vec<Value>>,
    kind: &'static str,
}

#[async_trait]
impl AcpHost for Keeping {
    fn update(&self, _: &str, update: &Value) {
        self.updates.lock().unwrap().push(update.clone());
    }

    async fn permission(&self, request: &Value) -> Option<String> {
        let options = request["options"].as_array()?;
        let option = options.iter().find(|option| option["kind"] == self.kind)?;
        Some(option["optionId"].as_str()?.to_owned())
    }
}

/// Runs one prompt, with this kind of answer to its question, and gives the updates and the reason for its end.
async fn drive(person: &Person, kind: &'static str) -> (Vec<Value>, String) {
    let mut child = person.spawn(program(), &["acp"], Stdio::piped());
    let from = OwnedFd::from(child.stdout.take().unwrap());
    let to = OwnedFd::from(child.stdin.take().unwrap());
    let from = pipe::Receiver::from_owned_fd(from).unwrap();
    let to = pipe::Sender::from_owned_fd(to).unwrap();
    let host = Arc::new(Keeping { updates: Mutex::default(), kind });
    let agent = AcpConnection::new(from, to, host.clone());
    let said = agent.initialize("1").await.unwrap();
    assert_eq!(said["agentInfo"]["name"], "zk");
    let place = json!({ "cwd": person.project(), "mcpServers": [] });
    let session = agent.request("session/new", place).await.unwrap()["sessionId"].clone();
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "Make it." }] });
    let ended = agent.request("session/prompt", prompt).await.unwrap();
    assert!(matches!(agent.request("session/nothing", json!({})).await, Err(AcpError::Refused(_))));
    agent.close().await;
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert!(status.success(), "the agent ends with its input: {status}");
    let updates = host.updates.lock().unwrap().clone();
    (updates, ended["stopReason"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn an_agent_is_driven_as_an_editor_drives_it_and_its_questions_are_answered() {
    for (kind, is_made) in [("allow_once", true), ("reject_once", false), ("no such kind", false)] {
        let script = Script::new()
            .turn(|turn| turn.call("shell", json!({ "command": "touch made" })))
            .turn(|turn| turn.text("Ended."));
        let models = server(script);
        let person = Person::asking(&models);
        let (updates, reason) = drive(&person, kind).await;
        assert_eq!(reason, "end_turn");
        assert_eq!(person.project().join("made").exists(), is_made, "{kind}");
        let text: String = updates.iter().filter_map(|update| update["content"]["text"].as_str()).collect();
        assert!(text.contains("Ended."), "{text}");
    }
}

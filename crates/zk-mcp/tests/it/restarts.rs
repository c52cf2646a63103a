//! Servers by HTTP that began anew while zk was connected to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use zk_core::model::{ToolError, ToolErrorKind};
use zk_core::service::CommandOutcome;
use zk_mcp::ServerState;

use crate::calls::command;
use crate::rpc::{count, host, serve, text};
use crate::support::LONG;
use crate::web::{Said, Web};

/// A server of revision 2025-11-25 whose session is the number of its start; after the first one its tools are `then`.
async fn with_sessions(start: &Arc<AtomicUsize>, then: &'static [&'static str]) -> Web {
    let start = start.clone();
    Web::start(move |asked, _| {
        if asked.method != "POST" {
            return Said::status(405);
        }
        let message: Value = serde_json::from_str(&asked.body).unwrap();
        let (start, method) = (start.load(Ordering::SeqCst), message["method"].as_str().unwrap());
        let result = match method {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                "serverInfo": {"name": "far", "version": "1"},
            }),
            "server/discover" => return Said::status(400),
            // No answer during the session, and a late one after its end.
            "tools/call" if start == 1 && message["params"]["arguments"]["waits"] == true => {
                return Said::never();
            }
            "tools/call" if start == 1 && message["params"]["arguments"]["is_late"] == true => {
                return Said { delay: Duration::from_millis(100), ..Said::status(404) };
            }
            _ if asked.headers.get("mcp-session-id") != Some(&start.to_string()) => {
                return Said::status(404);
            }
            "tools/list" => {
                let names: &[&str] = if start == 1 { &["t"] } else { then };
                let tools = names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
                json!({"tools": tools.collect::<Vec<_>>()})
            }
            "tools/call" => text("called"),
            "prompts/list" => json!({"prompts": [{"name": "p"}]}),
            "prompts/get" => {
                json!({"messages": [{"role": "user", "content": {"type": "text", "text": "content of p"}}]})
            }
            "resources/list" => {
                json!({"resources": [{"uri": "far://r", "name": "r", "description": "content of r"}]})
            }
            "resources/templates/list" => json!({"resourceTemplates": []}),
            "resources/read" => json!({"contents": [{"uri": "far://r", "text": "content of r"}]}),
            _ => return Said::status(202),
        };
        let said = Said::json(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        if method == "initialize" { said.with("mcp-session-id", start.to_string()) } else { said }
    })
    .await
}

#[tokio::test]
async fn the_next_call_of_a_server_that_forgot_the_session_runs_once_its_tools_were_compared() {
    let start = Arc::new(AtomicUsize::new(1));
    let web = with_sessions(&start, &["t"]).await;
    let far = host(&web, json!({})).await;
    command(&far, "mcp_far_p").await;
    assert_eq!(far.text("mcp_far_t", json!({})).await, "called");
    start.store(2, Ordering::SeqCst);
    assert_eq!(far.text("mcp_far_t", json!({})).await, "called", "the same tools");
    assert_eq!((count(&web, "initialize"), count(&web, "tools/list")), (2, 2));
    assert!(far.events("mcp:error").is_empty(), "a session that ended is no failure");
    far.bus.close().await;
}

#[tokio::test]
async fn prompts_and_resources_of_a_server_that_forgot_the_session_are_asked_for_once_more() {
    for method in ["prompts/get", "resources/read", "resources/list"] {
        let start = Arc::new(AtomicUsize::new(1));
        let web = with_sessions(&start, &["t"]).await;
        let far = host(&web, json!({})).await;
        let prompt = command(&far, "mcp_far_p").await;
        start.store(2, Ordering::SeqCst);
        let got = match method {
            "prompts/get" => match prompt.run("", &far.bus.cx()).await.unwrap() {
                CommandOutcome::Prompt(text) => text,
                other => panic!("{other:?}"),
            },
            "resources/read" => {
                far.text("mcp_read_resource", json!({"server": "far", "uri": "far://r"})).await
            }
            _ => far.text("mcp_list_resources", json!({})).await,
        };
        assert!(got.contains("content of"), "{method}: {got}");
        assert_eq!((count(&web, method), count(&web, "initialize")), (2, 2), "{method}");
        far.bus.close().await;
    }
}

#[tokio::test]
async fn a_call_is_not_carried_out_by_a_server_that_forgot_the_session_and_has_other_tools() {
    let start = Arc::new(AtomicUsize::new(1));
    let web = with_sessions(&start, &["t", "exec"]).await;
    let far = host(&web, json!({})).await;
    command(&far, "mcp_far_p").await;
    start.store(2, Ordering::SeqCst);
    let error = far.call("mcp_far_t", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ToolErrorKind::Denied, "{error}");
    let ServerState::Quarantined { changes, .. } = far.state() else { panic!("{:?}", far.state()) };
    assert_eq!(changes, ["+ tool exec: "]);
    // The session that was answered with not found.
    assert_eq!(count(&web, "tools/call"), 1);
    far.bus.close().await;
}

#[tokio::test]
async fn a_server_without_sessions_that_was_away_is_listed_and_compared_before_the_next_call() {
    let start = Arc::new(AtomicUsize::new(1));
    let now = start.clone();
    let web = serve(move |method, _, _| match (now.load(Ordering::SeqCst), method) {
        (0, _) => Some(Err((0, "away"))),
        (start, "tools/list") => {
            let names: &[&str] = if start == 1 { &["t"] } else { &["t", "exec"] };
            let tools = names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
            Some(Ok(json!({"tools": tools.collect::<Vec<_>>()})))
        }
        (_, "tools/call") => Some(Ok(text("called"))),
        _ => None,
    })
    .await;
    let far = host(&web, json!({})).await;
    assert_eq!(far.text("mcp_far_t", json!({})).await, "called");
    start.store(0, Ordering::SeqCst);
    let error = far.call("mcp_far_t", json!({})).await.unwrap_err();
    assert!(error.message.contains("the connection is gone"), "{error}");
    let calls = count(&web, "tools/call");
    start.store(2, Ordering::SeqCst);
    let error = far.call("mcp_far_t", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ToolErrorKind::Denied, "{error}");
    assert_eq!(count(&web, "tools/call"), calls);
    far.bus.close().await;
}

/// Returns the outcome of a call of `t` with these arguments that waits for its answer when another one finds
/// that the server forgot the session, and the number of calls of `t` in all.
async fn while_the_session_ends(definition: Value, args: Value) -> (Result<String, ToolError>, usize) {
    let start = Arc::new(AtomicUsize::new(1));
    let web = with_sessions(&start, &["t"]).await;
    let far = host(&web, definition).await;
    command(&far, "mcp_far_p").await;
    let waiting = async { far.call("mcp_far_t", args).await.map(|output| output.content.to_text()) };
    let ending = async {
        let begun = async {
            while count(&web, "tools/call") == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, begun).await.unwrap();
        start.store(2, Ordering::SeqCst);
        assert_eq!(far.text("mcp_far_t", json!({})).await, "called");
    };
    let (waited, ()) = tokio::join!(waiting, ending);
    assert!(far.events("mcp:error").is_empty(), "a session that ended is no failure");
    far.bus.close().await;
    (waited, count(&web, "tools/call"))
}

#[tokio::test]
async fn a_call_without_an_answer_when_the_session_ends_is_repeated_only_if_it_changes_nothing() {
    let waits = json!({"waits": true});
    let (reads, calls) = while_the_session_ends(json!({"read_only": ["t"]}), waits.clone()).await;
    assert_eq!((reads.unwrap().as_str(), calls), ("called", 4), "both of them twice");
    let (changes, calls) = while_the_session_ends(json!({}), waits).await;
    let error = changes.unwrap_err();
    let told = "it forgot the session before it answered; outcome unknown: look whether it was carried out";
    assert!(error.kind == ToolErrorKind::Failed && error.message.contains(told), "{error}");
    assert_eq!(calls, 3, "only the other one twice");
}

#[tokio::test]
async fn a_call_that_the_server_refuses_behind_the_end_of_the_session_is_repeated_whatever_it_does() {
    let (called, calls) = while_the_session_ends(json!({}), json!({"is_late": true})).await;
    assert_eq!((called.unwrap().as_str(), calls), ("called", 4), "it was not carried out");
}

//! Lists in pages, lists that are kept, and streams that tell of changed lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zk_core::model::ToolErrorKind;
use zk_core::service::ToolCx;
use zk_mcp::ServerState;

use crate::rpc::{count, host, host_of, serve, text};
use crate::support::LONG;
use crate::web::{Said, Web};

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

#[tokio::test]
async fn tools_of_all_pages_are_listed() {
    let web = serve(|method, params, _| match (method, params["cursor"].as_str()) {
        ("tools/list", None) => Some(Ok(json!({"tools": [tool("a")], "nextCursor": "two"}))),
        ("tools/list", Some("two")) => Some(Ok(json!({"tools": [tool("b")], "nextCursor": "three"}))),
        ("tools/list", Some(_)) => Some(Ok(json!({"tools": [tool("c")]}))),
        _ => None,
    })
    .await;
    let far = host(&web, json!({})).await;
    let names = far.names();
    assert!(["mcp_far_a", "mcp_far_b", "mcp_far_c"].iter().all(|name| names.contains(&(*name).to_owned())));
    assert_eq!(count(&web, "tools/list"), 3);
    far.bus.close().await;
}

#[tokio::test]
async fn a_list_of_tools_that_does_not_end_is_one_clear_failure() {
    type Next = fn(usize) -> String;
    let cases: [(Next, &str, usize); 3] = [
        (|_| "again".to_owned(), "page 2 is followed by a page that was listed before", 2),
        (|at| (at % 3).to_string(), "page 4 is followed by a page that was listed before", 4),
        (|at| at.to_string(), "list of tools is too long", 101),
    ];
    for (next, part, asked) in cases {
        let pages = AtomicUsize::new(0);
        let web = serve(move |method, _, _| {
            let at = || pages.fetch_add(1, Ordering::SeqCst);
            (method == "tools/list")
                .then(|| Ok(json!({"tools": vec![tool("t"); 100], "nextCursor": next(at())})))
        })
        .await;
        let far = host_of(&web, json!({"start_timeout": 60_000})).await;
        let ServerState::Failed { error } = far.state() else { panic!("{:?}", far.state()) };
        assert!(error.contains("listing its tools failed") && error.contains(part), "{error}");
        // The server may be at its next attempt already.
        let count = count(&web, "tools/list");
        assert!(count >= asked && count < asked * 3, "{count}");
        far.bus.close().await;
    }
}

#[tokio::test]
async fn a_list_of_resources_that_does_not_end_is_told_and_ends() {
    let web = serve(|method, _, _| match method {
        "resources/list" => Some(Ok(json!({"resources": [], "nextCursor": "again"}))),
        _ => None,
    })
    .await;
    let far = host(&web, json!({})).await;
    let listed = far.text("mcp_list_resources", json!({})).await;
    assert!(listed.contains("cannot be listed: its list of resources does not end"), "{listed}");
    assert_eq!(count(&web, "resources/list"), 2);
    far.bus.close().await;
}

#[tokio::test]
async fn a_stream_of_changes_that_broke_is_opened_again_and_the_tools_are_listed_past_any_that_are_kept() {
    let stage = Arc::new(AtomicUsize::new(0));
    let now = stage.clone();
    let web = serve(move |method, params, _| match method {
        "subscriptions/listen" => Some(Ok(params["notifications"].clone())),
        "tools/list" => {
            let tools =
                if now.load(Ordering::SeqCst) == 0 { vec![tool("t")] } else { vec![tool("t"), tool("u")] };
            // Valid for an hour, by its header.
            Some(Ok(json!({"tools": tools, "ttlMs": 3_600_000, "cacheScope": "public"})))
        }
        "tools/call" => Some(Ok(text("called"))),
        _ => None,
    })
    .await;
    let far = host(&web, json!({})).await;
    assert_eq!(far.text("mcp_far_t", json!({})).await, "called");
    stage.store(1, Ordering::SeqCst);
    let known = count(&web, "subscriptions/listen");
    let state = far.until(|state| matches!(state, ServerState::Quarantined { .. })).await;
    let ServerState::Quarantined { changes, digest } = state else { panic!("{state:?}") };
    assert_eq!(changes, ["+ tool u: "]);
    let error = far.call("mcp_far_t", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ToolErrorKind::Denied, "{error}");
    assert_eq!(count(&web, "tools/call"), 1);
    let opened = async {
        while count(&web, "subscriptions/listen") <= known {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, opened).await.unwrap();
    far.servers.accept("far", &digest).await.unwrap();
    assert_eq!(far.text("mcp_far_u", json!({})).await, "called");
    far.bus.close().await;
}

#[tokio::test]
async fn tools_that_a_server_does_not_list_any_more_do_not_run_until_it_lists_them_again() {
    let fails = Arc::new(AtomicUsize::new(0));
    let now = fails.clone();
    let web = serve(move |method, params, _| match method {
        "subscriptions/listen" => Some(Ok(params["notifications"].clone())),
        "tools/list" if now.load(Ordering::SeqCst) == 1 => Some(Err((-32000, "the database is away"))),
        "tools/list" => Some(Ok(json!({"tools": [tool("t")], "ttlMs": 3_600_000, "cacheScope": "public"}))),
        "tools/call" => Some(Ok(text("called"))),
        _ => None,
    })
    .await;
    let far = host(&web, json!({})).await;
    fails.store(1, Ordering::SeqCst);
    far.until(|state| matches!(state, ServerState::Quarantined { .. })).await;
    let error = far.call("mcp_far_t", json!({})).await.unwrap_err();
    assert!(error.kind == ToolErrorKind::Denied && error.message.contains("the database is away"), "{error}");
    assert_eq!(count(&web, "tools/call"), 0);
    fails.store(0, Ordering::SeqCst);
    assert_eq!(far.text("mcp_far_t", json!({})).await, "called", "the call itself asks for the list again");
    far.bus.close().await;
}

#[tokio::test]
async fn a_listing_of_resources_that_is_stopped_is_cancelled_on_the_server_too() {
    let web = Web::start(|asked, _| {
        let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"resources": {}},
                "serverInfo": {"name": "far", "version": "1"},
            }),
            Some("server/discover") => return Said::status(400),
            Some("resources/list") => return Said::never(),
            Some(_) => return Said::status(202),
            None => return Said::status(405),
        };
        Said::json(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    })
    .await;
    let far = host(&web, json!({})).await;
    let stop = CancellationToken::new();
    let cx = ToolCx::new(far.bus.cx().with_stop(stop.clone()), "/");
    let sent = |method: &str| {
        let messages =
            web.asked("/mcp").into_iter().filter_map(|asked| serde_json::from_str(&asked.body).ok());
        messages.filter(|message: &Value| message["method"] == method).collect::<Vec<_>>()
    };
    let until_sent = async |method: &str| {
        while sent(method).is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let stopping = async {
        tokio::time::timeout(LONG, until_sent("resources/list")).await.unwrap();
        stop.cancel();
    };
    let (listed, ()) = tokio::join!(far.call_with("mcp_list_resources", json!({}), &cx), stopping);
    assert_eq!(listed.unwrap_err().kind, ToolErrorKind::Aborted);
    tokio::time::timeout(LONG, until_sent("notifications/cancelled")).await.unwrap();
    let (listing, cancelled) = (sent("resources/list"), sent("notifications/cancelled"));
    assert_eq!((listing.len(), cancelled.len()), (1, 1));
    assert_eq!(cancelled[0]["params"]["requestId"], listing[0]["id"]);
    far.bus.close().await;
}

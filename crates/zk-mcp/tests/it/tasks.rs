//! Calls that a server carries out as tasks.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zk_core::model::ToolErrorKind;
use zk_core::service::{Progress, RunControl, ToolCx};
use zk_mcp::McpPlugin;
use zk_testkit::{FakeMcpEra, FakeMcpScript};

use crate::asking::{self, Run};
use crate::support::{Host, LONG, config};

async fn call(host: &Host, task: Value) -> Result<String, String> {
    let cx = host.bus.cx().with_service::<dyn RunControl>(Arc::new(Run::default()));
    let called = host.call_with("mcp_fake_slow", json!({"task": task}), &ToolCx::new(cx, "/")).await;
    called.map(|output| output.content.to_text()).map_err(|error| error.message)
}

#[tokio::test]
async fn a_task_is_followed_to_its_result_its_failure_and_past_its_questions() {
    let host = asking::host(FakeMcpEra::Modern, "allow").await;
    assert_eq!(call(&host, json!({"polls": 3})).await.unwrap(), "done as a task");
    assert_eq!(call(&host, json!({"polls": 2, "asked": true})).await.unwrap(), "done as a task");
    let error = call(&host, json!({"polls": 1, "fail": true})).await.unwrap_err();
    assert!(error.contains("the task is broken"), "{error}");
    host.bus.close().await;
}

#[tokio::test]
async fn a_task_shows_its_progress_and_is_cancelled_when_nobody_waits_for_it_any_more() {
    let said: Arc<Mutex<String>> = Arc::default();
    let script = FakeMcpScript { era: FakeMcpEra::Modern, ..FakeMcpScript::default() };
    let heard = said.clone();
    let plugin = McpPlugin::new([config("fake", &script)], std::env::temp_dir());
    let host = Host::new(plugin.on_log(move |_, bytes| {
        heard.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
    }));
    host.servers.warm_up(LONG).await;
    let stop = CancellationToken::new();
    let mut cx = ToolCx::new(host.bus.cx().with_stop(stop.clone()), "/");
    cx.progress = Progress::new(move |text| {
        if text.contains("polled 2 times") {
            stop.cancel();
        }
    });
    let endless = json!({"task": {"polls": 1_000_000}});
    let error = host.call_with("mcp_fake_slow", endless, &cx).await.unwrap_err();
    assert_eq!(error.kind, ToolErrorKind::Aborted);
    let told = async {
        while !said.lock().unwrap().contains("the task is cancelled") {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, told).await.unwrap();
    host.bus.close().await;
}

// The task may be done anyway: the reader checks, and nothing repeats it.
#[tokio::test]
async fn a_task_whose_server_is_gone_has_an_unknown_outcome() {
    let script = FakeMcpScript { era: FakeMcpEra::Modern, ..FakeMcpScript::default() };
    let host = Host::new(McpPlugin::new([config("fake", &script)], std::env::temp_dir()));
    host.servers.warm_up(LONG).await;
    let (polled, mut is_polled) = tokio::sync::mpsc::unbounded_channel();
    let mut cx = ToolCx::new(host.bus.cx(), "/");
    let begun = Arc::new(Mutex::new(0));
    let counted = begun.clone();
    cx.progress = Progress::new(move |text| {
        *counted.lock().unwrap() += usize::from(text.contains("polled 0 times"));
        if text.contains("polled 2 times") {
            let _ = polled.send(());
        }
    });
    let crash_cx = ToolCx::new(host.bus.cx(), "/");
    let calling = host.call_with("mcp_fake_slow", json!({"task": {"polls": 1_000_000}}), &cx);
    let crashing = async {
        is_polled.recv().await.unwrap();
        let _ = host.call_with("mcp_fake_crash", json!({}), &crash_cx).await;
    };
    let (ended, ()) = tokio::time::timeout(LONG, async { tokio::join!(calling, crashing) }).await.unwrap();
    let error = ended.unwrap_err().message;
    assert!(error.contains("outcome unknown"), "{error}");
    assert_eq!(*begun.lock().unwrap(), 1, "it was begun once");
    host.bus.close().await;
}

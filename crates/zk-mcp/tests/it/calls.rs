use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zk_core::kernel::Cx;
use zk_core::model::{Block, Concurrency, ToolContent, ToolErrorKind};
use zk_core::service::{Command, CommandOutcome, Progress, Question, Questions, Tool, ToolCx, UiAnswer};
use zk_mcp::{McpPlugin, ServerConfig, ServerState};
use zk_testkit::{FakeMcpEra, FakeMcpFault, FakeMcpScript};

use crate::support::{Host, LONG, PANICS, config, fake};

#[tokio::test]
async fn tools_of_a_program_can_be_called_under_names_with_its_own() {
    let host = Host::ready(&FakeMcpScript::default()).await;
    assert!(host.names().contains(&"mcp_fake_echo".to_owned()), "{:?}", host.names());
    assert_eq!(host.text("mcp_fake_echo", json!({"text": "hällo\n"})).await, "hällo\n");
    assert_eq!(host.text("mcp_fake_add", json!({"a": 1, "b": 2})).await, "{\"sum\":3.0}");
    let image = host.call("mcp_fake_image", json!({})).await.unwrap();
    assert!(matches!(&image.content, ToolContent::Blocks(blocks) if matches!(blocks[0], Block::Image(_))));
    let failed = host.call("mcp_fake_fail", json!({})).await.unwrap_err();
    assert_eq!((failed.kind, failed.message.as_str()), (ToolErrorKind::Failed, "it is broken"));
    host.bus.close().await;
}

#[tokio::test]
async fn a_call_runs_beside_others_only_if_the_person_says_that_it_changes_nothing() {
    let hint = |name: &str| {
        json!({"name": name, "description": "Looks", "inputSchema": {"type": "object"},
               "annotations": {"readOnlyHint": true}})
    };
    let script = FakeMcpScript { tools: Some(vec![hint("echo"), hint("env")]), ..FakeMcpScript::default() };
    let mut server = fake(&script);
    server["read_only"] = json!(["env"]);
    let host = Host::of([ServerConfig::read("fake", &server).unwrap()]);
    host.servers.warm_up(LONG).await;
    let concurrency = |name: &str| host.bus.item::<dyn Tool>(name).unwrap().concurrency(&json!({}));
    assert_eq!(concurrency("mcp_fake_echo"), Concurrency::Exclusive, "its own word is not enough");
    assert_eq!(concurrency("mcp_fake_env"), Concurrency::Shared);
    host.bus.close().await;
}

#[tokio::test]
async fn servers_of_every_era_are_spoken_to_in_theirs() {
    for (era, protocol) in [
        (FakeMcpEra::Legacy, "2025-11-25"),
        (FakeMcpEra::Modern, "2026-07-28"),
        (FakeMcpEra::Careless, "2025-11-25"),
    ] {
        let host = Host::ready(&FakeMcpScript { era, ..FakeMcpScript::default() }).await;
        assert_eq!(host.state(), ServerState::Ready { protocol: protocol.to_owned() }, "{era:?}");
        assert_eq!(host.text("mcp_fake_echo", json!({"text": "x"})).await, "x", "{era:?}");
        host.bus.close().await;
    }
}

#[tokio::test]
async fn a_program_gets_a_cleared_environment_and_what_its_definition_grants() {
    let host = Host::ready(&FakeMcpScript::default()).await;
    let vars = host.text("mcp_fake_env", json!({})).await;
    assert!(vars.contains("PATH") && vars.contains("ZK_FAKE_MCP"), "{vars}");
    assert!(!vars.contains("SECRET_TOKEN"), "{vars}");
    host.bus.close().await;
}

#[tokio::test]
async fn progress_is_shown_while_a_call_runs() {
    let host = Host::ready(&FakeMcpScript::default()).await;
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = seen.clone();
    let mut cx = ToolCx::new(host.bus.cx(), "/");
    cx.progress = Progress::new(move |text| sink.lock().unwrap().push(text.to_owned()));
    host.call_with("mcp_fake_slow", json!({"steps": 3, "step_ms": 30}), &cx).await.unwrap();
    let seen = seen.lock().unwrap().concat();
    assert!(seen.contains("2/3 working\n") && seen.contains("3/3 working\n"), "{seen}");
    host.bus.close().await;
}

#[tokio::test]
async fn a_call_that_makes_progress_is_not_given_up_and_one_that_makes_none_is() {
    let mut definition = fake(&FakeMcpScript::default());
    (definition["timeout"], definition["tool_timeouts"]) = (json!(60_000), json!({"slow": 400}));
    let host = Host::of([ServerConfig::read("fake", &definition).unwrap()]);
    host.servers.warm_up(LONG).await;
    let steady = json!({"steps": 12, "step_ms": 60});
    assert_eq!(host.text("mcp_fake_slow", steady).await, "done");
    let quiet = json!({"steps": 1000, "step_ms": 60, "is_quiet": true});
    let error = host.call("mcp_fake_slow", quiet).await.unwrap_err();
    assert_eq!(error.kind, ToolErrorKind::TimedOut);
    assert!(error.message.contains("no answer and no progress for 0.4 s"), "{error}");
    // The server got the cancellation, and takes the next call.
    assert_eq!(host.text("mcp_fake_echo", json!({"text": "x"})).await, "x");
    host.bus.close().await;
}

#[tokio::test]
async fn a_stopped_call_ends_at_once_and_the_server_is_told() {
    let host = Host::ready(&FakeMcpScript::default()).await;
    let stop = CancellationToken::new();
    let mut cx = ToolCx::new(host.bus.cx().with_stop(stop.clone()), "/");
    // The first step was made: the call runs.
    cx.progress = Progress::new(move |_| stop.cancel());
    let endless = json!({"steps": 100_000, "step_ms": 100});
    let error = host.call_with("mcp_fake_slow", endless, &cx).await.unwrap_err();
    assert_eq!(error.kind, ToolErrorKind::Aborted);
    // The server would be busy for hours otherwise.
    assert_eq!(host.text("mcp_fake_echo", json!({"text": "x"})).await, "x");
    host.bus.close().await;
}

#[tokio::test]
async fn a_server_that_crashed_is_started_again_and_its_tools_stay() {
    let host = Host::ready(&FakeMcpScript::default()).await;
    let before = host.names();
    let error = host.call("mcp_fake_crash", json!({})).await.unwrap_err();
    assert!(error.message.contains("exit code 3"), "{error}");
    assert_eq!(host.names(), before);
    assert_eq!(host.text("mcp_fake_echo", json!({"text": "again"})).await, "again");
    let errors = host.events("mcp:error");
    assert!(errors[0]["error"].as_str().unwrap().contains("fake server is up"), "{errors:?}");
    assert!(errors[0]["retry_in_ms"].is_u64(), "{errors:?}");
    host.bus.close().await;
}

#[tokio::test]
async fn a_server_that_panics_in_the_middle_of_a_call_fails_that_call_and_is_started_again() {
    let script = FakeMcpScript { instructions: Some(PANICS.to_owned()), ..FakeMcpScript::default() };
    let host = Host::ready(&script).await;
    let error = host.call("mcp_fake_crash", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ToolErrorKind::Failed);
    assert!(error.message.contains("exit code 101"), "{error}");
    assert_eq!(host.text("mcp_fake_echo", json!({"text": "again"})).await, "again");
    let errors = host.events("mcp:error");
    // The end of its output is shown: the visible part of the panic depends on its program's later output.
    assert!(errors[0]["error"].as_str().unwrap().contains("exit code 101; it said: "), "{errors:?}");
    host.bus.close().await;
}

#[tokio::test]
async fn an_answer_of_100_mb_ends_the_connection_and_not_the_memory() {
    let script = FakeMcpScript { fault: Some(FakeMcpFault::Huge), ..FakeMcpScript::default() };
    let host = Host::ready(&script).await;
    let error = host.call("mcp_fake_echo", json!({"text": "x"})).await.unwrap_err();
    assert!(error.message.contains("more than 16777216 bytes"), "{error}");
    assert_eq!(host.text("mcp_fake_add", json!({"a": 1, "b": 1})).await, "{\"sum\":2.0}");
    host.bus.close().await;
}

#[tokio::test]
async fn an_answer_of_too_many_values_is_an_error_of_its_call_alone() {
    let script = FakeMcpScript { fault: Some(FakeMcpFault::ManyValues), ..FakeMcpScript::default() };
    let host = Host::ready(&script).await;
    let error = host.call("mcp_fake_echo", json!({"text": "x"})).await.unwrap_err();
    assert!(error.message.contains("more than 250000 values"), "{error}");
    assert_eq!(host.text("mcp_fake_add", json!({"a": 1, "b": 1})).await, "{\"sum\":2.0}");
    host.bus.close().await;
}

#[tokio::test]
async fn floods_storms_chatter_and_wrong_ids_do_not_keep_a_call_from_its_result() {
    for fault in [FakeMcpFault::Floods, FakeMcpFault::Storms, FakeMcpFault::Chatty, FakeMcpFault::WrongIds] {
        let script = FakeMcpScript { fault: Some(fault), ..FakeMcpScript::default() };
        let host = Host::of([config("fake", &script)]);
        host.servers.warm_up(LONG).await;
        assert_eq!(host.text("mcp_fake_echo", json!({"text": "x"})).await, "x", "{fault:?}");
        host.bus.close().await;
    }
}

#[tokio::test]
async fn how_servers_are_is_shown_in_the_running_conversation() {
    let host = Host::ready(&FakeMcpScript::default()).await;
    let command = host.bus.item::<dyn Command>("mcp").unwrap();
    let CommandOutcome::Show(shown) = command.run("", &host.bus.cx()).await.unwrap() else { panic!() };
    assert!(shown.contains("fake") && shown.contains("ready, 11 tools, 2025-11-25"), "{shown}");
    host.bus.close().await;
}

/// A prompt as a command, once it is one.
pub(crate) async fn command(host: &Host, name: &str) -> Arc<dyn Command> {
    let offered = async {
        loop {
            match host.bus.item::<dyn Command>(name) {
                Some(command) => return command,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    tokio::time::timeout(LONG, offered).await.expect("no such command")
}

#[tokio::test]
async fn prompts_and_resources_of_a_server_can_be_used() {
    let host = Host::ready(&FakeMcpScript::default()).await;
    let listed = host.text("mcp_list_resources", json!({})).await;
    assert!(listed.contains("fake://readme"), "{listed}");
    let read = host.text("mcp_read_resource", json!({"server": "fake", "uri": "fake://readme"})).await;
    assert!(read.contains("A fake."), "{read}");
    let command = command(&host, "mcp_fake_review").await;
    let outcome = command.run("src/main.rs", &host.bus.cx()).await.unwrap();
    assert_eq!(outcome, CommandOutcome::Prompt("Review src/main.rs".to_owned()));
    assert!(command.run("", &host.bus.cx()).await.is_err(), "its argument is needed");
    host.bus.close().await;
}

#[tokio::test]
async fn forms_of_a_server_are_answered_by_a_person_and_declined_without_one() {
    let host = Host::ready(&FakeMcpScript::default()).await;
    let declined = host.text("mcp_fake_ask", json!({})).await;
    assert!(declined.contains("decline"), "{declined}");
    let questions = Arc::new(Questions::new());
    host.bus.scope("person").provide_service(questions.clone());
    let person = questions.attach();
    let answers = async {
        // Whether to answer at all, then name, age, certainty, and a colour.
        for _ in 0..5 {
            let asked = person.next().await;
            let text = |text: &str| UiAnswer::Text { text: text.to_owned() };
            let answer = match &asked.question {
                Question::Confirm { .. } => UiAnswer::Once,
                Question::Select { .. } => UiAnswer::Choice { index: 1 },
                Question::Input { text: about } if about.contains("age") => text("7"),
                _ => text("Zoe"),
            };
            person.answer(asked.id, asked.digest, answer).unwrap();
        }
    };
    let (filled, ()) = tokio::join!(host.text("mcp_fake_ask", json!({})), answers);
    let filled: Value = serde_json::from_str(&filled).unwrap();
    assert_eq!(filled["action"], "accept");
    assert_eq!(filled["content"], json!({"name": "Zoe", "age": 7, "sure": true, "colour": "green"}));
    host.bus.close().await;
}

/// A call of a tool that shows a form is stopped while the form is open.
pub(crate) async fn stop_with_form(host: &Host, tool: &str) {
    let called = stop_at_form(host, async |cx| host.call_with(tool, json!({}), &ToolCx::new(cx, "/")).await);
    assert_eq!(called.await.unwrap_err().kind, ToolErrorKind::Aborted);
}

/// Outcome of a request that is stopped while its form is open; the form is withdrawn.
async fn stop_at_form<T>(host: &Host, request: impl AsyncFnOnce(Cx) -> T) -> T {
    let questions = Arc::new(Questions::new());
    let scope = host.bus.scope("person");
    scope.provide_service(questions.clone());
    let mut person = questions.attach();
    let stop = CancellationToken::new();
    let stopping = async {
        person.next().await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(request(host.bus.cx().with_stop(stop.clone())), stopping);
    let gone = async {
        while !person.pending().is_empty() {
            person.changed().await;
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("the form stays");
    scope.close().await;
    ended
}

#[tokio::test]
async fn a_form_ends_with_the_prompt_or_the_resource_that_it_belongs_to() {
    let host = Host::ready(&FakeMcpScript::default()).await;
    let command = command(&host, "mcp_fake_review").await;
    let stopped = stop_at_form(&host, async |cx| command.run("ask", &cx).await).await;
    assert!(stopped.unwrap_err().to_string().ends_with("stopped"));
    let stopped = stop_at_form(&host, async |cx| {
        let ask = json!({"server": "fake", "uri": "fake://ask"});
        host.call_with("mcp_read_resource", ask, &ToolCx::new(cx, "/")).await
    });
    assert_eq!(stopped.await.unwrap_err().kind, ToolErrorKind::Aborted);
    host.bus.close().await;
}

#[tokio::test]
async fn a_form_ends_with_the_call_that_it_belongs_to() {
    let host = Host::ready(&FakeMcpScript::default()).await;
    stop_with_form(&host, "mcp_fake_ask").await;
    assert_eq!(host.text("mcp_fake_echo", json!({"text": "x"})).await, "x");
    host.bus.close().await;
}

#[tokio::test]
async fn a_person_who_thinks_longer_than_the_time_out_of_a_server_does_not_lose_the_call() {
    let mut definition = fake(&FakeMcpScript::default());
    definition["timeout"] = json!(60_000);
    let host = Host::of([ServerConfig::read("fake", &definition).unwrap()]);
    host.servers.warm_up(LONG).await;
    let questions = Arc::new(Questions::new());
    host.bus.scope("person").provide_service(questions.clone());
    let person = questions.attach();
    let declines = async {
        let asked = person.next().await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(120)).await;
        tokio::time::resume();
        person.answer(asked.id, asked.digest, UiAnswer::No { message: None }).unwrap();
    };
    let tool = host.bus.item::<dyn Tool>("mcp_fake_ask").unwrap();
    let cx = ToolCx::new(host.bus.cx(), std::env::temp_dir());
    let approved = cx.approve(tool.clone(), json!({})).await.unwrap();
    let (answer, ()) = tokio::join!(tool.call(&approved, &cx), declines);
    let answer = answer.unwrap().content.to_text();
    assert!(answer.contains("decline"), "{answer}");
    host.bus.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_stopped_or_dropped_at_any_await_leaves_a_server_that_answers_the_next() {
    let host = Host::ready(&FakeMcpScript::default()).await;
    for is_dropped in [false, true] {
        for n in 0..8 {
            let stop = CancellationToken::new();
            let cx = ToolCx::new(host.bus.cx().with_stop(stop.clone()), "/");
            let result = {
                let call = host.call_with("mcp_fake_slow", json!({"steps": 400, "step_ms": 50}), &cx);
                let mut call = std::pin::pin!(call);
                let mut polled = 0;
                let mut tick = tokio::time::interval(Duration::from_millis(5));
                std::future::poll_fn(|cx| {
                    while tick.poll_tick(cx).is_ready() {}
                    if polled == n {
                        stop.cancel();
                        if is_dropped {
                            return std::task::Poll::Ready(None);
                        }
                    }
                    polled += 1;
                    call.as_mut().poll(cx).map(Some)
                })
                .await
            };
            assert_eq!(result.is_none(), is_dropped, "at {n}");
            if let Some(ended) = result {
                assert_eq!(ended.unwrap_err().kind, ToolErrorKind::Aborted, "at {n}");
            }
            assert_eq!(
                host.text("mcp_fake_echo", json!({"text": "still here"})).await,
                "still here",
                "at {n}"
            );
        }
    }
    host.bus.close().await;
}

#[tokio::test]
async fn a_tool_has_a_title_for_a_person_and_its_calls_keep_the_name_that_they_begin_with() {
    let tool = |more: Value| {
        let mut tool = json!({"name": "echo", "description": "Echoes", "inputSchema": {"type": "object"}});
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tool
    };
    for (more, title) in [
        (json!({"title": "Say it\u{1b}[2J again"}), "Say it"),
        (json!({"annotations": {"title": "Say it"}}), "Say it"),
        (json!({"title": "echo"}), "mcp_fake_echo"),
        (json!({}), "mcp_fake_echo"),
    ] {
        let script = FakeMcpScript { tools: Some(vec![tool(more.clone())]), ..FakeMcpScript::default() };
        let host = Host::new(McpPlugin::new([config("fake", &script)], std::env::temp_dir()));
        host.servers.warm_up(LONG).await;
        let tool = host.bus.item::<dyn Tool>("mcp_fake_echo").unwrap();
        assert!(
            tool.title().starts_with(title) && !tool.title().contains('\u{1b}'),
            "{more}: {:?}",
            tool.title()
        );
        assert_eq!(tool.summary(&json!({})), "mcp_fake_echo", "{more}");
        assert_eq!(tool.summary(&json!({"text": "hello"})), "mcp_fake_echo hello", "{more}");
        host.bus.close().await;
    }
}

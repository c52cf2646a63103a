use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{
    Block, ErrorKind, Image, Message, Phase, ProviderError, StopReason, Usage, WireReady, WireRules,
};
use zk_core::service::{Provider, Request, StreamEvent};
use zk_testkit::{Script, ScriptedProvider, Turn};

fn request(provider: &ScriptedProvider, history: &[Arc<Message>]) -> Request {
    let model = provider.model(ScriptedProvider::MODEL);
    let history = WireReady::normalise(history, &provider.rules(&model));
    Request::new(model, history)
}

async fn ask(
    provider: &ScriptedProvider,
    history: &[Arc<Message>],
) -> Vec<Result<StreamEvent, ProviderError>> {
    let cx = Bus::new().cx();
    provider.stream(request(provider, history), &cx).collect().await
}

fn blocks(events: &[Result<StreamEvent, ProviderError>]) -> Vec<Block> {
    let complete = events.iter().filter_map(|event| match event {
        Ok(StreamEvent::Block { content, .. }) => Some(content.clone()),
        _ => None,
    });
    complete.collect()
}

fn error(events: &[Result<StreamEvent, ProviderError>]) -> &ProviderError {
    events.last().unwrap().as_ref().unwrap_err()
}

fn hello() -> [Arc<Message>; 1] {
    [Message::user_text("hello").shared()]
}

#[tokio::test]
async fn a_turn_streams_its_pieces_then_each_whole_block_then_why_it_ended() {
    let provider = ScriptedProvider::new(
        Script::new().turn(|t| t.chunks(["Let me ", "look."]).call("read_file", json!({"path": "a"}))),
    );
    let events: Vec<_> = ask(&provider, &hello()).await.into_iter().map(Result::unwrap).collect();
    let call = zk_core::model::ToolCall::new("call_1", "read_file", json!({"path": "a"}));
    assert_eq!(
        events,
        [
            StreamEvent::Start { model: Some("scripted-1".into()), request_id: Some("request_1".into()) },
            StreamEvent::Text { block: 0, delta: "Let me ".into() },
            StreamEvent::Text { block: 0, delta: "look.".into() },
            StreamEvent::Block { block: 0, content: Block::text("Let me look.") },
            StreamEvent::ToolCall { block: 1, id: "call_1".into(), name: "read_file".into() },
            StreamEvent::ToolArgs { block: 1, delta: r#"{"path":"a"}"#.into() },
            StreamEvent::Block { block: 1, content: Block::ToolCall(call) },
            StreamEvent::Done { stop: StopReason::ToolUse, usage: Usage::default() },
        ]
    );
}

#[tokio::test]
async fn calls_are_numbered_over_the_whole_script() {
    let provider = ScriptedProvider::new(
        Script::new()
            .turn(|t| t.call("a", json!({})).call("b", json!({})))
            .turn(|t| t.call_as("mine", "c", json!({})).call("d", json!({}))),
    );
    let mut ids = Vec::new();
    for _ in 0..2 {
        for block in blocks(&ask(&provider, &hello()).await) {
            if let Block::ToolCall(call) = block {
                ids.push(call.id.to_string());
            }
        }
    }
    assert_eq!(ids, ["call_1", "call_2", "mine", "call_3"]);
}

#[tokio::test]
async fn arguments_that_are_not_json_are_marked_malformed() {
    let provider = ScriptedProvider::new(
        Script::new().turn(|t| t.raw_call("shell", r#"{"command": "ls"#).stop(StopReason::MaxTokens)),
    );
    let events = ask(&provider, &hello()).await;
    let [Block::ToolCall(call)] = &blocks(&events)[..] else { panic!("one call") };
    assert_eq!(call.malformed.as_deref(), Some(r#"{"command": "ls"#));
    assert_eq!(call.args, json!({}));
    assert!(matches!(events.last(), Some(Ok(StreamEvent::Done { stop: StopReason::MaxTokens, .. }))));
}

#[tokio::test]
async fn thinking_names_the_model_it_came_from() {
    let provider = ScriptedProvider::new(
        Script::new().turn(|t| t.signed_thinking("hm", "sig").redacted("xx").text("yes")),
    );
    let blocks = blocks(&ask(&provider, &hello()).await);
    let [Block::Thinking(open), Block::Thinking(closed), Block::Text(_)] = &blocks[..] else {
        panic!("{blocks:?}")
    };
    assert_eq!(open.signature.as_deref(), Some("sig"));
    assert_eq!(closed.redacted.as_deref(), Some("xx"));
    assert_eq!(open.origin, Some(provider.model(ScriptedProvider::MODEL).reference()));
}

#[tokio::test]
async fn a_computed_turn_sees_the_results_of_the_calls_before_it() {
    let provider =
        ScriptedProvider::new(Script::new().turn(|t| t.call("shell", json!({}))).respond(|asked| {
            let result = asked.result_of("shell").unwrap();
            Turn::new().text(format!("{} said {}", result.call_id, result.text))
        }));
    let call = blocks(&ask(&provider, &hello()).await);
    let history = [
        Message::user_text("hello").shared(),
        Message::assistant(call).shared(),
        Message::user(vec![Block::result("call_1", "42", false)]).shared(),
    ];
    assert_eq!(blocks(&ask(&provider, &history).await), [Block::text("call_1 said 42")]);
    assert_eq!(provider.requests().len(), 2);
    assert_eq!(provider.last_user_text(), "hello");
    assert_eq!(provider.last_results()[0].text, "42");
}

#[tokio::test]
async fn past_the_end_of_the_script_the_error_says_so() {
    let provider = ScriptedProvider::new(Script::new().turn(|t| t.text("one")));
    ask(&provider, &hello()).await;
    let events = ask(&provider, &hello()).await;
    let error = error(&events);
    assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::Rejected, Some("script_ended")));
    assert!(error.message.contains("has 1 turns and turn 2"), "{error}");
}

#[tokio::test]
async fn a_script_that_goes_on_forever_never_ends() {
    let provider = ScriptedProvider::new(Script::answering(|asked| {
        Turn::new().text(format!("answer {}", asked.number))
    }));
    for number in 1..=3 {
        assert_eq!(blocks(&ask(&provider, &hello()).await), [Block::text(format!("answer {number}"))]);
    }
}

#[tokio::test]
async fn an_error_ends_the_stream_and_knows_how_far_it_had_got() {
    let provider = ScriptedProvider::new(
        Script::new()
            .turn(|t| t.error(ErrorKind::Overloaded, "come back later"))
            .turn(|t| t.text("half").error(ErrorKind::Transport, "reset").text("never said")),
    );
    let first = ask(&provider, &hello()).await;
    assert_eq!(first.len(), 1);
    assert_eq!((error(&first).kind, error(&first).phase), (ErrorKind::Overloaded, Phase::Response));
    let second = ask(&provider, &hello()).await;
    assert_eq!(blocks(&second), [Block::text("half")]);
    assert_eq!((error(&second).phase, &*error(&second).provider), (Phase::Stream, "scripted"));
}

#[tokio::test]
async fn a_hanging_stream_ends_when_the_run_is_stopped() {
    let provider = ScriptedProvider::new(Script::new().turn(|t| t.text("one moment").hang()));
    let stop = CancellationToken::new();
    let cx: Cx = Bus::new().cx().with_stop(stop.clone());
    let mut stream = provider.stream(request(&provider, &hello()), &cx);
    for _ in 0..4 {
        stream.next().await.unwrap().unwrap();
    }
    let stopper = tokio::spawn(async move { stop.cancel() });
    assert_eq!(stream.next().await.unwrap().unwrap_err().kind, ErrorKind::Aborted);
    assert!(stream.next().await.is_none());
    stopper.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn delays_and_pace_follow_the_clock_of_the_runtime() {
    let script = Script::new().turn(|t| t.chunks(["a", "b"]).delay(Duration::from_secs(5)));
    let provider = ScriptedProvider::new(script.pace(Duration::from_secs(1)));
    let begin = tokio::time::Instant::now();
    ask(&provider, &hello()).await;
    assert_eq!(begin.elapsed(), Duration::from_secs(7));
}

#[tokio::test]
async fn a_history_made_for_another_provider_is_rejected() {
    let provider = ScriptedProvider::new(Script::answering(|_| Turn::new().text("never said")))
        .with_rules(|model| WireRules { vision: false, ..WireRules::tolerant(model.reference()) });
    let image = Block::Image(Image::new("image/png", "aGk="));
    let history = [Message::user(vec![image]).shared()];
    let mut request = request(&provider, &history);
    request.history = WireReady::normalise(&history, &WireRules::tolerant(request.model.reference()));
    let events: Vec<_> = provider.stream(request, &Bus::new().cx()).collect().await;
    assert_eq!(error(&events).code.as_deref(), Some("invalid_history"));
}

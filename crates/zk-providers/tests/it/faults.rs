//! Faults that a client meets sooner or later: cuts, silence, lies and pages for browsers.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::Bus;
use zk_core::model::{Block, ErrorKind, Phase, ProviderError, StopReason};
use zk_core::service::{Provider, StreamEvent};
use zk_providers::{Anthropic, AnthropicOptions, Clocks, Compat, CompatProfile, Connection, Gemini};

use crate::collect::{Answer, collect, question};
use crate::server::{Reply, Server};

const CHAT: &str = "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"hel\"}}]}\n\n\
    data: {\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}\n\n";
const CHAT_END: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const MESSAGES: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{}}}\n\n\
    event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
    event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n\
    event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n";
const MESSAGES_END: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n\
    event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

fn short() -> Clocks {
    Clocks {
        first_event: Duration::from_millis(400),
        liveness: Duration::from_millis(200),
        progress: Duration::from_millis(300),
        ending: Duration::from_millis(50),
    }
}

fn chat(url: &str) -> Compat {
    let connection = Connection { clocks: Some(short()), ..Connection::at(url).key("sk-secret-key") };
    Compat::new(connection, CompatProfile::default()).expect("valid options")
}

fn anthropic(url: &str) -> Anthropic {
    anthropic_by(url, short())
}

fn anthropic_by(url: &str, clocks: Clocks) -> Anthropic {
    let connection = Anthropic::connection().base_url(url).key("sk-secret-key");
    let connection = Connection { clocks: Some(clocks), ..connection };
    Anthropic::new(connection, AnthropicOptions::default()).expect("valid options")
}

async fn ask(provider: &dyn Provider) -> Result<Answer, (ProviderError, Answer)> {
    collect(provider.stream(question(provider, "m"), &Bus::new().cx())).await
}

/// Outcome for each dialect, with these replies after the head.
async fn both(chat_reply: Reply, messages_reply: Reply) -> [Result<Answer, (ProviderError, Answer)>; 2] {
    let (one, two) = (Server::start([chat_reply]).await, Server::start([messages_reply]).await);
    [ask(&chat(&one.url)).await, ask(&anthropic(&two.url)).await]
}

fn error(result: Result<Answer, (ProviderError, Answer)>) -> ProviderError {
    let error = result.expect_err("this cannot be a success").0;
    assert!(!error.to_string().contains("sk-secret-key"), "{error}");
    error
}

#[tokio::test]
async fn a_whole_answer_is_an_answer() {
    let replies = [[CHAT, CHAT_END].concat(), [MESSAGES, MESSAGES_END].concat()];
    for result in both(Reply::sse(&replies[0]), Reply::sse(&replies[1])).await {
        let answer = result.expect("it is whole");
        assert_eq!((answer.text.as_str(), answer.stop), ("hello", Some(StopReason::EndTurn)));
    }
}

#[tokio::test]
async fn a_stream_that_ends_early_is_an_error_and_never_a_short_success() {
    for result in both(Reply::sse(CHAT), Reply::sse(MESSAGES)).await {
        let error = error(result);
        assert_eq!((error.kind, error.phase), (ErrorKind::Malformed, Phase::Stream));
        assert!(error.message.contains("ended without"), "{error}");
        assert_eq!(error.request_id.as_deref(), Some("req_test"));
    }
}

#[tokio::test]
async fn an_error_behind_some_text_is_one_of_the_stream_although_both_came_at_once() {
    let chat = [CHAT, "data: {\"error\":{\"code\":502,\"message\":\"gone\"}}\n\n"].concat();
    let overloaded = "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"gone\"}}";
    let messages = [MESSAGES, "event: error\ndata: ", overloaded, "\n\n"].concat();
    for result in both(Reply::sse(chat), Reply::sse(messages)).await {
        let error = error(result);
        assert_eq!((error.kind, error.phase), (ErrorKind::Overloaded, Phase::Stream), "{error}");
    }
}

#[tokio::test]
async fn an_empty_stream_is_an_error_with_advice() {
    for result in both(Reply::sse(""), Reply::sse(": only a comment\n\n")).await {
        let error = error(result);
        assert_eq!(error.kind, ErrorKind::Malformed);
        assert!(error.hint.is_some_and(|hint| hint.contains("too long")));
    }
}

#[tokio::test]
async fn a_broken_connection_is_a_transport_error() {
    let long =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n{CHAT}");
    let cut = Reply::default().send(long);
    let pause = Duration::from_millis(30);
    for result in both(cut, Reply::sse(MESSAGES).sleep(pause).reset()).await {
        let error = error(result);
        assert_eq!((error.kind, error.phase), (ErrorKind::Transport, Phase::Stream), "{error}");
    }
}

#[tokio::test]
async fn a_cut_behind_the_last_word_of_a_chat_answer_loses_nothing() {
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let whole = Reply::sse([CHAT, end].concat());
    for reply in [whole.clone(), whole.clone().sleep(Duration::from_millis(20)).reset(), whole.hang()] {
        let server = Server::start([reply]).await;
        let answer = ask(&chat(&server.url)).await.expect("only the end mark is missing");
        assert_eq!(answer.text, "hello");
    }
}

#[tokio::test]
async fn half_an_event_behind_the_last_word_of_a_chat_answer_spoils_nothing() {
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    for half in ["data: [DO", "data: {\"choices\":[],\"usage\":{\"prompt_to"] {
        let whole = Reply::sse([CHAT, end, half].concat());
        for reply in [whole.clone(), whole.clone().sleep(Duration::from_millis(20)).reset(), whole.hang()] {
            let server = Server::start([reply]).await;
            let answer = ask(&chat(&server.url)).await.expect("only counts and the end mark are missing");
            assert_eq!(answer.text, "hello");
        }
    }
    let broken = Reply::sse([CHAT, end, "data: {\"choices\":\n\ndata: [DONE]\n\n"].concat());
    let server = Server::start([broken]).await;
    assert_eq!(
        error(ask(&chat(&server.url)).await).kind,
        ErrorKind::Malformed,
        "a whole event that is broken"
    );
}

#[tokio::test]
async fn every_clock_ends_the_wait_it_is_for() {
    let pings = |event: &str, reply: Reply| {
        (0..120).fold(reply, |reply, _| reply.send(event).sleep(Duration::from_millis(25)))
    };
    // Far enough apart that a busy machine does not confuse them.
    let clocks = Clocks {
        first_event: Duration::from_millis(1600),
        liveness: Duration::from_millis(800),
        progress: Duration::from_millis(1600),
        ending: Duration::from_millis(50),
    };
    let ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    let cases = [
        (Reply::default().hang(), "first-event", Phase::Response),
        (pings(ping, Reply::sse("")), "first-event", Phase::FirstEvent),
        (Reply::sse(MESSAGES).hang(), "liveness", Phase::Stream),
        (pings(ping, Reply::sse(MESSAGES)), "progress", Phase::Stream),
        (pings(": x\n\n", Reply::sse(MESSAGES)), "progress", Phase::Stream),
    ];
    let met = cases.into_iter().map(async |(reply, clock, phase)| {
        let server = Server::start([reply]).await;
        let error = error(ask(&anthropic_by(&server.url, clocks)).await);
        assert_eq!((error.kind, error.phase), (ErrorKind::Stalled, phase), "{error}");
        assert!(error.message.contains(&format!("the {clock} clock")), "{error}");
        assert!(error.elapsed >= Duration::from_millis(800));
    });
    futures_util::future::join_all(met).await;
}

#[tokio::test]
async fn slow_pieces_are_no_stall_and_split_characters_stay_whole() {
    let body = [MESSAGES.replace("hello", "grüße 🦀"), MESSAGES_END.to_owned()].concat();
    let reply = body
        .as_bytes()
        .chunks(37)
        .fold(Reply::sse(""), |reply, piece| reply.send(piece).sleep(Duration::from_millis(4)));
    let server = Server::start([reply]).await;
    assert_eq!(ask(&anthropic(&server.url)).await.expect("it is whole").text, "grüße 🦀");
}

#[tokio::test]
async fn a_slow_reader_is_no_stalled_provider() {
    let pause = Duration::from_millis(600);
    let server = Server::start([Reply::sse(MESSAGES).sleep(pause).send(MESSAGES_END)]).await;
    let provider = anthropic(&server.url);
    let mut stream = provider.stream(question(&provider, "m"), &Bus::new().cx());
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::Start { .. }))));
    // Longer than any of the clocks: but the provider was not awaited.
    tokio::time::sleep(pause - Duration::from_millis(50)).await;
    let rest: Vec<_> = stream.collect().await;
    assert!(matches!(rest.last(), Some(Ok(StreamEvent::Done { .. }))), "{rest:?}");
}

#[tokio::test]
async fn a_page_for_browsers_is_named_as_one() {
    let page = "<!doctype html><html><head><title>Welcome to nginx!</title></head><body>long</body></html>";
    let html = |status| Reply::new(status, "content-type: text/html\r\n", page);
    for (reply, helps) in [
        (html("200 OK"), "base URL"),
        (html("404 Not Found"), "base URL"),
        (html("502 Bad Gateway"), "in front of the model"),
    ] {
        for result in both(reply.clone(), reply.clone()).await {
            let error = error(result);
            assert!(error.message.contains("an HTML page titled “Welcome to nginx!”"), "{error}");
            assert!(error.hint.as_ref().is_some_and(|hint| hint.contains(helps)), "{error}");
        }
    }
}

#[tokio::test]
async fn status_200_can_hold_an_error() {
    let body = "{\"error\":{\"code\":429,\"message\":\"slow down\"}}";
    let event = format!("event: error\ndata: {body}\n\n");
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    for result in both(Reply::json("200 OK", body), Reply::json("200 OK", body)).await {
        assert_eq!(error(result).kind, ErrorKind::Rate);
    }
    let kinds = both(Reply::sse([CHAT, &event].concat()), Reply::sse([MESSAGES, overloaded].concat()))
        .await
        .map(error);
    assert_eq!(kinds.map(|error| error.kind), [ErrorKind::Rate, ErrorKind::Overloaded]);
}

#[tokio::test]
async fn json_where_a_stream_was_asked_for_is_malformed() {
    let reply = Reply::json("200 OK", "{\"choices\":[]}");
    for result in both(reply.clone(), reply.clone()).await {
        assert_eq!(error(result).kind, ErrorKind::Malformed);
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_read_ends_the_answer_and_is_shown() {
    let bad = "data: {\"type\":\"content_block_delta\", oops\n\n";
    let results = both(Reply::sse([CHAT, bad].concat()), Reply::sse([MESSAGES, bad].concat())).await;
    for result in results {
        let error = error(result);
        assert_eq!(error.kind, ErrorKind::Malformed);
        assert!(error.message.contains("oops"), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_key_is_not_shown_even_when_the_server_quotes_it() {
    let body = "{\"error\":{\"message\":\"Invalid key sk-secret-key\",\"type\":\"authentication_error\"}}";
    let reply = Reply::json("401 Unauthorized", body);
    for result in both(reply.clone(), reply.clone()).await {
        let error = error(result);
        assert_eq!(error.kind, ErrorKind::Auth);
        assert_eq!(error.message, "Invalid key [redacted]");
        assert!(error.hint.is_some());
    }
    let shown = format!("{:?} {:?}", chat("http://127.0.0.1:1"), anthropic("http://127.0.0.1:1"));
    assert!(!shown.contains("sk-secret"), "{shown}");
}

#[tokio::test]
async fn a_host_that_does_not_listen_is_named_with_a_question() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let error = error(ask(&chat(&url)).await);
    assert_eq!((error.kind, error.phase), (ErrorKind::Transport, Phase::Connect));
    assert!(error.message.contains(&url) && !error.is_retryable(), "{error}");
    assert!(error.hint.is_some_and(|hint| hint.contains("Is the server running")));
}

#[tokio::test]
async fn an_unknown_model_brings_its_neighbours_to_mind() {
    let body =
        "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\",\"message\":\"model: claude-opus-55\"}}";
    let server = Server::start([Reply::json("404 Not Found", body)]).await;
    let provider = anthropic(&server.url);
    let request = question(&provider, "claude-opus-55");
    let error = error(collect(provider.stream(request, &Bus::new().cx())).await);
    assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("`claude-opus-5-5`")), "{error}");
}

#[tokio::test]
async fn a_path_that_is_not_there_brings_the_base_url_of_its_dialect_to_mind() {
    let lost = |reply: &str| Reply::json("404 Not Found", reply);
    let servers = [Server::start([lost("{}")]).await, Server::start([lost("{}")]).await];
    let gemini = Server::start([lost("{}")]).await;
    let connection = Gemini::connection().base_url(format!("{}/v1", gemini.url)).key("k");
    let providers: [(Box<dyn Provider>, &str); 3] = [
        (Box::new(chat(&servers[0].url)), "need `/v1` at the end"),
        (Box::new(anthropic(&servers[1].url)), "ends before `/v1/messages`"),
        (Box::new(Gemini::new(connection).expect("valid options")), "ends in `/v1beta`"),
    ];
    for (provider, helps) in providers {
        let hint = error(ask(&*provider).await).hint.unwrap_or_default();
        assert!(hint.contains("Is the base URL http://127.0.0.1:") && hint.contains(helps), "{hint}");
    }
}

#[tokio::test]
async fn a_server_of_ones_own_that_is_full_can_be_given_a_larger_window() {
    let body = "{\"error\":{\"code\":400,\"message\":\"the request exceeds the available context size\"}}";
    let stream = Reply::sse(format!("data: {body}\n\n"));
    for reply in [Reply::json("400 Bad Request", body), stream] {
        let server = Server::start([reply]).await;
        let error = error(ask(&chat(&server.url)).await);
        assert_eq!(error.kind, ErrorKind::ContextExceeded, "{error}");
        assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("`-c` of llama-server")), "{error}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let reply = Reply::new("307 Temporary Redirect", "location: https://elsewhere.example/v1\r\n", "");
    let server = Server::start([reply]).await;
    let error = error(ask(&chat(&server.url)).await);
    assert_eq!(error.kind, ErrorKind::Rejected);
    assert!(error.message.contains("elsewhere.example"));
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_stop_ends_a_silent_request_at_once() {
    for reply in [Reply::default().hang(), Reply::sse("").hang(), Reply::sse(MESSAGES).hang()] {
        let server = Server::start([reply]).await;
        let connection = Anthropic::connection().base_url(&server.url);
        let provider = Anthropic::new(connection, AnthropicOptions::default()).expect("valid options");
        let stop = CancellationToken::new();
        let cx = Bus::new().cx().with_stop(stop.clone());
        let mut stream = provider.stream(question(&provider, "m"), &cx);
        let ended = async {
            loop {
                match stream.next().await.expect("an error comes before the end") {
                    Ok(_) => {}
                    Err(error) => return error,
                }
            }
        };
        let (error, ()) = tokio::join!(ended, async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            stop.cancel();
        });
        assert_eq!(error.kind, ErrorKind::Aborted);
    }
}

#[tokio::test]
async fn a_stalled_provider_waits_by_its_clock_and_not_by_another() {
    // The default clocks of a local server are long: only the listener may end this request.
    let server = Server::start([Reply::default().hang()]).await;
    let provider = Compat::new(Connection::at(&server.url), CompatProfile::default()).expect("valid options");
    let waiting = collect(provider.stream(question(&provider, "m"), &Bus::new().cx()));
    let before = Instant::now();
    assert!(tokio::time::timeout(Duration::from_millis(300), waiting).await.is_err());
    assert!(before.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_profile_that_wants_a_reason_does_not_take_done_for_one() {
    let body = [CHAT, "data: [DONE]\n\n"].concat();
    for (profile, expected) in [("openai_compat", true), ("openai", false), ("llama.cpp", false)] {
        let server = Server::start([Reply::sse(&body)]).await;
        let profile = CompatProfile::named(profile).expect("it is in the table");
        let provider = Compat::new(Connection::at(&server.url), profile).expect("valid");
        assert_eq!(ask(&provider).await.is_ok(), expected);
    }
}

#[tokio::test]
async fn calls_cut_by_the_limit_are_marked_and_never_guessed() {
    let chat_cut = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}},\
        {\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"g\",\"arguments\":\"{\\\"y\\\"\"}}]}}]}\n\n\
        data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";
    let server = Server::start([Reply::sse(chat_cut)]).await;
    let answer = ask(&chat(&server.url)).await.expect("a cut answer is an answer");
    assert_eq!(answer.stop, Some(StopReason::MaxTokens));
    let malformed: Vec<_> = answer
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::ToolCall(call) => Some(call.malformed.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(malformed, [None, Some("{\"y\"".to_owned())]);
}

#[tokio::test]
async fn events_after_done_are_never_seen() {
    let body = [MESSAGES, MESSAGES_END, MESSAGES].concat();
    let server = Server::start([Reply::sse(body)]).await;
    let provider = anthropic(&server.url);
    let events: Vec<_> = provider.stream(question(&provider, "m"), &Bus::new().cx()).collect().await;
    assert!(matches!(events.last(), Some(Ok(StreamEvent::Done { .. }))));
}

use std::time::Duration;

use serde_json::{Value, json};
use zk_testkit::{FakeServer, Fault, RetryAfter, Script};

use crate::client::{Answer, End, anthropic, anthropic_until_silent, chat, chat_until_silent};

fn ask(server: &FakeServer) -> Answer {
    let messages = json!([{"role": "user", "content": "hello"}]);
    anthropic(server, &json!({"model": "m", "max_tokens": 100, "stream": true, "messages": messages}))
}

fn ask_until_silent(server: &FakeServer) -> Answer {
    let messages = json!([{"role": "user", "content": "hello"}]);
    let body = json!({"model": "m", "max_tokens": 100, "stream": true, "messages": messages});
    anthropic_until_silent(server, &body)
}

fn ask_chat(server: &FakeServer) -> Answer {
    let messages = json!([{"role": "user", "content": "hello"}]);
    let options = json!({"include_usage": true});
    chat(server, &json!({"model": "m", "stream": true, "stream_options": options, "messages": messages}))
}

fn server(fault: Fault) -> FakeServer {
    let server = FakeServer::start(Script::new().turn(|t| t.chunks(["Grüße ", "aus 東京"]))).unwrap();
    server.fault_on(1, fault);
    server
}

fn said(answer: &Answer) -> String {
    let texts = answer.events().into_iter().filter_map(|event| {
        let text = event.pointer("/delta/text").or(event.pointer("/choices/0/delta/content"));
        text.and_then(Value::as_str).map(str::to_owned)
    });
    texts.collect()
}

#[test]
fn an_answer_is_cut_after_so_many_events() {
    for events in 0..6 {
        for ask in [ask, ask_chat] {
            let answer = ask(&server(Fault::CutAfterEvents(events)));
            assert_eq!(answer.end, End::Cut);
            assert_eq!(
                answer.text().matches("data: ").count(),
                events.min(answer.text().matches("data: ").count())
            );
        }
    }
    assert_eq!(ask(&server(Fault::CutAfterEvents(3))).events().len(), 3);
}

#[test]
fn an_answer_is_cut_after_so_many_bytes() {
    for bytes in [0, 1, 17, 300] {
        let answer = ask(&server(Fault::CutAfterBytes(bytes)));
        assert_eq!((answer.body.len(), answer.end), (bytes, End::Cut));
    }
}

#[test]
fn a_connection_is_reset() {
    assert_eq!(ask(&server(Fault::ResetAfterEvents(2))).end, End::Reset);
}

#[test]
fn a_half_open_connection_says_nothing_more() {
    let server = server(Fault::HalfOpenAfterEvents(2));
    let answer = ask_until_silent(&server);
    assert_eq!((answer.events().len(), answer.end), (2, End::Silence));
}

#[test]
fn a_drip_is_the_whole_answer_byte_by_byte() {
    let answer = ask(&server(Fault::Drip(Duration::from_micros(50))));
    assert_eq!((said(&answer).as_str(), &answer.end), ("Grüße aus 東京", &End::Complete));
    assert!(answer.chunks > 10);
}

#[test]
fn pings_alone_go_on_for_ever() {
    let server = server(Fault::PingOnly(Duration::from_secs(3)));
    assert_eq!(ask_until_silent(&server).end, End::Silence, "slower than the client's patience");
    let server = self::server(Fault::PingOnly(Duration::from_secs(3)));
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hello"}]});
    assert!(chat_until_silent(&server, &body).text().starts_with("data: "));
}

#[test]
fn every_form_of_retry_after_is_sent() {
    let forms = [
        (RetryAfter::No, None, None),
        (RetryAfter::Seconds(7), Some("7"), None),
        (RetryAfter::Fraction(0.25), Some("0.25"), None),
        (RetryAfter::Millis(1500.0), None, Some("1500")),
    ];
    for (form, seconds, millis) in forms {
        for (fault, status) in
            [(Fault::RateLimited(form), 429), (Fault::Unavailable(form), 503), (Fault::Overloaded(form), 529)]
        {
            let answer = ask(&server(fault));
            assert_eq!(answer.status, status);
            assert_eq!((answer.header("retry-after"), answer.header("retry-after-ms")), (seconds, millis));
            assert!(answer.json()["error"]["message"].is_string());
        }
    }
    let answer = ask(&server(Fault::RateLimited(RetryAfter::Date(Duration::from_secs(5)))));
    assert!(answer.header("retry-after").unwrap().ends_with(" GMT"));
}

#[test]
fn a_server_error_is_500() {
    assert_eq!(ask(&server(Fault::ServerError)).json()["error"]["type"], "api_error");
    assert_eq!(ask_chat(&server(Fault::ServerError)).json()["error"]["type"], "server_error");
}

#[test]
fn an_error_may_come_with_status_200() {
    let answer = ask(&server(Fault::ErrorBody200));
    assert_eq!((answer.status, &answer.json()["type"]), (200, &json!("error")));
}

#[test]
fn an_error_event_ends_the_stream() {
    let answer = ask(&server(Fault::ErrorEventAfter(3)));
    let events = answer.events();
    assert_eq!((events.len(), &events[3]["error"]["type"]), (4, &json!("overloaded_error")));
    assert_eq!(answer.end, End::Complete);
    let events = ask_chat(&server(Fault::ErrorEventAfter(1))).events();
    assert!(events[1]["error"]["message"].is_string());
}

#[test]
fn a_malformed_event_is_followed_by_the_rest() {
    let answer = ask(&server(Fault::MalformedEvent(2)));
    assert_eq!(said(&answer), "Grüße aus 東京");
    assert_eq!(answer.text().matches("data: ").count(), answer.events().len() + 1);
}

#[test]
fn a_malformed_chunk_breaks_the_framing() {
    let answer = ask(&server(Fault::MalformedChunk(2)));
    assert_eq!((answer.events().len(), answer.end), (2, End::BadFraming));
}

#[test]
fn characters_are_split_over_writes() {
    let answer = ask(&server(Fault::SplitUtf8));
    assert_eq!((said(&answer).as_str(), &answer.end), ("Grüße aus 東京", &End::Complete));
    assert!(answer.chunks > 10, "ten continuation bytes, each in a chunk of its own");
}

#[test]
fn the_finish_comes_twice() {
    let text = ask(&server(Fault::DuplicateFinish)).text();
    assert_eq!(text.matches("event: message_delta").count(), 2);
    let text = ask_chat(&server(Fault::DuplicateFinish)).text();
    assert_eq!(text.matches("\"finish_reason\":\"stop\"").count(), 2);
}

#[test]
fn usage_is_missing() {
    for ask in [ask, ask_chat] {
        let answer = ask(&server(Fault::MissingUsage));
        assert!(!answer.text().contains("usage"));
        assert_eq!(said(&answer), "Grüße aus 東京");
    }
}

#[test]
fn one_delta_is_huge() {
    let answer = ask(&server(Fault::GiantDelta(1 << 20)));
    assert_eq!((said(&answer).len(), answer.end), (1 << 20, End::Complete));
}

#[test]
fn the_last_event_is_missing() {
    let answer = ask(&server(Fault::NoTerminal));
    assert!(!answer.text().contains("message_stop") && answer.text().contains("message_delta"));
    assert_eq!(answer.end, End::Complete);
    let text = ask_chat(&server(Fault::NoTerminal)).text();
    assert!(!text.contains("[DONE]") && !text.contains("\"finish_reason\":\"stop\""));
}

#[test]
fn a_proxy_answers_with_a_page() {
    let answer = ask(&server(Fault::Html(502)));
    assert_eq!(answer.status, 502);
    assert!(answer.header("content-type").unwrap().starts_with("text/html"));
}

#[test]
fn a_request_is_never_answered() {
    let answer = ask_until_silent(&server(Fault::NeverAnswers));
    assert_eq!((answer.status, answer.end), (0, End::Silence));
}

#[test]
fn an_empty_stream_has_status_200() {
    let answer = ask(&server(Fault::Empty200));
    assert_eq!((answer.status, answer.body.len(), answer.end), (200, 0, End::Complete));
}

#[test]
fn the_turn_of_a_failed_answer_is_said_to_the_next_request() {
    for fault in [
        Fault::RateLimited(RetryAfter::No),
        Fault::CutAfterEvents(2),
        Fault::NoTerminal,
        Fault::Empty200,
        Fault::ErrorEventAfter(2),
    ] {
        let server = server(fault);
        ask(&server);
        let answer = ask(&server);
        assert_eq!((said(&answer).as_str(), &answer.end), ("Grüße aus 東京", &End::Complete));
    }
}

#[test]
fn a_fault_may_apply_to_every_request() {
    let server = FakeServer::start(Script::new().turn(|t| t.text("never said"))).unwrap();
    server.fault_always(Fault::ServerError).fault_on(2, Fault::Html(502));
    let statuses: Vec<u16> = (0..3).map(|_| ask(&server).status).collect();
    assert_eq!(statuses, [500, 502, 500]);
}

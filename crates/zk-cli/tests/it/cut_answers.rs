//! Answers that break off after something of them was shown, and are asked for again.

use zk_testkit::{FakeServer, Fault, RawReply, Script, Turn};

use crate::terminal::Terminal;
use crate::zk::{Person, server};

/// Fake server whose first stream is cut by `fault`.
fn cutting(fault: Fault) -> FakeServer {
    let server = server(Script::new().forever(|_| Turn::new().text("One ").text("two ").text("three.")));
    server.fault_on(1, fault);
    server
}

#[test]
fn an_answer_that_breaks_off_is_sent_again_byte_for_byte_and_only_the_whole_one_is_printed() {
    let faults = [
        Fault::CutAfterEvents(4),
        Fault::CutAfterBytes(700),
        Fault::ResetAfterEvents(4),
        Fault::MalformedChunk(4),
        Fault::NoTerminal,
        Fault::Empty200,
    ];
    for fault in faults {
        let server = cutting(fault.clone());
        let person = Person::asking(&server);
        let ended = person.run(&["-p", "count"]);
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (0, "One two three.\n"),
            "{fault:?}: {}",
            ended.stderr
        );
        assert_eq!(ended.stderr.matches("zk: attempt 1 of 6: ").count(), 1, "{fault:?}: {}", ended.stderr);
        let bodies = server.bodies();
        assert_eq!(bodies.len(), 2);
        assert_eq!(bodies[0].to_string(), bodies[1].to_string());
        // The next run sends what the first one kept.
        assert_eq!(person.run(&["-p", "again", "--continue"]).code, 0);
        let sent = server.bodies()[2].to_string();
        assert_eq!(sent.matches("\"One \"").count(), 1, "{sent}");
    }
}

#[test]
fn programs_hear_that_what_came_of_an_answer_counts_for_nothing() {
    for format in ["json", "stream-json"] {
        let server = cutting(Fault::CutAfterEvents(4));
        let ended = Person::asking(&server).run(&["-p", "count", "--output-format", format]);
        assert_eq!(ended.result()["result"], "One two three.", "{}", ended.stdout);
        let lines = ended.lines();
        let retry = lines.iter().find(|line| line["type"] == "provider:retry");
        assert_eq!(retry.map(|retry| retry["retry"]["discards"] == true), (format != "json").then_some(true));
    }
}

#[test]
fn a_conversation_shows_that_an_answer_broke_off_and_was_sent_again() {
    let server = cutting(Fault::CutAfterEvents(4));
    let person = Person::asking(&server);
    let Some(mut terminal) = Terminal::open(&person, "'count'") else { return };
    terminal.expect("One ");
    terminal.expect("(broken off, sent again)");
    terminal.expect("One two three.");
    terminal.expect("› ");
    terminal.keys("/quit\r");
    terminal.rest();
}

#[test]
fn a_byte_that_is_no_utf8_and_half_of_a_surrogate_pair_are_replaced_and_the_rest_is_printed() {
    let event = |text: &[u8]| {
        let head = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"";
        [head, text, b"\"},\"finish_reason\":null}]}\n\n"].concat()
    };
    let end =
        b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let body =
        [&event(b"One "), &event(b"\xfftwo "), &event(b"\\ud83dthree "), &event(b"four."), &end[..]].concat();
    let server = FakeServer::raw_replies([RawReply::new(body)]).unwrap();
    let url = server.openai_url();
    let to = ["--provider", "openai_compat", "--base-url", &url, "--api-key", "k", "--model", "m"];
    let ended = Person::new().run(&[&["-p", "count"][..], &to].concat());
    let expected = "One \u{fffd}two \u{fffd}three four.\n";
    assert_eq!((ended.code, ended.stdout.as_str()), (0, expected), "{}", ended.stderr);
    let asked = server.requests().iter().filter(|request| request.method == "POST").count();
    assert_eq!(asked, 1, "it is not sent again");
}

//! Failures that no provider reports itself: silence, breaks, pages for browsers and other places.

use std::time::Duration;

use zk_core::model::{ErrorKind, Phase};

use super::{Row, stream};
use crate::server::Reply;

const TEXT: &str = "data: {\"model\":\"m-1\",\"choices\":[{\"delta\":{\"content\":\"hel\"}}]}\n\n";

pub(super) fn rows() -> Vec<Row> {
    let p = "openai";
    let pings =
        (0..200).fold(stream(p, TEXT), |reply, _| reply.send(": x\n\n").sleep(Duration::from_millis(25)));
    let page = "<html><head><title>Hello</title></head></html>";
    let stalled = |reply, says, phase| {
        Row::replying(p, reply, ErrorKind::Stalled, says, "`clocks` more time").at(phase)
    };
    vec![
        stalled(Reply::default().hang(), "no event within", Phase::Response).without_id(),
        stalled(stream(p, "").hang(), "no data for", Phase::FirstEvent),
        stalled(stream(p, TEXT).hang(), "no data for", Phase::Stream),
        stalled(pings, "no progress for", Phase::Stream),
        Row::replying(
            p,
            stream(p, TEXT).sleep(Duration::from_millis(30)).reset(),
            ErrorKind::Transport,
            "the connection to http://127.0.0.1:",
            "network connection",
        )
        .at(Phase::Stream),
        Row::replying(p, Reply::default().reset(), ErrorKind::Transport, "broke", "network connection")
            .without_id(),
        Row::with(
            p,
            "502 Bad Gateway",
            "",
            page,
            ErrorKind::Overloaded,
            "titled “Hello”",
            "in front of the model",
        ),
        Row::with(p, "404 Not Found", "", page, ErrorKind::Rejected, "titled “Hello”", "check the base URL"),
        Row::with(p, "200 OK", "", page, ErrorKind::Malformed, "titled “Hello”", "check the base URL"),
        Row::with(p, "404 Not Found", "", "", ErrorKind::Rejected, "without a body", "`/v1`"),
        Row::with(
            p,
            "405 Method Not Allowed",
            "",
            "",
            ErrorKind::Rejected,
            "without a body",
            "right base URL",
        ),
        Row::with(
            p,
            "500 Internal Server Error",
            "",
            "",
            ErrorKind::Overloaded,
            "without a body",
            "itself failed",
        ),
        Row::with(
            p,
            "307 Temporary Redirect",
            "location: https://elsewhere.example/v1\r\n",
            "",
            ErrorKind::Rejected,
            "elsewhere.example",
            "set the base URL",
        ),
    ]
}

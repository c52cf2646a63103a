//! Faults as met by somebody who sends a failed request again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use zk_agent::{Agent, RetryPolicy, Retrying};
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Model, WireRules};
use zk_core::service::{EventStream, Provider, Request, StreamEvent};
use zk_providers::{Anthropic, AnthropicOptions};

use super::faults::Case;
use super::streams::Sample;
use super::{Outcome, clocks, every_case, same};
use crate::collect::{Answer, collect, question};
use crate::recordings::print_table;
use crate::server::{Reply, Server};

const ANSWER: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}

event: message_stop
data: {"type":"message_stop"}

"#;

/// The faults that may pass.
const PASSING: &[&str] = &[
    "cut in the transfer",
    "cut",
    "cut in an event",
    "reset",
    "half-open",
    "pings only",
    "overloaded in the stream",
    "503",
    "529",
];

/// Emitted item: a part of an answer, or the notice of a retry.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Answer,
    Retry,
}

async fn ask(provider: &dyn Provider) -> (Outcome, Vec<Seen>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let request = Request { max_tokens: 16, ..question(provider, "recorded") };
    let events: EventStream = Box::pin(provider.stream(request, &Bus::new().cx()).inspect(move |event| {
        let seen = match event {
            Ok(StreamEvent::Start { .. } | StreamEvent::Usage(_) | StreamEvent::Report(_)) | Err(_) => return,
            Ok(StreamEvent::Retry(_)) => Seen::Retry,
            Ok(_) => Seen::Answer,
        };
        log.lock().expect("the log").push(seen);
    }));
    let outcome = collect(events).await;
    let seen = seen.lock().expect("the log").clone();
    (outcome, seen)
}

/// Provider whose first request has clocks that may expire, and later ones none: a whole answer must not fail
/// on a busy machine.
struct HastyOnce {
    hasty: Box<dyn Provider>,
    patient: Box<dyn Provider>,
    sent: AtomicBool,
}

impl Provider for HastyOnce {
    fn name(&self) -> &str {
        self.patient.name()
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.patient)
    }

    fn model(&self, id: &str) -> Model {
        self.patient.model(id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.patient.rules(model)
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let again = self.sent.swap(true, Ordering::Relaxed);
        let provider = if again { &self.patient } else { &self.hasty };
        provider.stream(request, cx)
    }
}

/// Outcome of a case; the error describes its fault.
async fn run(sample: &Sample, case: Case, whole: &Answer) -> Result<&'static str, String> {
    let dialect = sample.dialect;
    let server = Server::start([case.reply, dialect.head().send(sample.body())]).await;
    let short = Duration::from_millis(1);
    let policy = RetryPolicy { retries: 1, base: short, floor: short, ..RetryPolicy::default() };
    let provider = |stalls| dialect.provider(&server.url, clocks(stalls));
    let sent = AtomicBool::new(false);
    let provider = HastyOnce { hasty: provider(case.stalls), patient: provider(false), sent };
    let provider = Retrying::new(Arc::new(provider), policy);
    let (outcome, seen) = ask(&provider).await;
    let requests = server.received().len();
    let retried = seen.iter().position(|seen| *seen == Seen::Retry);
    match (outcome, retried) {
        (_, Some(_)) if requests != 2 => Err(format!("{requests} requests")),
        (_, None) if requests != 1 => Err(format!("{requests} requests, and nobody was told")),
        (Ok(mut answer), retried) => {
            answer.usage = whole.usage;
            same(dialect, answer, whole.clone())?;
            Ok(match retried {
                Some(0) => "whole after a retry",
                Some(_) => "whole after a part that counts for nothing",
                None => "whole at once",
            })
        }
        (Err((error, _)), Some(_)) => Err(format!("failed behind a retry: {error}")),
        (Err((error, _)), None) => Err(format!("not sent again: {error}")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_answer_breaks_off_is_sent_again_whatever_of_it_was_handed_out() {
    let mut counts = BTreeMap::new();
    let mut wrong = Vec::new();
    let run =
        |sample: Arc<Sample>, case: Case, whole: Arc<Answer>| async move { run(&sample, case, &whole).await };
    let passing = |(at, case): &(usize, Case)| at % 2 == 0 && PASSING.contains(&case.fault);
    every_case(passing, run, |sample, at, fault, result| match result {
        Ok(how) => *counts.entry((fault.to_owned(), how.to_owned())).or_default() += 1,
        Err(why) => wrong.push(format!("{fault}, behind event {at} of {}: {why}", sample.place)),
    })
    .await;
    print_table("fault", &counts);
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn one_overloaded_answer_does_not_end_the_run_of_an_embedded_agent() {
    let refused = Reply::json("529 Overloaded", r#"{"type":"error","error":{"type":"overloaded_error"}}"#);
    let server = Server::start([refused, Reply::sse(ANSWER)]).await;
    let connection = Anthropic::connection().base_url(&server.url).key("k-test");
    let claude = Anthropic::new(connection, AnthropicOptions::default()).expect("valid");
    let agent = Agent::builder(Arc::new(claude)).model_id("claude-test").build().expect("an agent");
    let outcome = agent.run("Hello?").expect("a run").wait().await;
    outcome.result.expect("the second answer counts");
    assert_eq!((outcome.text.as_str(), server.received().len()), ("Hi.", 2));
}

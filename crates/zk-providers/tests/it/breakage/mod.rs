//! Every fault at every event boundary of recorded streams of every dialect, over real sockets.

mod faults;
mod memory;
mod retries;
mod streams;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use zk_core::kernel::Bus;
use zk_core::model::{Phase, ProviderError, Usage};
use zk_core::service::{Provider, Request};
use zk_providers::Clocks;

use crate::collect::{Answer, collect, question};
use crate::recordings::{Dialect, comparable, print_table};
use crate::server::Server;

use faults::{Case, Expect};
use streams::{Sample, samples};

/// Time limit of every answer, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);
/// Number of concurrent broken answers.
const AT_ONCE: usize = 40;

/// Clocks that run out soon, and clocks that do not. The first event gets more time, for the sake of a machine
/// that does much else.
fn clocks(stalls: bool) -> Clocks {
    let long = Duration::from_secs(25);
    if !stalls {
        return Clocks { first_event: long, liveness: long, progress: long, ending: long };
    }
    let short = Duration::from_millis(400);
    Clocks {
        first_event: Duration::from_secs(3),
        liveness: short,
        progress: short,
        ending: Duration::from_millis(20),
    }
}

type Outcome = Result<Answer, (ProviderError, Answer)>;

async fn ask(provider: &dyn Provider) -> Outcome {
    // So few that no answer ended before its limit.
    let request = Request { max_tokens: 16, ..question(provider, "recorded") };
    collect(provider.stream(request, &Bus::new().cx())).await
}

/// Returns the answer of the unbroken stream.
async fn unbroken(sample: &Sample) -> Answer {
    let server = Server::start([sample.dialect.head().send(sample.body())]).await;
    let provider = sample.dialect.provider(&server.url, clocks(false));
    ask(&*provider).await.unwrap_or_else(|(error, _)| panic!("{}: {error}", sample.place))
}

/// Fault in the end of a broken answer; otherwise the error that it ended with.
fn ended(
    dialect: Dialect,
    expect: &Expect,
    whole: &Answer,
    outcome: Outcome,
) -> Result<Option<ProviderError>, String> {
    match (outcome, expect) {
        (Ok(answer), Expect::Fails(_)) => Err(format!("a success: {answer:?}")),
        (Ok(answer), Expect::Whole) => same(dialect, answer, whole.clone()).map(|()| None),
        (Ok(mut answer), Expect::WithoutUsage | Expect::WholeOr(_)) => {
            answer.usage = Usage::default();
            same(dialect, answer, Answer { usage: Usage::default(), ..whole.clone() }).map(|()| None)
        }
        (Ok(answer), Expect::PartOr(_)) => begins(whole, &answer).map(|()| None),
        (Err((error, _)), Expect::Whole | Expect::WithoutUsage) => Err(format!("failed: {error}")),
        (Err((error, partial)), Expect::Fails(kinds) | Expect::WholeOr(kinds) | Expect::PartOr(kinds)) => {
            if !kinds.contains(&error.kind) {
                return Err(format!("{:?} instead of {kinds:?}: {error}", error.kind));
            }
            begins(whole, &partial).map(|()| Some(error))
        }
    }
}

/// Difference between a partial answer and the beginning of the whole one, if any.
fn begins(whole: &Answer, part: &Answer) -> Result<(), String> {
    let calls = |answer: &Answer| -> Vec<_> {
        answer.calls.iter().map(|(_, name, args)| (name.clone(), args.clone())).collect()
    };
    let checks = [
        ("text", whole.text.starts_with(&part.text)),
        ("thinking", whole.thinking.starts_with(&part.thinking)),
        ("calls", calls(whole).starts_with(&calls(part))),
    ];
    match checks.iter().find(|(_, holds)| !holds) {
        Some((what, _)) => Err(format!("its {what} are others\n  got      {part:?}\n  expected {whole:?}")),
        None => Ok(()),
    }
}

/// Fault in the end of a case, if any.
fn verdict(dialect: Dialect, case: &Case, whole: &Answer, outcome: Outcome) -> Result<(), String> {
    let Some(error) = ended(dialect, &case.expect, whole, outcome)? else { return Ok(()) };
    // Without a head there is no id.
    let is_early = error.phase == Phase::Response && error.status.is_none();
    let waits = match (case.wait, error.retry_after) {
        (None, None) => true,
        (Some(asked), Some(read)) => read <= asked && read + Duration::from_secs(20) > asked,
        (None, Some(_)) | (Some(_), None) => false,
    };
    let checks = [
        ("the provider", !error.provider.is_empty()),
        ("the model", error.model == "recorded"),
        ("the phase", matches!(error.phase, Phase::Response | Phase::FirstEvent | Phase::Stream)),
        ("the time", error.elapsed > Duration::ZERO && error.elapsed < DEADLINE),
        ("the request id", is_early || error.request_id.as_deref() == Some("req_test")),
        ("the wait", waits),
        ("a message of its own", !error.message.is_empty() && !error.message.contains('\n')),
        ("a secret", !error.to_string().contains("k-test")),
    ];
    match checks.iter().find(|(_, holds)| !holds) {
        Some((what, _)) => Err(format!("without {what}: {error:?}")),
        None => Ok(()),
    }
}

fn same(dialect: Dialect, mut got: Answer, mut expected: Answer) -> Result<(), String> {
    for answer in [&mut got, &mut expected] {
        for call in answer.calls.iter_mut().filter(|call| call.0.starts_with("call_")) {
            call.0 = String::new();
        }
    }
    let (got, expected) = comparable(dialect, got, expected);
    if got == expected { Ok(()) } else { Err(format!("\n  got      {got:?}\n  expected {expected:?}")) }
}

/// Runs one case; the error describes its fault.
async fn run(dialect: Dialect, case: &Case, whole: &Answer) -> Result<(), String> {
    let server = Server::start([case.reply.clone()]).await;
    let provider = dialect.provider(&server.url, clocks(case.stalls));
    let asked = tokio::time::timeout(DEADLINE, AssertUnwindSafe(ask(&*provider)).catch_unwind());
    match asked.await {
        Err(_) => Err(format!("no end within {} s", DEADLINE.as_secs())),
        Ok(Err(_)) => Err("an illegal stream of events".to_owned()),
        Ok(Ok(outcome)) => verdict(dialect, case, whole, outcome),
    }
}

/// Runs all cases concurrently and reports their outcomes.
async fn every_case<T, F>(
    wanted: fn(&(usize, Case)) -> bool,
    run: impl Fn(Arc<Sample>, Case, Arc<Answer>) -> F + Copy,
    mut tell: impl FnMut(&Sample, usize, &'static str, T),
) where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut all = Vec::new();
    for sample in samples() {
        println!(
            "{:?}, {}: {} events of {}",
            sample.dialect,
            sample.feature,
            sample.events.len(),
            sample.place
        );
        let whole = unbroken(&sample).await;
        all.push((Arc::new(sample), Arc::new(whole)));
    }
    let runs = all.iter().flat_map(|(sample, whole)| {
        faults::all(sample).filter(wanted).map(move |(at, case)| {
            let fault = case.fault;
            let ended = tokio::spawn(run(sample.clone(), case, whole.clone()));
            async move { (sample, at, fault, ended.await.expect("a case does not panic")) }
        })
    });
    let mut ended = stream::iter(runs).buffer_unordered(AT_ONCE);
    while let Some((sample, at, fault, result)) = ended.next().await {
        tell(sample, at, fault, result);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_at_every_event_boundary_ends_in_a_declared_state() {
    let mut counts = BTreeMap::new();
    let mut wrong = Vec::new();
    let run = |sample: Arc<Sample>, case: Case, whole: Arc<Answer>| async move {
        run(sample.dialect, &case, &whole).await
    };
    every_case(
        |_| true,
        run,
        |sample, at, fault, result| {
            *counts.entry((fault.to_owned(), format!("{:?}", sample.dialect))).or_default() += 1;
            if let Err(why) = result {
                wrong.push(format!("{fault}, behind event {at} of {}: {why}", sample.place));
            }
        },
    )
    .await;
    print_table("fault", &counts);
    println!("{} cases", counts.values().sum::<usize>());
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use zk_core::events::ProviderRetry;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{
    ErrorKind, Message, Model, Phase, ProviderError, StopReason, Usage, WireReady, WireRules,
};
use zk_core::service::{EventStream, Provider, Request, StreamEvent};

use super::{RateLimits, RetryPolicy, Retrying};

type Script = Vec<Result<StreamEvent, ProviderError>>;

/// Provider that plays one script per request, and records the time of each request.
#[derive(Default)]
struct Scripted {
    scripts: Mutex<VecDeque<Script>>,
    asked: Mutex<Vec<Instant>>,
    key: Option<String>,
}

#[async_trait]
impl Provider for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn model(&self, id: &str) -> Model {
        Model::unknown("scripted", id)
    }

    fn quota_key(&self) -> Option<String> {
        self.key.clone()
    }

    fn rules(&self, model: &Model) -> WireRules {
        WireRules::tolerant(model.reference())
    }

    fn stream(&self, _: Request, _: &Cx) -> EventStream {
        self.asked.lock().unwrap().push(Instant::now());
        let script = self.scripts.lock().unwrap().pop_front().unwrap_or_else(answering_script);
        // Each answer takes a moment, so that other requests can be sent meanwhile.
        let answer = async { sleep(Duration::from_millis(1)).await };
        Box::pin(stream::once(answer).flat_map(move |()| stream::iter(script.clone())))
    }
}

fn answering_script() -> Script {
    vec![
        Ok(StreamEvent::Start { model: None, request_id: None }),
        Ok(StreamEvent::Text { block: 0, delta: "hi".into() }),
        Ok(StreamEvent::Done { stop: StopReason::EndTurn, usage: Usage::default() }),
    ]
}

fn error(kind: ErrorKind) -> ProviderError {
    ProviderError::new(kind, "scripted", "m", Phase::Response, "no luck")
}

fn failing_script(kind: ErrorKind) -> Script {
    vec![Err(error(kind))]
}

fn scripted_retrying(scripts: impl IntoIterator<Item = Script>) -> (Arc<Scripted>, Retrying) {
    let inner =
        Arc::new(Scripted { scripts: Mutex::new(scripts.into_iter().collect()), ..Scripted::default() });
    (inner.clone(), Retrying::new(inner, RetryPolicy::default()))
}

fn send_request(provider: &Retrying, cx: &Cx) -> EventStream {
    let model = provider.model("m");
    let history = WireReady::normalise(&[Message::user_text("hi").shared()], &provider.rules(&model));
    provider.stream(Request::new(model, history), cx)
}

async fn run(provider: &Retrying) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let (mut events, mut failure) = (Vec::new(), None);
    let mut stream = send_request(provider, &Bus::new().cx());
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => failure = Some(error),
        }
    }
    (events, failure)
}

fn announced_retries(events: &[StreamEvent]) -> Vec<(u32, Duration)> {
    let notice = |event: &StreamEvent| match event {
        StreamEvent::Retry(notice) => Some((notice.attempt, notice.delay)),
        StreamEvent::Start { .. }
        | StreamEvent::Text { .. }
        | StreamEvent::Thinking { .. }
        | StreamEvent::ToolCall { .. }
        | StreamEvent::ToolArgs { .. }
        | StreamEvent::Block { .. }
        | StreamEvent::Usage(_)
        | StreamEvent::Report(_)
        | StreamEvent::Done { .. } => None,
    };
    events.iter().filter_map(notice).collect()
}

#[tokio::test(start_paused = true)]
async fn a_passing_failure_is_retried_after_a_visible_wait() {
    for kind in [ErrorKind::Rate, ErrorKind::Overloaded, ErrorKind::Transport, ErrorKind::Stalled] {
        let (inner, provider) = scripted_retrying([failing_script(kind), failing_script(kind)]);
        let (events, failure) = run(&provider).await;
        assert_eq!(failure, None);
        let retries = announced_retries(&events);
        assert_eq!(retries.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2]);
        let asked = inner.asked.lock().unwrap();
        for (waited, (_, delay)) in asked.windows(2).map(|pair| pair[1] - pair[0]).zip(&retries) {
            assert!(waited >= *delay && waited < *delay + Duration::from_millis(10));
            assert!((Duration::from_millis(500)..=Duration::from_secs(2)).contains(delay));
        }
        assert!(matches!(events.last(), Some(StreamEvent::Done { .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_is_the_last_failure_with_total_time_and_attempts() {
    let (inner, provider) = scripted_retrying((0..12).map(|_| failing_script(ErrorKind::Overloaded)));
    let began = Instant::now();
    let (events, failure) = run(&provider).await;
    assert_eq!((announced_retries(&events).len(), inner.asked.lock().unwrap().len()), (9, 10));
    assert!((75..=152).contains(&began.elapsed().as_secs()), "an overload of a minute is outlasted");
    let expected = ProviderError { elapsed: began.elapsed(), attempts: 10, ..error(ErrorKind::Overloaded) };
    assert_eq!(failure, Some(expected));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_never_answered_gets_fewer_retries() {
    let no_connection = || {
        let gone = ProviderError::new(ErrorKind::Transport, "scripted", "m", Phase::Connect, "nobody there");
        vec![Err(gone)]
    };
    for (first, attempts) in
        [(None, 4), (Some(answering_script()), 10), (Some(failing_script(ErrorKind::Rejected)), 10)]
    {
        let answers_first = first.is_some();
        let (_, provider) = scripted_retrying(first.into_iter().chain((0..12).map(|_| no_connection())));
        if answers_first {
            run(&provider).await;
        }
        assert_eq!(run(&provider).await.1.map(|error| error.attempts), Some(attempts));
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_not_retried() {
    for kind in [
        ErrorKind::Quota,
        ErrorKind::ContextExceeded,
        ErrorKind::Auth,
        ErrorKind::Malformed,
        ErrorKind::Rejected,
        ErrorKind::Refused,
        ErrorKind::Aborted,
    ] {
        let (inner, provider) = scripted_retrying([failing_script(kind)]);
        assert_eq!(run(&provider).await, (vec![], Some(error(kind))));
        assert_eq!(inner.asked.lock().unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn should_retry_of_the_provider_outranks_the_class_except_for_overflow() {
    let says =
        |kind, should_retry| vec![Err(ProviderError { should_retry: Some(should_retry), ..error(kind) })];
    for (script, asked) in [
        (says(ErrorKind::Overloaded, false), 1),
        (says(ErrorKind::Rejected, true), 2),
        (says(ErrorKind::ContextExceeded, true), 1),
    ] {
        let (inner, provider) = scripted_retrying([script]);
        run(&provider).await;
        assert_eq!(inner.asked.lock().unwrap().len(), asked);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_answer_is_requested_again_five_times_and_discarded() {
    let broken = |kind| {
        let mut script = answering_script();
        script.truncate(2);
        script.push(Err(error(kind)));
        script
    };
    for kind in [ErrorKind::Transport, ErrorKind::Overloaded, ErrorKind::Stalled] {
        let (inner, provider) = scripted_retrying((0..9).map(|_| broken(kind)));
        let (events, failure) = run(&provider).await;
        assert_eq!(failure.map(|error| error.attempts), Some(6), "{kind:?}");
        assert_eq!(inner.asked.lock().unwrap().len(), 6);
        let notices = events.iter().filter_map(|event| match event {
            StreamEvent::Retry(notice) => Some((notice.attempt, notice.max_attempts, notice.discards)),
            _ => None,
        });
        assert!(notices.eq((1..=5).map(|attempt| (attempt, 6, true))), "{events:?}");
    }
    let (inner, provider) = scripted_retrying([broken(ErrorKind::Rejected)]);
    assert_eq!(run(&provider).await.1, Some(error(ErrorKind::Rejected)));
    assert_eq!(inner.asked.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_broken_answer_is_retried_after_failures_of_other_kinds() {
    let mut cut = answering_script();
    cut.truncate(2);
    cut.push(Err(error(ErrorKind::Transport)));
    let (_, provider) =
        scripted_retrying((0..4).map(|_| failing_script(ErrorKind::Overloaded)).chain([cut.clone(), cut]));
    let (events, failure) = run(&provider).await;
    assert_eq!((announced_retries(&events).len(), failure), (6, None));
}

#[tokio::test(start_paused = true)]
async fn an_error_after_the_start_alone_is_retried() {
    let mut script = answering_script();
    script.truncate(1);
    script.push(Err(error(ErrorKind::Overloaded)));
    let (_, provider) = scripted_retrying([script]);
    let (events, failure) = run(&provider).await;
    assert_eq!((announced_retries(&events).len(), failure), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_wait_requested_by_the_provider_is_kept_up_to_a_minute() {
    let asks = |seconds| {
        let retry_after = Some(Duration::from_secs_f64(seconds));
        vec![Err(ProviderError { retry_after, ..error(ErrorKind::Rate) })]
    };
    let (_, provider) = scripted_retrying([asks(34.4), asks(0.01), asks(60.0)]);
    let (events, _) = run(&provider).await;
    let delays: Vec<_> = announced_retries(&events).into_iter().map(|(_, delay)| delay).collect();
    assert_eq!(delays, [34.4, 0.5, 60.0].map(Duration::from_secs_f64));

    let (inner, provider) = scripted_retrying([asks(61.0)]);
    let (_, failure) = run(&provider).await;
    let failure = failure.unwrap();
    assert!(failure.to_string().contains("asks to wait 61 s"), "{failure}");
    assert_eq!(inner.asked.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_wait_at_once() {
    let (_, provider) = scripted_retrying([vec![Err(ProviderError {
        retry_after: Some(Duration::from_secs(50)),
        ..error(ErrorKind::Rate)
    })]]);
    let stop = CancellationToken::new();
    let mut stream = send_request(&provider, &Bus::new().cx().with_stop(stop.clone()));
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::Retry(_)))));
    let before = Instant::now();
    stop.cancel();
    let ended = stream.next().await.unwrap().unwrap_err();
    assert_eq!((ended.kind, before.elapsed()), (ErrorKind::Aborted, Duration::ZERO));
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_announced_on_the_bus() {
    let (_, provider) = scripted_retrying([failing_script(ErrorKind::Overloaded)]);
    let bus = Bus::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    bus.scope("test").on_sync(move |event: &ProviderRetry, _: &Cx| log.lock().unwrap().push(event.clone()));
    let events: Vec<_> = send_request(&provider, &bus.cx()).collect().await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(Some(&Ok(StreamEvent::Retry(seen[0].retry.clone()))), events.first());
    assert_eq!((seen[0].retry.max_attempts, seen[0].model.model.as_str()), (10, "m"));
}

fn rate_limited_script() -> Script {
    vec![Err(ProviderError { retry_after: Some(Duration::from_secs(10)), ..error(ErrorKind::Rate) })]
}

/// Creates a provider of this quota key that meets the rate limit for its first `refused` requests.
fn limited_provider(limits: &RateLimits, key: Option<&str>, refused: usize) -> (Arc<Scripted>, Retrying) {
    let scripts = Mutex::new((0..refused).map(|_| rate_limited_script()).collect());
    let inner = Arc::new(Scripted { scripts, key: key.map(str::to_owned), ..Scripted::default() });
    (inner.clone(), Retrying::sharing(limits, inner, RetryPolicy::default()))
}

#[tokio::test(start_paused = true)]
async fn twenty_agents_of_one_key_probe_one_at_a_time_after_a_rate_limit() {
    // All twenty requests fail at first, and the first probe fails too.
    let limits = RateLimits::default();
    let (inner, first) = limited_provider(&limits, Some("a"), 21);
    let second = Retrying::sharing(&limits, inner.clone(), RetryPolicy::default());
    let agents = (0..20).map(|at| {
        let provider = if at % 2 == 0 { first.clone() } else { second.clone() };
        tokio::spawn(async move { run(&provider).await })
    });
    for agent in agents.collect::<Vec<_>>() {
        let (_, failure) = agent.await.unwrap();
        assert_eq!(failure, None);
    }
    let asked = inner.asked.lock().unwrap();
    let start = asked[0];
    let in_window = |from: u64, to: u64| {
        let window = Duration::from_secs(from)..Duration::from_secs(to);
        asked.iter().filter(|at| window.contains(&(**at - start))).count()
    };
    assert_eq!((in_window(0, 1), in_window(1, 19), in_window(19, 60)), (20, 1, 20));
}

#[tokio::test(start_paused = true)]
async fn a_request_delayed_by_a_limit_announces_its_wait() {
    let limits = RateLimits::default();
    let (inner, provider) = limited_provider(&limits, Some("a"), 1);
    let mut refused = send_request(&provider, &Bus::new().cx());
    assert!(matches!(refused.next().await, Some(Ok(StreamEvent::Retry(_)))));
    let (events, failure) = run(&provider).await;
    assert_eq!((announced_retries(&events), failure), (vec![(0, Duration::from_secs(10))], None));
    let asked = inner.asked.lock().unwrap().clone();
    assert_eq!((asked[1] - asked[0]).as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn providers_without_a_common_key_do_not_wait_for_each_other() {
    for other in [Some("b"), None] {
        let limits = RateLimits::default();
        let (_, refused) = limited_provider(&limits, Some("a"), 1);
        let (_, free) = limited_provider(&limits, other, 0);
        let mut waiting = send_request(&refused, &Bus::new().cx());
        assert!(matches!(waiting.next().await, Some(Ok(StreamEvent::Retry(_)))));
        let before = Instant::now();
        assert_eq!(run(&free).await.1, None);
        assert!(before.elapsed() < Duration::from_secs(1), "{other:?}");
    }
}

// A person who does not want to wait triggers every request at once.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_skipped_ends_at_once_and_counts_as_its_attempt() {
    for kind in [ErrorKind::Rate, ErrorKind::Overloaded] {
        let (inner, provider) = scripted_retrying([failing_script(kind), failing_script(kind)]);
        assert!(!provider.skip_waits(), "nothing waits yet");
        let mut stream = send_request(&provider, &Bus::new().cx());
        for attempt in 1..=2 {
            let Some(Ok(StreamEvent::Retry(notice))) = stream.next().await else { panic!("a wait") };
            assert_eq!(notice.attempt, attempt);
            assert!(provider.skip_waits());
        }
        let rest: Vec<_> = stream.collect().await;
        assert!(matches!(rest.last(), Some(Ok(StreamEvent::Done { .. }))));
        let asked = inner.asked.lock().unwrap();
        assert_eq!(asked.len(), 3);
        assert!(asked[2] - asked[0] < Duration::from_millis(10), "{kind:?}");
        assert!(!provider.skip_waits(), "nothing waits any more");
    }
}

#[tokio::test(start_paused = true)]
async fn a_skipped_wait_does_not_end_the_next_one() {
    let (inner, provider) = scripted_retrying([failing_script(ErrorKind::Rate), rate_limited_script()]);
    let mut stream = send_request(&provider, &Bus::new().cx());
    assert!(matches!(stream.next().await, Some(Ok(StreamEvent::Retry(_)))));
    provider.skip_waits();
    let rest: Vec<_> = stream.collect().await;
    assert!(matches!(rest.last(), Some(Ok(StreamEvent::Done { .. }))));
    let asked = inner.asked.lock().unwrap();
    assert_eq!((asked[2] - asked[1]).as_secs(), 10);
}

// One request probes in this case, too, and the others get its outcome.
#[tokio::test(start_paused = true)]
async fn after_a_skip_one_of_twenty_requests_probes_first() {
    for kind in [ErrorKind::Rate, ErrorKind::Overloaded] {
        let limits = RateLimits::default();
        let (inner, provider) = limited_provider(&limits, Some("a"), 0);
        inner.scripts.lock().unwrap().extend((0..21).map(|_| {
            let mut error = error(kind);
            error.retry_after = Some(Duration::from_secs(30));
            vec![Err(error)]
        }));
        let agents = (0..20).map(|_| {
            let provider = provider.clone();
            tokio::spawn(async move { run(&provider).await })
        });
        let agents: Vec<_> = agents.collect();
        sleep(Duration::from_secs(5)).await;
        assert!(limits.skip_waits());
        for agent in agents {
            assert_eq!(agent.await.unwrap().1, None);
        }
        let asked = inner.asked.lock().unwrap();
        let after = |at: usize| (asked[at] - asked[0]).as_millis();
        assert_eq!((after(19), after(20)), (0, 5000), "{kind:?}");
        if kind == ErrorKind::Rate {
            // The failed probe closed the limit again for all requests.
            assert!(after(21) >= 35_000, "{}", after(21));
            let window = asked.iter().filter(|at| (5..35).contains(&(**at - asked[0]).as_secs())).count();
            assert_eq!(window, 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_caused_by_another_request_can_be_skipped_too() {
    for key in [Some("a"), None] {
        let limits = RateLimits::default();
        let (inner, provider) = limited_provider(&limits, key, 1);
        let mut refused = send_request(&provider, &Bus::new().cx());
        assert!(matches!(refused.next().await, Some(Ok(StreamEvent::Retry(_)))));
        drop(refused);
        let mut held = send_request(&provider, &Bus::new().cx());
        assert!(matches!(held.next().await, Some(Ok(StreamEvent::Retry(_)))));
        assert!(limits.skip_waits());
        let rest: Vec<_> = held.collect().await;
        assert!(matches!(rest.last(), Some(Ok(StreamEvent::Done { .. }))));
        let asked = inner.asked.lock().unwrap().clone();
        assert!(asked[1] - asked[0] < Duration::from_secs(1), "{key:?}");
    }
}

#[test]
fn waits_double_between_floor_and_cap_less_at_most_half() {
    let policy = RetryPolicy::default();
    let seconds = |attempt, random| policy.delay(attempt, None, random).as_secs_f64();
    assert_eq!(
        [1, 2, 3, 4, 5, 6, 40].map(|attempt| seconds(attempt, 1.0)),
        [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    );
    assert_eq!([seconds(1, 0.0), seconds(3, 0.5), seconds(9, 0.0)], [0.5, 3.0, 15.0]);
}

/// Provider that overrides every default method with another result.
struct Outspoken;

#[async_trait]
impl Provider for Outspoken {
    fn name(&self) -> &str {
        "outspoken"
    }

    fn model(&self, id: &str) -> Model {
        Model::unknown("outspoken", id)
    }

    fn default_model(&self) -> Option<String> {
        Some("usual".to_owned())
    }

    fn known_models(&self) -> Vec<Model> {
        vec![self.model("known")]
    }

    fn quota_key(&self) -> Option<String> {
        Some("key".to_owned())
    }

    fn rules(&self, model: &Model) -> WireRules {
        WireRules::tolerant(model.reference())
    }

    fn native_output(&self, _: &Model, _: &serde_json::Value, with_tools: bool) -> bool {
        with_tools
    }

    fn stream(&self, _: Request, _: &Cx) -> EventStream {
        Box::pin(stream::iter(answering_script()))
    }

    async fn count_tokens(&self, _: Request, _: &Cx) -> Result<Option<u64>, ProviderError> {
        Ok(Some(42))
    }

    async fn list_models(&self, _: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        Ok(Some(vec![self.model("listed")]))
    }

    async fn describe_model(&self, id: &str, _: &Cx) -> Model {
        Model { window: Some(7), ..self.model(id) }
    }
}

#[tokio::test]
async fn a_decorator_forwards_all_methods_that_it_does_not_change() {
    let decorated = Retrying::new(Arc::new(Outspoken), RetryPolicy::default());
    let (cx, model) = (Bus::new().cx(), decorated.model("m"));
    assert_eq!((decorated.name(), decorated.default_model()), ("outspoken", Some("usual".to_owned())));
    assert_eq!(decorated.known_models().len(), 1);
    assert_eq!(decorated.quota_key().as_deref(), Some("key"));
    let schema = serde_json::json!({});
    assert!(
        decorated.native_output(&model, &schema, true) && !decorated.native_output(&model, &schema, false)
    );
    let history = WireReady::normalise(&[Message::user_text("hi").shared()], &decorated.rules(&model));
    assert_eq!(decorated.count_tokens(Request::new(model, history), &cx).await, Ok(Some(42)));
    let listed = decorated.list_models(&cx).await.unwrap().unwrap();
    assert_eq!(listed.iter().map(|model| &*model.id).collect::<Vec<_>>(), ["listed"]);
    assert_eq!(decorated.describe_model("m", &cx).await.window, Some(7));
}

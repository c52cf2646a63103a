mod earlier;
mod repeated_reads;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use zk_core::events::CallRef;
use zk_core::kernel::Cx;
use zk_core::model::{AgentError, Block, Concurrency, Message, ToolCall, utc_time};
use zk_core::service::{Clock, Leg, OpenTurn, ParkedWait, STOPPED_BEFORE_CALL};

use super::CallContext;
use super::call::{CallOutcome, Calls, concurrency, skip_call};
use super::execute::CallCancel;
use super::preflight::{Preflight, Ready};
use earlier::earlier_results;
use repeated_reads::RepeatedReads;

/// Time that cancelled calls get to end before the run drops them, so that a call that is about to end can
/// still give its result. Shorter for sub-agents than for their parents, so that their results still count.
const ABORT_GRACE: Duration = Duration::from_millis(60);

const DEFAULT_CONCURRENCY: usize = 10;

/// Maximum number of calls of one answer that are run. Real models stay far below; only a broken server sends
/// more.
const MAX_CALLS_PER_ANSWER: usize = 10_000;

const CUT_SHORT: &str = "Aborted: the run was stopped while this call was running. Its effects are unknown.";
const PARKED: &str = "Skipped: a call before this one waits for approval. It was not run.";
const INTERRUPTED: &str = "Skipped: the user sent a message before this call. It was not run.";
const UNANSWERED: &str =
    "Skipped: the user sent a message instead of the answer for which this call waited. It was not run.";

/// Results of a batch, one for each call, in the order of the calls.
pub(crate) struct Batch {
    pub(crate) results: Vec<Block>,
    /// Size of the results in bytes as sent.
    pub(crate) bytes: usize,
    /// Error after which the run must not continue.
    pub(crate) failure: Option<AgentError>,
    /// Cause for which the turn stays open for another leg of the run. There are no results then.
    pub(crate) left_open: Option<LeftOpen>,
}

/// Cause for which a leg leaves a turn open.
pub(crate) enum LeftOpen {
    /// A call waits for the answer to a question, or for a time.
    Parked { call: Arc<CallRef>, reason: String, wait: ParkedWait },
    /// Another worker continues the run.
    HandedOver,
}

/// Runs the calls of an assistant message; with `open`, only those without a result of an earlier leg. Every
/// call gets a result, even if the batch ends early, unless the turn stays open for another leg.
pub(crate) async fn run_calls(context: CallContext<'_>, message: &Message, open: Option<&OpenTurn>) -> Batch {
    let cx = context.cx;
    let leg = cx.service::<Leg>();
    let is_left = || leg.is_some() && context.shared.leaving().is_some();
    let calls: Vec<&ToolCall> = message.calls().collect();
    let shared =
        Calls { context: &context, cx: cx.clone(), counts: Arc::new(context.shared.counts().clone()) };
    let refs: Vec<Arc<CallRef>> = calls.iter().map(|call| shared.call_ref(call)).collect();
    if calls.len() > 1 {
        let _ = cx.emit(shared.batch_event(&calls, &refs)).await;
    }
    let mut in_flight =
        InFlight::new(cx, context.behavior.max_concurrent_tools.unwrap_or(DEFAULT_CONCURRENCY));
    let (mut parked, mut left_open) = (None, None);
    let mut earlier = match open {
        Some(open) => Box::pin(earlier_results(&shared, open, &refs)).await,
        None => BTreeMap::new(),
    };
    let mut reads = RepeatedReads::default();
    for (index, (call, info)) in calls.iter().zip(&refs).take(MAX_CALLS_PER_ANSWER).enumerate() {
        if let Some(known) = earlier.remove(&index) {
            in_flight.store_outcome(index, known);
            continue;
        }
        // An exclusive call may wait for long, so that the queues are checked after the wait.
        let expected = match context.toolbox.get(&call.name) {
            Some(tool) if call.malformed.is_none() => concurrency(&*tool, &call.args),
            _ => Concurrency::Shared,
        };
        in_flight.wait_for_slot(&expected).await;
        if context.shared.has_steering() || cx.is_stopped() || is_left() {
            break;
        }
        match in_flight.run_while_draining(shared.preflight(call, info.clone())).await {
            None | Some(Preflight::Stopped) => break,
            Some(Preflight::Settled(settled)) => in_flight.store_outcome(index, settled),
            Some(Preflight::Parked { reason, wait: Some(wait), .. }) if leg.is_some() => {
                left_open = Some(LeftOpen::Parked { call: info.clone(), reason, wait });
                break;
            }
            Some(Preflight::Parked { settled, tool, reason, wait: _ }) => {
                in_flight.store_outcome(index, settled);
                parked = Some(AgentError::Parked { tool, reason, question: None });
                break;
            }
            Some(Preflight::Ready(ready)) if reads.is_repeated(index, &ready) => {}
            Some(Preflight::Ready(ready)) => {
                in_flight.wait_for_slot(&ready.concurrency).await;
                if cx.is_stopped() {
                    break;
                }
                in_flight.start_call(index, &shared, ready);
            }
        }
    }
    in_flight.join_all().await;
    let aborted = cx.is_stopped();
    let (mut done, begun) = in_flight.into_results();
    reads.share_results(&shared, &refs, &mut done).await;
    done.extend(earlier);
    if is_left() && done.len() < calls.len() {
        left_open = Some(LeftOpen::HandedOver);
    }
    if left_open.is_some() && (is_left() || !aborted) {
        let failure = done.into_values().find_map(|outcome| outcome.unrecorded);
        return Batch { results: Vec::new(), bytes: 0, failure, left_open };
    }
    let mut results = Vec::with_capacity(calls.len());
    let mut bytes = 0;
    let (mut failure, mut failures) = (None, BTreeSet::new());
    for (index, (call, info)) in calls.iter().zip(&refs).enumerate() {
        let settled = match done.remove(&index) {
            Some(settled) => settled,
            None if index >= MAX_CALLS_PER_ANSWER => skip_call(cx, info, &too_many_calls(calls.len())).await,
            None => {
                let reason = match (aborted, begun.contains(&index)) {
                    (true, true) => CUT_SHORT.into(),
                    (true, false) => STOPPED_BEFORE_CALL.into(),
                    (false, _) if parked.is_some() => PARKED.into(),
                    (false, _) => interrupted_reason(leg.as_deref(), info, cx),
                };
                skip_call(cx, info, &reason).await
            }
        };
        bytes += settled.bytes;
        let check = || context.history.repeats().record_result(call, &settled.result, &mut failures);
        failure = failure.or(settled.unrecorded).or_else(check);
        results.push(Block::ToolResult(settled.result));
    }
    context.history.repeats().end_batch(&failures);
    shared.announce_end(&calls, &refs, &results).await;
    Batch { results, bytes, failure: failure.or(parked), left_open: None }
}

/// Returns the message for the model about a call that a message of the user came before.
fn interrupted_reason(leg: Option<&Leg>, call: &CallRef, cx: &Cx) -> Cow<'static, str> {
    let Some(leg) = leg else { return INTERRUPTED.into() };
    match leg.waits_until(call).filter(|until| *until > <dyn Clock>::now_in(cx)) {
        Some(until) => format!(
            "Ended early: the user sent a message before the wait of this call was over, at {}. The call did nothing.",
            utc_time(until)
        )
        .into(),
        None if leg.is_unanswered(call) => UNANSWERED.into(),
        None => INTERRUPTED.into(),
    }
}

/// Returns the message for the model about a call above the limit.
fn too_many_calls(count: usize) -> String {
    format!(
        "Skipped: your answer has {count} calls, and at most {MAX_CALLS_PER_ANSWER} of one answer are run. This one was \
         not run. Make the calls behind the limit again in your next answer, or do more with each call."
    )
}

/// Index of the call in the batch, and its outcome.
type Joined = (usize, CallOutcome);

type Running<'a> = Pin<Box<dyn Future<Output = Joined> + Send + 'a>>;

/// Returns the next call that ends; pending forever while none is in flight.
async fn next_joined(running: &mut FuturesUnordered<Running<'_>>) -> Joined {
    match running.next().await {
        Some(joined) => joined,
        None => std::future::pending().await,
    }
}

/// Running calls of a batch, and the outcomes so far.
struct InFlight<'a> {
    cx: &'a Cx,
    limit: usize,
    running: FuturesUnordered<Running<'a>>,
    cancels: BTreeMap<usize, (CallCancel, Concurrency)>,
    results: BTreeMap<usize, CallOutcome>,
    /// Completes when the grace period after a stop of the run is over.
    grace: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    given_up: bool,
}

impl<'a> InFlight<'a> {
    fn new(cx: &'a Cx, limit: usize) -> Self {
        let grace_period = ABORT_GRACE / (1 + cx.origin().depth);
        Self {
            cx,
            limit: limit.max(1),
            running: FuturesUnordered::new(),
            cancels: BTreeMap::new(),
            results: BTreeMap::new(),
            grace: Box::pin(async move {
                cx.stop_token().cancelled().await;
                tokio::time::sleep(grace_period).await;
            }),
            given_up: false,
        }
    }

    fn store_outcome(&mut self, index: usize, settled: CallOutcome) {
        self.results.insert(index, settled);
    }

    fn start_call<'b: 'a>(&mut self, index: usize, calls: &'b Calls<'b>, ready: Ready) {
        let cancel = CallCancel {
            stop: self.cx.stop_token().child_token(),
            by_sibling: Arc::new(AtomicBool::new(false)),
        };
        self.cancels.insert(index, (cancel.clone(), ready.concurrency.clone()));
        self.running.push(Box::pin(async move { (index, calls.execute(ready, cancel).await) }));
    }

    /// Waits until a call with the concurrency `wanted` may start.
    async fn wait_for_slot(&mut self, wanted: &Concurrency) {
        while self.running.len() >= self.limit || self.conflicts_with_running(wanted) {
            if self.running.is_empty() {
                return;
            }
            self.join_one().await;
        }
    }

    fn conflicts_with_running(&self, wanted: &Concurrency) -> bool {
        self.cancels.values().any(|(_, running)| match (running, wanted) {
            (Concurrency::Shared, Concurrency::Shared) => false,
            (Concurrency::Resources(held), Concurrency::Resources(asked)) => {
                held.iter().any(|resource| asked.contains(resource))
            }
            (Concurrency::Exclusive | Concurrency::Shared | Concurrency::Resources(_), _) => true,
        })
    }

    /// Waits for all calls in flight.
    async fn join_all(&mut self) {
        while !self.running.is_empty() {
            self.join_one().await;
        }
    }

    /// Waits for one call to end. After a stop and the grace period it drops all calls.
    async fn join_one(&mut self) {
        let joined = {
            let joining = pin!(next_joined(&mut self.running));
            match select(joining, self.grace.as_mut()).await {
                Either::Left((joined, _)) => Some(joined),
                Either::Right(_) => None,
            }
        };
        self.store_ended_call(joined);
    }

    /// Stores the outcome of an ended call; drops all calls if the grace period is over.
    fn store_ended_call(&mut self, joined: Option<Joined>) {
        let Some((index, settled)) = joined else {
            self.given_up = true;
            self.running.clear();
            return;
        };
        self.cancels.remove(&index);
        if settled.cancels_siblings {
            for (cancel, _) in self.cancels.values() {
                cancel.by_sibling.store(true, Ordering::Release);
                cancel.stop.cancel();
            }
        }
        self.results.insert(index, settled);
    }

    /// Awaits `work` while the running calls continue. `None` if the run is stopped before `work` ends.
    async fn run_while_draining<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        while !self.given_up {
            let joined = {
                let joining = pin!(next_joined(&mut self.running));
                match select(work.as_mut(), select(joining, self.grace.as_mut())).await {
                    Either::Left((done, _)) => return Some(done),
                    Either::Right((Either::Left((joined, _)), _)) => Some(joined),
                    Either::Right((Either::Right(_), _)) => None,
                }
            };
            self.store_ended_call(joined);
        }
        None
    }

    /// Returns the outcomes, and the indices of calls that began and have no outcome.
    fn into_results(self) -> (BTreeMap<usize, CallOutcome>, Vec<usize>) {
        (self.results, self.cancels.into_keys().collect())
    }
}

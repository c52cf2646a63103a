use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use zk_core::events::{CallRef, ToolSkipped};
use zk_core::kernel::Cx;
use zk_core::model::{Block, Concurrency, Message, ToolCall, TurnId};

use super::call::{Calls, Leash, Preflight, Ready, Settled, failed};
use crate::driver::Driver;

/// How long tools that were told to stop are waited for before the run goes on without them. Dropping a call
/// ends it for good; this only lets one that is just ending say how.
const ABORT_GRACE: Duration = Duration::from_millis(60);

const DEFAULT_CONCURRENCY: usize = 10;

/// The results of a batch, one for each call, in the order of the calls.
pub(crate) struct Batch {
    pub(crate) results: Vec<Block>,
    /// Their size as it weighs on the wire.
    pub(crate) bytes: usize,
}

impl Driver {
    /// Runs the calls of an assistant message. Whatever ends the batch early, every call has a result.
    pub(crate) async fn run_calls(&self, cx: &Cx, turn_id: &TurnId, message: &Message) -> Batch {
        debug_assert_eq!(cx.turn_id(), turn_id.as_str());
        let calls: Vec<&ToolCall> = message.calls().collect();
        let shared = Calls { driver: self, cx: cx.clone(), counts: Arc::new(self.shared.counts().clone()) };
        let refs: Vec<Arc<CallRef>> = calls.iter().map(|call| shared.call_ref(call)).collect();
        let mut flight = Flight::new(cx, self.behavior.max_concurrent_tools.unwrap_or(DEFAULT_CONCURRENCY));
        for (index, (call, info)) in calls.iter().zip(&refs).enumerate() {
            // Room is made before the last look at the queues: an exclusive call may have waited long.
            let expected = match self.toolbox.get(&call.name) {
                Some(tool) if call.malformed.is_none() => tool.concurrency(&call.args),
                _ => Concurrency::Shared,
            };
            flight.make_room(&expected).await;
            if self.shared.has_steering() || cx.is_stopped() {
                break;
            }
            match flight.meanwhile(shared.preflight(call, info.clone())).await {
                None => break,
                Some(Preflight::Settled(settled)) => flight.settle(index, settled),
                Some(Preflight::Ready(ready)) => {
                    flight.make_room(&ready.concurrency).await;
                    if cx.is_stopped() {
                        break;
                    }
                    flight.launch(index, &shared, ready);
                }
            }
        }
        flight.land().await;
        let aborted = cx.is_stopped();
        let (mut done, begun) = flight.into_results();
        let mut results = Vec::with_capacity(calls.len());
        let mut bytes = 0;
        for (index, info) in refs.iter().enumerate() {
            let settled = match done.remove(&index) {
                Some(settled) => settled,
                None => skipped(cx, info, aborted, begun.contains(&index)).await,
            };
            bytes += settled.bytes;
            results.push(Block::ToolResult(settled.result));
        }
        Batch { results, bytes }
    }
}

/// An honest result for a call that has none.
async fn skipped(cx: &Cx, call: &Arc<CallRef>, aborted: bool, begun: bool) -> Settled {
    let reason = match (aborted, begun) {
        (true, true) => "Aborted: the run was stopped while this call was running. Its effects are unknown.",
        (true, false) => "Aborted: the run was stopped before this call. It was not run.",
        (false, _) => "Skipped: the user sent a message before this call. It was not run.",
    };
    let _ = cx.emit(ToolSkipped { call: call.clone(), reason: reason.to_owned() }).await;
    failed(call, reason.to_owned())
}

type Running<'a> = Pin<Box<dyn Future<Output = (usize, Settled)> + Send + 'a>>;

/// The calls in flight.
struct Flight<'a> {
    cx: &'a Cx,
    limit: usize,
    running: FuturesUnordered<Running<'a>>,
    leashes: BTreeMap<usize, (Leash, Concurrency)>,
    results: BTreeMap<usize, Settled>,
    given_up: bool,
}

impl<'a> Flight<'a> {
    fn new(cx: &'a Cx, limit: usize) -> Self {
        Self {
            cx,
            limit: limit.max(1),
            running: FuturesUnordered::new(),
            leashes: BTreeMap::new(),
            results: BTreeMap::new(),
            given_up: false,
        }
    }

    fn settle(&mut self, index: usize, settled: Settled) {
        self.results.insert(index, settled);
    }

    fn launch<'b: 'a>(&mut self, index: usize, calls: &'b Calls<'b>, ready: Ready) {
        let leash =
            Leash { stop: self.cx.stop_token().child_token(), by_sibling: Arc::new(AtomicBool::new(false)) };
        self.leashes.insert(index, (leash.clone(), ready.concurrency.clone()));
        self.running.push(Box::pin(async move { (index, calls.execute(ready, leash).await) }));
    }

    /// Waits until a call of this kind may run beside those in flight.
    async fn make_room(&mut self, wanted: &Concurrency) {
        while !self.given_up && (self.running.len() >= self.limit || self.is_in_the_way(wanted)) {
            self.land_one().await;
        }
    }

    fn is_in_the_way(&self, wanted: &Concurrency) -> bool {
        self.leashes.values().any(|(_, flying)| match (flying, wanted) {
            (Concurrency::Shared, Concurrency::Shared) => false,
            (Concurrency::Resources(held), Concurrency::Resources(asked)) => {
                held.iter().any(|resource| asked.contains(resource))
            }
            (Concurrency::Exclusive | Concurrency::Shared | Concurrency::Resources(_), _) => true,
        })
    }

    /// Waits for all calls in flight.
    async fn land(&mut self) {
        while !self.given_up && !self.running.is_empty() {
            self.land_one().await;
        }
    }

    /// Waits for one call, or, when the run is stopped, for a moment.
    async fn land_one(&mut self) {
        let stop = self.cx.stop_token();
        let landed = match select(self.running.next(), pin!(stop.cancelled())).await {
            Either::Left((landed, _)) => landed,
            Either::Right(_) => {
                self.land_what_ends_by_itself().await;
                return;
            }
        };
        if let Some((index, settled)) = landed {
            self.landed(index, settled);
        }
    }

    async fn land_what_ends_by_itself(&mut self) {
        let mut grace = pin!(tokio::time::sleep(ABORT_GRACE));
        while !self.running.is_empty() {
            match select(self.running.next(), grace.as_mut()).await {
                Either::Left((Some((index, settled)), _)) => self.landed(index, settled),
                Either::Left((None, _)) | Either::Right(_) => break,
            }
        }
        self.given_up = true;
        self.running.clear();
    }

    fn landed(&mut self, index: usize, settled: Settled) {
        self.leashes.remove(&index);
        if settled.cancels_siblings {
            for (leash, _) in self.leashes.values() {
                leash.by_sibling.store(true, Ordering::Release);
                leash.stop.cancel();
            }
        }
        self.results.insert(index, settled);
    }

    /// Awaits `work` while the calls in flight go on. Nothing when the run is stopped first.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            if self.running.is_empty() {
                return Some(work.await);
            }
            match select(work.as_mut(), self.running.next()).await {
                Either::Left((done, _)) => return Some(done),
                Either::Right((Some((index, settled)), _)) => self.landed(index, settled),
                Either::Right((None, _)) => {}
            }
        }
    }

    /// The results, and the calls that had begun and got none.
    fn into_results(self) -> (BTreeMap<usize, Settled>, Vec<usize>) {
        (self.results, self.leashes.into_keys().collect())
    }
}

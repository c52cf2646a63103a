use std::convert::Infallible;
use std::time::Duration;

use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use serde::Serialize;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;
use zk_core::model::EntryId;
use zk_core::service::{Audience, EngineRun, Entry, EntryKind, RunFilter, RunPhase, StoreError};
use zk_engine::{LiveUpdate, RunWatch, Runs};

use super::error::FleetError;
use crate::http::Body;

/// Interval between two looks at a run.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Interval of comments that keep a silent connection open.
const COMMENT_INTERVAL: Duration = Duration::from_secs(15);

/// Maximum number of events that wait for the client.
const MAX_WAITING_EVENTS: usize = 64;

/// Streams the entries of a run's session after `last`, and the states of the run, until it is over, the client is gone, or
/// its token is not valid any more.
pub(super) fn stream_events(
    runs: Runs,
    run: EngineRun,
    last: Option<EntryId>,
    is_allowed: impl Fn() -> bool + Send + Sync + 'static,
) -> Body {
    let (sender, receiver) = channel(MAX_WAITING_EVENTS);
    tokio::spawn(async move {
        let watch = RunWatch::new(&**runs.store(), run.job.session().clone());
        // The client is gone, or the store failed, which the last event says.
        let _ = Follower { runs, sender, last, state: None, watch, is_allowed: Box::new(is_allowed) }
            .follow(run)
            .await;
    });
    let next = |mut receiver: Receiver<Bytes>| async move {
        let event = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(event)), receiver))
    };
    StreamBody::new(stream::unfold(receiver, next)).boxed_unsync()
}

struct Follower {
    runs: Runs,
    sender: Sender<Bytes>,
    last: Option<EntryId>,
    /// Phase, number of legs and presence of a wait that were sent last.
    state: Option<(RunPhase, u64, bool)>,
    watch: RunWatch,
    /// Whether the client may still see the run.
    is_allowed: Box<dyn Fn() -> bool + Send + Sync>,
}

/// The stream is over: the client is gone, or was told of an error.
struct Gone;

impl Follower {
    async fn follow(mut self, mut run: EngineRun) -> Result<(), Gone> {
        let mut spoke = Instant::now();
        loop {
            if !(self.is_allowed)() {
                return self.send("error", None, &FleetError::Unauthorised.to_string()).await;
            }
            let before = self.last.clone();
            let sent = self.send_entries(&run).await?;
            let state = (run.phase, run.legs, run.wait.is_some());
            if self.state.replace(state) != Some(state) {
                self.send("run", None, &run).await?;
            }
            if run.phase.is_finished() && (!sent || before == self.last) {
                return self.send("end", None, &run.phase).await;
            }
            if sent {
                spoke = Instant::now();
            } else if spoke.elapsed() > COMMENT_INTERVAL {
                self.sender.send(Bytes::from_static(b":\n\n")).await.map_err(|_| Gone)?;
                spoke = Instant::now();
            }
            spoke = self.send_pieces().await?.unwrap_or(spoke);
            match self.runs.engine().list(&RunFilter::run(run.job.run().clone())).await {
                Ok(listed) => run = listed.into_iter().next().ok_or(Gone)?,
                Err(error) => return self.send("error", None, &error.to_string()).await,
            }
        }
    }

    /// Sends the pieces of the answer that is on its way until it is time to look at the entries; returns when the last one
    /// was sent.
    async fn send_pieces(&mut self) -> Result<Option<Instant>, Gone> {
        let begun = Instant::now();
        let mut spoke = None;
        while begun.elapsed() < LOOK_INTERVAL {
            let pause = LOOK_INTERVAL.saturating_sub(begun.elapsed());
            let update = tokio::select! {
                () = self.sender.closed() => return Err(Gone),
                update = self.watch.next(pause) => update,
            };
            match update {
                LiveUpdate::Look => break,
                LiveUpdate::Piece(piece) => {
                    self.send("piece", None, &piece).await?;
                    spoke = Some(Instant::now());
                }
            }
        }
        Ok(spoke)
    }

    /// Sends the entries that were added; returns whether there are any.
    async fn send_entries(&mut self, run: &EngineRun) -> Result<bool, Gone> {
        let session = run.job.session();
        let newest = match self.runs.store().last_entries(session, 1).await {
            Ok(entries) => entries.into_iter().next().map(|entry| entry.id),
            // The session of a scheduled run exists once its first leg begins.
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(self.fail(&error).await),
        };
        if newest.is_none() || newest == self.last {
            return Ok(false);
        }
        let read = match self.runs.store().read(session).await {
            Ok(read) => read,
            Err(error) => return Err(self.fail(&error).await),
        };
        let known =
            self.last.as_ref().and_then(|last| read.entries.iter().position(|entry| entry.id == *last));
        for entry in read.entries.iter().skip(known.map_or(0, |at| at + 1)) {
            if is_shown(entry) {
                self.send("entry", Some(&entry.id), entry).await?;
            }
        }
        self.last = newest;
        Ok(true)
    }

    /// Tells the client of an error of the store, which ends the stream.
    async fn fail(&self, error: &StoreError) -> Gone {
        let _ = self.send("error", None, &error.to_string()).await;
        Gone
    }

    async fn send(&self, event: &str, id: Option<&EntryId>, data: &impl Serialize) -> Result<(), Gone> {
        // JSON has no line breaks, so that the data is one line.
        let data = serde_json::to_string(data).map_err(|_| Gone)?;
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        self.sender.send(format!("{id}event: {event}\ndata: {data}\n\n").into()).await.map_err(|_| Gone)
    }
}

/// Whether clients see an entry: plugins keep some for themselves.
fn is_shown(entry: &Entry) -> bool {
    match &entry.kind {
        EntryKind::Custom(custom) => custom.audience != Audience::Hidden,
        _ => true,
    }
}

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use zk_core::service::{Entry, EntryVisitor, StoreError};
use zk_stores::wire::{StreamEnd, StreamLine};

use crate::http::Body;

/// Maximum number of lines that wait for the client.
const MAX_WAITING_LINES: usize = 256;

/// Sender of a stream of entries.
#[derive(Clone)]
pub(super) struct Lines {
    sender: Sender<Bytes>,
    /// Lines of a store that calls the visitor on a thread of the runtime, which must not block; sent at the
    /// end.
    late: Arc<Mutex<Vec<Bytes>>>,
}

/// Creates a stream, and the body of an answer that carries it.
pub(super) fn lines() -> (Lines, Body) {
    let (sender, receiver) = channel(MAX_WAITING_LINES);
    let next = |mut receiver: Receiver<Bytes>| async move {
        let line = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(line)), receiver))
    };
    let body = StreamBody::new(stream::unfold(receiver, next)).boxed_unsync();
    (Lines { sender, late: Arc::default() }, body)
}

fn encode_line(line: &StreamLine) -> Option<Bytes> {
    let mut line = serde_json::to_vec(line).ok()?;
    line.push(b'\n');
    Some(line.into())
}

impl Lines {
    /// Visitor that sends each entry, until the client is gone.
    pub(super) fn visitor(&self) -> EntryVisitor {
        let lines = self.clone();
        Box::new(move |entry, _| {
            let Some(line) = encode_line(&StreamLine::Entry(Box::new(entry))) else {
                return ControlFlow::Continue(());
            };
            if Handle::try_current().is_ok() {
                lines.late.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                return ControlFlow::Continue(());
            }
            match lines.sender.blocking_send(line) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })
    }

    pub(super) async fn send_all(&self, entries: Vec<Entry>) {
        for entry in entries {
            self.send(&StreamLine::Entry(Box::new(entry))).await;
        }
    }

    /// Sends the end of the stream, or the error that ends it.
    pub(super) async fn finish(self, end: Result<StreamEnd, StoreError>) {
        let late = std::mem::take(&mut *self.late.lock().unwrap_or_else(PoisonError::into_inner));
        for line in late {
            // The client may be gone.
            let _ = self.sender.send(line).await;
        }
        let last = match end {
            Ok(end) => StreamLine::End(Box::new(end)),
            Err(error) => StreamLine::Error(error.into()),
        };
        self.send(&last).await;
    }

    async fn send(&self, line: &StreamLine) {
        if let Some(line) = encode_line(line) {
            // The client may be gone.
            let _ = self.sender.send(line).await;
        }
    }
}

use std::io;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, ExecError, ExecRequest, Files, PathError, ProcessEvent};

use crate::{Answer, Ask, Order, Told, frame};

/// Answers at `socket` with what `exec` and `files` do.
///
/// # Errors
/// The system's, when nothing can be heard at the socket.
pub async fn serve(socket: &Path, exec: Arc<dyn Exec>, files: Arc<dyn Files>) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (exec, files) = (exec.clone(), files.clone());
        tokio::spawn(async move {
            // A connection that breaks has nobody left to be told.
            let _ = answer(stream, &*exec, files).await;
        });
    }
}

async fn answer(stream: UnixStream, exec: &dyn Exec, files: Arc<dyn Files>) -> io::Result<()> {
    let (mut from, mut to) = stream.into_split();
    let (ask, bytes) = frame::receive_from::<Ask>(&mut from).await?;
    let ask = match ask {
        Ask::Spawn { request } => return run(exec, request, from, to).await,
        ask => ask,
    };
    let work = move || file_work(&*files, ask, &bytes);
    let (head, bytes) = tokio::task::spawn_blocking(work).await.map_err(io::Error::other)??;
    frame::send_to(&mut to, &head, &bytes).await
}

/// The answer to a request about files, and the bytes behind it.
fn file_work(files: &dyn Files, ask: Ask, bytes: &[u8]) -> io::Result<(serde_json::Value, Vec<u8>)> {
    fn value<T: Serialize>(answer: Answer<T>) -> io::Result<(serde_json::Value, Vec<u8>)> {
        Ok((serde_json::to_value(answer)?, Vec::new()))
    }
    match ask {
        Ask::Roots => value(Ok(files.roots())),
        Ask::Resolve { cwd, path } => value(files.resolve(&cwd, &path)),
        Ask::Stat { at } => value(files.stat(&at)),
        Ask::List { at } => value(files.list(&at)),
        Ask::Write { at } => value(files.write(&at, bytes)),
        Ask::Search { from, query } => value(files.search(&from, &query, &CancellationToken::new())),
        Ask::Walk { from, options } => {
            let mut entries = Vec::new();
            let report = files.walk(&from, &options, &mut |entry| {
                entries.push(entry);
                ControlFlow::Continue(())
            });
            value(report.map(|report| (entries, report)))
        }
        Ask::Open { at, range } => {
            let mut bytes = Vec::new();
            let read = files.open(&at, Some(range)).and_then(|mut file| {
                let failed = |source| PathError::Io { doing: "read".into(), path: at.shown.clone(), source };
                file.read_to_end(&mut bytes).map(|_| ()).map_err(failed)
            });
            Ok((serde_json::to_value(read)?, bytes))
        }
        Ask::Spawn { .. } => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Runs a command for as long as its connection holds.
async fn run(
    exec: &dyn Exec,
    request: ExecRequest,
    from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
) -> io::Result<()> {
    let mut process = match exec.spawn(request).await {
        Ok(process) => process,
        Err(error) => {
            let why = match error {
                ExecError::Spawn { source, .. } => source.to_string(),
                error => error.to_string(),
            };
            return frame::send_to(&mut to, &Told::Failed(why), &[]).await;
        }
    };
    frame::send_to(&mut to, &Told::Started, &[]).await?;
    let mut orders = orders(from);
    let mut is_over = false;
    loop {
        tokio::select! {
            event = process.next(), if !is_over => match event.map_err(io::Error::other)? {
                Some(ProcessEvent::Output(stream, bytes)) => {
                    let head = Told::Event(ProcessEvent::Output(stream, Vec::new()));
                    frame::send_to(&mut to, &head, &bytes).await?;
                }
                Some(event) => frame::send_to(&mut to, &Told::Event(event), &[]).await?,
                None => {
                    is_over = true;
                    frame::send_to(&mut to, &Told::Over, &[]).await?;
                }
            },
            order = orders.recv() => {
                // Dropping the process ends it.
                let Some((order, bytes)) = order else { return Ok(()) };
                let done = match order {
                    Order::Release => {
                        process.release();
                        return Ok(());
                    }
                    Order::Members => {
                        let members = process.members().await.unwrap_or_default();
                        frame::send_to(&mut to, &Told::Members(members), &[]).await?;
                        continue;
                    }
                    Order::Write => process.write(&bytes).await,
                    Order::CloseInput => process.close_input().await,
                    Order::Resize(size) => process.resize(size).await,
                    Order::Kill(signal) => process.kill(signal).await,
                };
                let done = done.map_err(|error| error.to_string());
                frame::send_to(&mut to, &Told::Done(done), &[]).await?;
            }
        }
    }
}

/// What is asked of a process, read beside it: half a frame must not be lost.
fn orders(mut from: OwnedReadHalf) -> tokio::sync::mpsc::Receiver<(Order, Vec<u8>)> {
    let (sender, orders) = tokio::sync::mpsc::channel(4);
    tokio::spawn(async move {
        while let Ok(order) = frame::receive_from(&mut from).await {
            if sender.send(order).await.is_err() {
                return;
            }
        }
    });
    orders
}

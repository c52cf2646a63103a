use std::collections::HashMap;
use std::io::{self, BufReader, Read as _};
use std::net::Shutdown;
use std::ops::ControlFlow;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use zk_core::service::{Exec, Files, Process, ProcessEvent};

use crate::wire::{News, Order, Question, receive, send};

type Asked = (Order, Vec<u8>, oneshot::Sender<Result<Vec<u32>, String>>);

/// A command that runs: where it takes orders, and what ends a write that it does not read.
#[derive(Clone)]
struct Running {
    orders: mpsc::UnboundedSender<Asked>,
    hurry: Arc<Notify>,
}

struct Server {
    exec: Arc<dyn Exec>,
    files: Arc<dyn Files>,
    running: Mutex<HashMap<u64, Running>>,
    runtime: Handle,
}

/// Answers at `listener` with what `exec` and `files` do. Blocks, within a runtime.
///
/// # Errors
/// The system's, when nothing more can be heard there.
pub fn serve(listener: &UnixListener, exec: Arc<dyn Exec>, files: Arc<dyn Files>) -> io::Result<()> {
    let server = Arc::new(Server { exec, files, running: Mutex::default(), runtime: Handle::current() });
    for (number, stream) in (0..).zip(listener.incoming()) {
        let (server, stream) = (server.clone(), stream?);
        // Of a connection that breaks, the other side knows.
        std::thread::spawn(move || server.answer(number, stream));
    }
    Ok(())
}

impl Server {
    fn answer(&self, number: u64, mut to: UnixStream) -> io::Result<()> {
        let mut from = BufReader::new(to.try_clone()?);
        let Some((question, bytes)) = receive(&mut from)? else { return Ok(()) };
        let files = &self.files;
        match question {
            Question::Roots => send(&mut to, &files.roots(), &[]),
            Question::Resolve(cwd, path) => send(&mut to, &files.resolve(&cwd, &path), &[]),
            Question::Stat(at) => send(&mut to, &files.stat(&at), &[]),
            Question::List(at) => send(&mut to, &files.list(&at), &[]),
            Question::Write(at) => send(&mut to, &files.write(&at, &bytes), &[]),
            Question::Open(at, range) => match files.open(&at, range) {
                Ok(file) => {
                    tell(&mut to, &Ok::<_, ()>(()))?;
                    send_pieces(file, &mut to)
                }
                Err(refused) => tell(&mut to, &Err::<(), _>(refused)),
            },
            Question::Walk(start, options) => {
                let report =
                    files.walk(&start, &options, &mut |entry| match tell(&mut to, &Ok::<_, ()>(entry)) {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(_) => ControlFlow::Break(()),
                    });
                tell(&mut to, &Err::<(), _>(report))
            }
            Question::Search(start, query) => {
                let stop = CancellationToken::new();
                on_end(from, stop.clone());
                send(&mut to, &files.search(&start, &query, &stop), &[])?;
                to.shutdown(Shutdown::Both)
            }
            Question::Order(of, order) => {
                let done = self.pass_on(of, order, bytes);
                send(&mut to, &done.unwrap_or_else(|| Err("it is over".into())), &[])
            }
            Question::Spawn(request) => {
                let spawned = self.runtime.block_on(self.exec.spawn(request));
                let told = spawned.as_ref().map(|_| number).map_err(ToString::to_string);
                let Ok(process) = spawned else { return send(&mut to, &told, &[]) };
                let (orders, asked) = mpsc::unbounded_channel();
                let (running, gone) = (Running { orders, hurry: Arc::default() }, CancellationToken::new());
                let hurry = running.hurry.clone();
                // Before it is told: the first order may follow at once.
                self.running().insert(number, running);
                if let Err(error) = send(&mut to, &told, &[]) {
                    self.running().remove(&number);
                    return Err(error);
                }
                // The end of the connection is the end of the command, also while that says nothing.
                on_end(from, gone.clone());
                let (news, happened) = mpsc::channel(8);
                let attending = self.runtime.spawn(attend(process, asked, hurry, news, gone.clone()));
                let told = pass_news(happened, &mut to);
                gone.cancel();
                let _ = self.runtime.block_on(attending);
                self.running().remove(&number);
                told
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<u64, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass_on(&self, of: u64, order: Order, bytes: Vec<u8>) -> Option<Result<Vec<u32>, String>> {
        let running = self.running().get(&of)?.clone();
        let (answer, answered) = oneshot::channel();
        if matches!(order, Order::Kill(_)) {
            running.hurry.notify_one();
        }
        running.orders.send((order, bytes, answer)).ok()?;
        answered.blocking_recv().ok()
    }
}

fn tell(to: &mut UnixStream, what: &impl Serialize) -> io::Result<()> {
    send(to, what, &[])
}

/// The last piece is empty; a failure in between is told and not taken for the end.
fn send_pieces(mut file: Box<dyn io::Read + Send>, to: &mut UnixStream) -> io::Result<()> {
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece) {
            Ok(length) => {
                send(to, &Ok::<_, ()>(()), piece.get(..length).unwrap_or_default())?;
                if length == 0 {
                    return Ok(());
                }
            }
            Err(error) => return tell(to, &Err::<(), _>(error.to_string())),
        }
    }
}

/// Cancels `token` once the other side has closed the connection.
fn on_end(mut from: BufReader<UnixStream>, token: CancellationToken) {
    std::thread::spawn(move || {
        let _ = from.read(&mut [0]);
        token.cancel();
    });
}

fn pass_news(mut happened: mpsc::Receiver<News>, to: &mut UnixStream) -> io::Result<()> {
    while let Some(news) = happened.blocking_recv() {
        match news {
            News::Other(ProcessEvent::Output(stream, bytes)) => send(to, &News::Printed(stream), &bytes)?,
            other => send(to, &other, &[])?,
        }
    }
    Ok(())
}

/// Serves the requests on a running process. Dropping the process handle on return kills its process group.
async fn attend(
    mut process: Box<dyn Process>,
    mut orders: mpsc::UnboundedReceiver<Asked>,
    hurry: Arc<Notify>,
    news: mpsc::Sender<News>,
    gone: CancellationToken,
) {
    let mut is_over = false;
    loop {
        let happened = async {
            // Back-pressure: read output only as fast as the client takes it.
            let room = news.reserve().await.ok()?;
            Some((room, process.next().await))
        };
        tokio::select! {
            () = gone.cancelled() => return,
            happened = happened, if !is_over => match happened {
                Some((room, Ok(Some(event)))) => room.send(News::Other(event)),
                Some((room, Err(error))) => room.send(News::Lost(error.to_string())),
                Some((room, Ok(None))) => {
                    room.send(News::Lost(String::new()));
                    is_over = true;
                }
                None => return,
            },
            Some((order, bytes, answer)) = orders.recv() => {
                let done = match order {
                    Order::Release => {
                        let _ = answer.send(Ok(Vec::new()));
                        return process.release();
                    }
                    Order::Members => process.members().await,
                    Order::Kill(signal) => {
                        // The cancellation arrived and must not abort a later write.
                        tokio::select! { biased; () = hurry.notified() => {}, () = std::future::ready(()) => {} }
                        process.kill(signal).await.map(|()| Vec::new())
                    }
                    Order::CloseInput => process.close_input().await.map(|()| Vec::new()),
                    Order::Resize(size) => process.resize(size).await.map(|()| Vec::new()),
                    Order::Write => tokio::select! {
                        done = process.write(&bytes) => done.map(|()| Vec::new()),
                        () = hurry.notified() => Ok(Vec::new()),
                        () = gone.cancelled() => return,
                    },
                };
                let _ = answer.send(done.map_err(|error| error.to_string()));
            }
        }
    }
}

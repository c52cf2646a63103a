use std::io;

use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use zk_core::service::{ExecError, ExecRequest, Process, ProcessEvent};

use super::{Order, Told, WINDOW, frame};
use crate::{BoundedExec, Limits};

/// Runs a command until its connection closes.
pub(super) async fn run(
    exec: &dyn BoundedExec,
    request: ExecRequest,
    limits: Limits,
    stream: UnixStream,
) -> io::Result<()> {
    let (from, mut to) = stream.into_split();
    // Network grants come from the server's user, never from the client.
    let request = ExecRequest { connections: None, ..request };
    let process = match exec.spawn_within(request, limits).await {
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
    let mut running = Running { process, to, window: WINDOW, open: 3, is_over: false };
    let mut orders = read_orders(from);
    loop {
        let is_wanted = !running.is_over && running.window > 0;
        tokio::select! {
            event = running.process.next(), if is_wanted => running.send_event(event.map_err(io::Error::other)?).await?,
            order = orders.recv() => match order {
                Some((number, Order::Release, _)) => {
                    let _ = number;
                    running.process.release();
                    return Ok(());
                }
                Some((number, order, bytes)) => running.carry_out(number, order, &bytes).await?,
                // Dropping the process ends it.
                None => return Ok(()),
            },
        }
    }
}

struct Running {
    process: Box<dyn Process>,
    to: OwnedWriteHalf,
    /// Bytes of output that may be sent before the client has read more.
    window: u64,
    /// Number of open ends: two outputs and the process.
    open: u8,
    is_over: bool,
}

impl Running {
    async fn send_event(&mut self, event: Option<ProcessEvent>) -> io::Result<()> {
        match event {
            Some(ProcessEvent::Output(stream, bytes)) => {
                self.window = self.window.saturating_sub(bytes.len() as u64);
                let head = Told::Event(ProcessEvent::Output(stream, Vec::new()));
                frame::send_to(&mut self.to, &head, &bytes).await
            }
            Some(event) => {
                self.open = self.open.saturating_sub(1);
                if self.open == 0 {
                    self.send_denials().await?;
                }
                frame::send_to(&mut self.to, &Told::Event(event), &[]).await
            }
            None => {
                self.is_over = true;
                self.send_denials().await?;
                frame::send_to(&mut self.to, &Told::Over, &[]).await
            }
        }
    }

    /// Sends the denials before the last event, after which the client stops reading.
    async fn send_denials(&mut self) -> io::Result<()> {
        match self.process.denials() {
            denials if denials.is_empty() => Ok(()),
            denials => frame::send_to(&mut self.to, &Told::Denials(denials), &[]).await,
        }
    }

    async fn carry_out(&mut self, number: u64, order: Order, bytes: &[u8]) -> io::Result<()> {
        let done = match order {
            Order::Taken(taken) => {
                self.window = self.window.saturating_add(taken).min(WINDOW);
                return Ok(());
            }
            Order::Members => {
                let members = self.process.members().await.unwrap_or_default();
                return frame::send_to(&mut self.to, &Told::Members(number, members), &[]).await;
            }
            Order::Write => self.process.write(bytes).await,
            Order::CloseInput => self.process.close_input().await,
            Order::Resize(size) => self.process.resize(size).await,
            Order::Kill(signal) => self.process.kill(signal).await,
            Order::Release => Ok(()),
        };
        let done = done.map_err(|error| error.to_string());
        frame::send_to(&mut self.to, &Told::Done(number, done), &[]).await
    }
}

/// Reads the orders in a separate task, since a cancelled read would lose half a frame.
fn read_orders(mut from: OwnedReadHalf) -> mpsc::Receiver<(u64, Order, Vec<u8>)> {
    let (sender, orders) = mpsc::channel(4);
    tokio::spawn(async move {
        while let Ok(((number, order), bytes)) = frame::receive_from(&mut from).await {
            if sender.send((number, order, bytes)).await.is_err() {
                return;
            }
        }
    });
    orders
}

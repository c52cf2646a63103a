use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Sender, channel};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Notification};
use zk_core::model::SessionId;
use zk_core::service::{Relay, RelayListener, RelaySide, RelaySignal, StoreError};
use zk_session::is_valid_id;

use super::connection::database_error;

/// Time limit of connecting, and of one statement.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Maximum number of bytes of a channel's name in PostgreSQL.
const MAX_CHANNEL_BYTES: usize = 63;

/// Live signals by notifications of PostgreSQL, on one connection of its own. Once that breaks off, all listeners end.
pub(super) struct PostgresRelay {
    config: Config,
    hub: Mutex<Option<Arc<Hub>>>,
}

impl fmt::Debug for PostgresRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresRelay").finish_non_exhaustive()
    }
}

/// Connection with the listeners of its channels.
struct Hub {
    client: Client,
    listeners: Arc<StdMutex<Listeners>>,
    /// Held while a channel is begun or ended.
    order: Mutex<()>,
}

type Listeners = HashMap<String, Vec<Sender<RelaySignal>>>;

impl PostgresRelay {
    pub(super) fn new(config: Config) -> Self {
        Self { config, hub: Mutex::default() }
    }

    /// Returns the open connection, or makes one.
    async fn hub(&self) -> Result<Arc<Hub>, StoreError> {
        let mut held = self.hub.lock().await;
        if let Some(hub) = held.as_ref().filter(|hub| !hub.client.is_closed()) {
            return Ok(hub.clone());
        }
        let connected = tokio::time::timeout(ANSWER_LIMIT, self.config.connect(NoTls)).await;
        let (client, mut connection) = connected
            .map_err(|_| silent_error())?
            .map_err(|error| database_error("connect to PostgreSQL", &error))?;
        let listeners = Arc::<StdMutex<Listeners>>::default();
        let of_task = listeners.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| Pin::new(&mut connection).poll_message(cx)).await {
                if let AsyncMessage::Notification(notification) = message {
                    pass_on(&lock(&of_task), &notification);
                }
            }
            lock(&of_task).clear();
        });
        let hub = Arc::new(Hub { client, listeners, order: Mutex::default() });
        *held = Some(hub.clone());
        Ok(hub)
    }
}

/// Passes a notification on to the listeners of its channel. One that does not keep up loses it.
fn pass_on(listeners: &Listeners, notification: &Notification) {
    // A signal of another version is ignored.
    let Some(signal) = RelaySignal::from_json(notification.payload().as_bytes()) else { return };
    for listener in listeners.get(notification.channel()).into_iter().flatten() {
        let _ = listener.try_send(signal.clone());
    }
}

/// Name of the channel for one side of a session.
fn channel_of(session: &SessionId, side: RelaySide) -> Result<String, StoreError> {
    let side = match side {
        RelaySide::Run => "run",
        RelaySide::Watchers => "watch",
    };
    let name = format!("zk_{side}_{session}");
    if !is_valid_id(session) || name.len() > MAX_CHANNEL_BYTES {
        return Err(StoreError::Refused(format!("the id `{session}` is too long for live signals")));
    }
    Ok(name)
}

impl Hub {
    async fn execute(&self, doing: &str, statement: &str) -> Result<(), StoreError> {
        let done = tokio::time::timeout(ANSWER_LIMIT, self.client.batch_execute(statement)).await;
        done.map_err(|_| silent_error())?.map_err(|error| database_error(doing, &error))
    }

    async fn add(&self, channel: &str, sender: Sender<RelaySignal>) -> Result<(), StoreError> {
        let _order = self.order.lock().await;
        lock(&self.listeners).entry(channel.to_owned()).or_default().push(sender);
        self.execute("listen to a session", &format!("LISTEN \"{channel}\"")).await
    }

    /// Ends a channel without listeners.
    async fn release(&self, channel: &str) {
        let _order = self.order.lock().await;
        let is_over = {
            let mut listeners = lock(&self.listeners);
            let of_channel = listeners.entry(channel.to_owned()).or_default();
            of_channel.retain(|listener| !listener.is_closed());
            let is_over = of_channel.is_empty();
            if is_over {
                listeners.remove(channel);
            }
            is_over
        };
        if is_over {
            // A connection that broke off listens to nothing.
            let _ = self.execute("end a channel", &format!("UNLISTEN \"{channel}\"")).await;
        }
    }
}

/// Channel of a listener, which ends with the last one.
struct Channel {
    hub: Arc<Hub>,
    name: String,
}

impl Drop for Channel {
    fn drop(&mut self) {
        let (hub, name) = (self.hub.clone(), std::mem::take(&mut self.name));
        // Without a runtime the connection ends as well.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { hub.release(&name).await });
        }
    }
}

#[async_trait]
impl Relay for PostgresRelay {
    async fn send(&self, session: &SessionId, signal: &RelaySignal) -> Result<(), StoreError> {
        let (channel, json) = (channel_of(session, signal.side())?, signal.to_json()?);
        let hub = self.hub().await?;
        let query = async { hub.client.execute("SELECT pg_notify($1, $2)", &[&channel, &json]).await };
        let sent = tokio::time::timeout(ANSWER_LIMIT, query).await.map_err(|_| silent_error())?;
        sent.map(drop).map_err(|error| database_error("send a live signal", &error))
    }

    async fn listen(&self, session: &SessionId, side: RelaySide) -> Result<RelayListener, StoreError> {
        let name = channel_of(session, side)?;
        let hub = self.hub().await?;
        let (sender, signals) = channel(RelayListener::MAX_WAITING);
        hub.add(&name, sender).await?;
        Ok(RelayListener::new(signals, Channel { hub, name }))
    }
}

fn silent_error() -> StoreError {
    StoreError::Failed("PostgreSQL does not answer".to_owned())
}

fn lock(listeners: &StdMutex<Listeners>) -> MutexGuard<'_, Listeners> {
    listeners.lock().unwrap_or_else(PoisonError::into_inner)
}

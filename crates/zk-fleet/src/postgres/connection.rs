use std::error::Error as _;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Row};
use zk_core::service::{EngineError, EngineName};
use zk_stores::parse_postgres_address;

use super::install::{check_bound, check_version};

/// Time limit of connecting, and of one statement with its answer.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const ANSWER_LIMIT: Duration = Duration::from_secs(12);

/// Time limit of one statement at the server, in milliseconds.
const STATEMENT_LIMIT_MS: u32 = 10_000;

/// Idle time in seconds after which either side asks whether the other is there, the pause between questions, and their number.
const KEEPALIVE_IDLE_SECONDS: u32 = 4;
const KEEPALIVE_PAUSE_SECONDS: u32 = 2;
const KEEPALIVES: u32 = 3;

/// Number of attempts at a statement that met another one, and pause between two of them.
const CONFLICT_ATTEMPTS: u32 = 5;
const CONFLICT_PAUSE: Duration = Duration::from_millis(20);

/// Parameter of a statement with its type.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// One connection to the engine's database, made anew after it broke off.
pub(super) struct Connection {
    config: Config,
    /// Name that this connection holds, and that its next one takes again.
    worker: Option<EngineName>,
    /// Whether the connection has the setting of a tenant, so that its role has to be bound by row-level security.
    is_of_tenant: bool,
    client: Mutex<Option<Arc<Client>>>,
    news: Arc<Notify>,
}

impl Connection {
    pub(super) fn new(address: &str) -> Result<Self, EngineError> {
        Ok(Self {
            config: config(address)?,
            worker: None,
            is_of_tenant: false,
            client: Mutex::default(),
            news: Arc::default(),
        })
    }

    /// Creates a connection to the same database that row-level security restricts to the runs of a tenant.
    pub(super) fn of_tenant(&self, tenant: &EngineName) -> Self {
        let mut config = self.config.clone();
        let options = config.get_options().unwrap_or_default();
        // Connection options: a name of letters, digits and `-_.:` needs no escaping. The last option wins.
        let options = format!("{options} -c zk.tenant={tenant}");
        config.options(options);
        Self { config, worker: None, is_of_tenant: true, client: Mutex::default(), news: Arc::default() }
    }

    /// Returns another connection to the same database, which holds the name of a worker and hears of news.
    pub(super) fn of_worker(&self, worker: EngineName) -> Self {
        Self {
            config: self.config.clone(),
            worker: Some(worker),
            is_of_tenant: false,
            client: Mutex::default(),
            news: Arc::default(),
        }
    }

    /// Returns the hosts and the database, without user and password.
    pub(super) fn place(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Unix(dir) => dir.display().to_string(),
            Host::Tcp(name) => name.clone(),
        });
        let hosts: Vec<String> = hosts.collect();
        format!("{}/{}", hosts.join(","), self.config.get_dbname().unwrap_or_default())
    }

    /// Waits for news from the database. Only the connection of a worker gets any.
    pub(super) async fn wait_for_news(&self) {
        self.news.notified().await;
    }

    /// Runs one statement. A statement that met another one is repeated: it changed nothing.
    pub(super) async fn query(
        &self,
        doing: &'static str,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, EngineError> {
        let mut attempt = 1;
        loop {
            let client = self.client(doing).await?;
            let answer = tokio::time::timeout(ANSWER_LIMIT, client.query_typed(statement, params)).await;
            let Ok(answer) = answer else {
                self.forget(&client).await;
                return Err(failed(doing, "PostgreSQL does not answer"));
            };
            match answer {
                Ok(rows) => return Ok(rows),
                Err(error) if is_conflict(&error) && attempt < CONFLICT_ATTEMPTS => {
                    tokio::time::sleep(CONFLICT_PAUSE * attempt).await;
                    attempt += 1;
                }
                Err(error) => return Err(database_error(doing, &error)),
            }
        }
    }

    /// Runs one statement that returns one row.
    pub(super) async fn query_one(
        &self,
        doing: &'static str,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Row, EngineError> {
        let rows = self.query(doing, statement, params).await?;
        rows.into_iter().next().ok_or_else(|| failed(doing, "PostgreSQL returned no row"))
    }

    /// Connects, and begins to serve under the name of the worker; false if another connection has it.
    pub(super) async fn begin_worker(&self, worker: &EngineName) -> Result<bool, EngineError> {
        const DOING: &str = "begin to serve";
        let begin = async {
            let client = self.connect(DOING).await?;
            let has_name = call_with_name(&client, DOING, "SELECT zk_fleet.begin_worker($1)", worker).await?;
            Ok::<_, EngineError>(has_name.then_some(client))
        };
        let mut held = self.client.lock().await;
        *held = within_limit(DOING, begin).await?;
        Ok(held.is_some())
    }

    /// Returns the open connection, or makes one.
    async fn client(&self, doing: &'static str) -> Result<Arc<Client>, EngineError> {
        let mut held = self.client.lock().await;
        if let Some(client) = held.as_ref().filter(|client| !client.is_closed()) {
            return Ok(client.clone());
        }
        *held = None;
        let client = within_limit(doing, self.connect_again(doing)).await?;
        *held = Some(client.clone());
        Ok(client)
    }

    /// Connects, and takes the name of the worker again.
    async fn connect_again(&self, doing: &'static str) -> Result<Arc<Client>, EngineError> {
        let client = self.connect(doing).await?;
        if let Some(worker) = &self.worker {
            const DOING: &str = "hold the name of the worker";
            if !call_with_name(&client, DOING, "SELECT zk_fleet.hold_name($1)", worker).await? {
                // The server may need a while to notice that the connection before is gone.
                return Err(failed(DOING, "another connection to PostgreSQL still has it"));
            }
        }
        Ok(client)
    }

    /// Connects, checks the version of the database, and listens if this is the connection of a worker.
    async fn connect(&self, doing: &'static str) -> Result<Arc<Client>, EngineError> {
        let client = connect(&self.config, doing, &self.news).await?;
        check_version(&client).await?;
        if self.is_of_tenant {
            check_bound(&client).await?;
        }
        if self.worker.is_some() {
            let listened = client.batch_execute("LISTEN zk_fleet").await;
            listened.map_err(|error| database_error(doing, &error))?;
        }
        Ok(Arc::new(client))
    }

    /// Closes a connection that does not answer.
    async fn forget(&self, client: &Arc<Client>) {
        let mut held = self.client.lock().await;
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, client)) {
            *held = None;
        }
    }
}

/// Parses the address, and adds the limits of this engine.
pub(super) fn config(address: &str) -> Result<Config, EngineError> {
    let mut config = parse_postgres_address(address).map_err(|error| EngineError::Failed {
        doing: "use the engine of the settings",
        why: error.to_string(),
    })?;
    let options = format!(
        "-c statement_timeout={STATEMENT_LIMIT_MS} -c tcp_keepalives_idle={KEEPALIVE_IDLE_SECONDS} \
         -c tcp_keepalives_interval={KEEPALIVE_PAUSE_SECONDS} -c tcp_keepalives_count={KEEPALIVES}"
    );
    let options = config.get_options().map_or(options.clone(), |own| format!("{options} {own}"));
    config
        .options(options)
        .application_name("zk-worker")
        .connect_timeout(CONNECT_LIMIT)
        .tcp_user_timeout(ANSWER_LIMIT)
        .keepalives_idle(Duration::from_secs(u64::from(KEEPALIVE_IDLE_SECONDS)))
        .keepalives_interval(Duration::from_secs(u64::from(KEEPALIVE_PAUSE_SECONDS)))
        .keepalives_retries(KEEPALIVES);
    Ok(config)
}

/// Connects. Notifications go to `news`.
pub(super) async fn connect(
    config: &Config,
    doing: &'static str,
    news: &Arc<Notify>,
) -> Result<Client, EngineError> {
    let connected = tokio::time::timeout(CONNECT_LIMIT, config.connect(NoTls)).await;
    let (client, mut connection) = connected
        .map_err(|_| failed(doing, "PostgreSQL does not answer"))?
        .map_err(|error| database_error(doing, &error))?;
    let news = Arc::downgrade(news);
    tokio::spawn(async move {
        // A broken connection is noticed by the next statement.
        while let Some(Ok(message)) = poll_fn(|cx| Pin::new(&mut connection).poll_message(cx)).await {
            if let (AsyncMessage::Notification(_), Some(news)) = (message, news.upgrade()) {
                news.notify_one();
            }
        }
    });
    Ok(client)
}

/// Limits the time for the steps of connecting.
async fn within_limit<T>(
    doing: &'static str,
    connecting: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let connected = tokio::time::timeout(ANSWER_LIMIT, connecting).await;
    connected.unwrap_or_else(|_| Err(failed(doing, "PostgreSQL does not answer")))
}

/// Calls a function of the database with the name of a worker, which returns whether the worker has its name.
async fn call_with_name(
    client: &Client,
    doing: &'static str,
    statement: &str,
    worker: &EngineName,
) -> Result<bool, EngineError> {
    let row = client.query_typed_one(statement, &[(&worker.as_str(), Type::TEXT)]).await;
    row.and_then(|row| row.try_get(0)).map_err(|error| database_error(doing, &error))
}

/// Whether a statement changed nothing because it met another one.
fn is_conflict(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::T_R_DEADLOCK_DETECTED || *code == SqlState::T_R_SERIALIZATION_FAILURE
    })
}

pub(super) fn failed(doing: &'static str, why: impl Into<String>) -> EngineError {
    EngineError::Failed { doing, why: why.into() }
}

/// Error of the engine for an error of the database.
pub(super) fn database_error(doing: &'static str, error: &tokio_postgres::Error) -> EngineError {
    let why = match (error.as_db_error(), error.source()) {
        (Some(database), _) => format!("PostgreSQL says: {}", database.message()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    };
    failed(doing, why)
}

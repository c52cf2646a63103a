use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_postgres::{Client, Config, NoTls};
use zk_core::service::{EngineName, StoreError};

use super::address::parse_postgres_address;
use super::schema::migrate;

/// Time limit of connecting.
const CONNECT_LIMIT: Duration = Duration::from_secs(15);
/// Time limit of one statement, in milliseconds.
const STATEMENT_LIMIT_MS: u32 = 60_000;

/// The one connection of a store, made anew after it broke off.
pub(super) struct Connection {
    config: Config,
    /// Whether the connection has the setting of a tenant, so that its role has to be bound by row-level security.
    is_of_tenant: bool,
    client: Arc<Mutex<Option<Client>>>,
}

/// Exclusive use of the connection, until this value is dropped.
pub(super) struct Link(OwnedMutexGuard<Option<Client>>);

impl Connection {
    pub(super) fn new(address: &str) -> Result<Self, StoreError> {
        let mut config =
            parse_postgres_address(address).map_err(|error| StoreError::Failed(error.to_string()))?;
        config.connect_timeout(CONNECT_LIMIT).application_name("zk");
        let options =
            format!("-c statement_timeout={STATEMENT_LIMIT_MS} -c idle_in_transaction_session_timeout=30000");
        let options = config.get_options().map_or(options.clone(), |own| format!("{options} {own}"));
        config.options(options);
        Ok(Self { config, is_of_tenant: false, client: Arc::default() })
    }

    /// Creates a connection that row-level security restricts to the rows of a tenant.
    pub(super) fn of_tenant(&self, tenant: &EngineName) -> Self {
        let mut config = self.config.clone();
        let options = config.get_options().unwrap_or_default();
        // Connection options: a name of letters, digits and `-_.:` needs no escaping. The last option wins.
        let options = format!("{options} -c zk.tenant={tenant}");
        config.options(options);
        Self { config, is_of_tenant: true, client: Arc::default() }
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Waits for exclusive use of the connection. Connects and checks the tables if necessary.
    pub(super) async fn link(&self) -> Result<Link, StoreError> {
        let mut held = self.client.clone().lock_owned().await;
        if held.as_ref().is_none_or(Client::is_closed) {
            let connected = tokio::time::timeout(CONNECT_LIMIT, self.config.connect(NoTls)).await;
            let (mut client, connection) = connected
                .map_err(|_| StoreError::Failed("PostgreSQL does not answer".to_owned()))?
                .map_err(|error| database_error("connect to PostgreSQL", &error))?;
            tokio::spawn(async move {
                // A broken connection is noticed by the next statement.
                let _ = connection.await;
            });
            migrate(&mut client).await?;
            if self.is_of_tenant {
                check_bound(&client).await?;
            }
            *held = Some(client);
        }
        Ok(Link(held))
    }
}

impl Link {
    pub(super) fn client(&mut self) -> Result<&mut Client, StoreError> {
        self.0.as_mut().ok_or_else(|| StoreError::Failed("there is no connection to PostgreSQL".to_owned()))
    }
}

/// Checks that row-level security holds for the role of a connection.
async fn check_bound(client: &Client) -> Result<(), StoreError> {
    let query = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user";
    let row = client.query_one(query, &[]).await;
    let is_free = row.and_then(|row| row.try_get(0));
    match is_free.map_err(|error| database_error("check the role of the address", &error))? {
        false => Ok(()),
        true => Err(StoreError::Refused(
            "row-level security does not hold for a role with SUPERUSER or BYPASSRLS: give zk a role of its own, since tenants share its \
             database"
                .to_owned(),
        )),
    }
}

/// Error of the store for an error of the database.
pub(super) fn database_error(doing: &str, error: &tokio_postgres::Error) -> StoreError {
    let why = match (error.as_db_error(), error.source()) {
        (Some(database), _) => database.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    };
    StoreError::Failed(format!("cannot {doing}: {why}"))
}

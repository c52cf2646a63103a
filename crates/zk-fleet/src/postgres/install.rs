use std::sync::Arc;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use zk_core::service::EngineError;

use super::connection::{config, connect, database_error, failed};

/// Version of Absurd that this crate ships and knows.
pub(super) const ABSURD_VERSION: &str = "0.5.1";
const ABSURD_SQL: &str = include_str!("../../sql/absurd-0.5.1.sql");

/// Version of zk's own schema beside Absurd.
const FLEET_VERSION: i32 = 1;
const FLEET_SQL: &str = include_str!("../../sql/fleet.sql");
/// SQL script of the row-level security for tenants, also applied to a database that an earlier version installed.
const TENANTS_SQL: &str = include_str!("../../sql/tenants.sql");

/// PostgreSQL advisory lock for an installation; the bytes of "zkf".
const INSTALL_LOCK: i64 = 0x7a_6b66;

const DOING: &str = "prepare the database for runs";

/// Outcome of an installation in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// The schemas were made.
    Anew,
    /// Absurd was there already; zk's own schema was made.
    BesideAbsurd,
    /// The database was prepared already.
    Before,
}

/// Installs Absurd and zk's schema in the database at `address`, where they are missing, in one transaction.
pub(super) async fn install(address: &str) -> Result<Installed, EngineError> {
    let mut client = connect(&config(address)?, DOING, &Arc::default()).await?;
    let fail = |error: tokio_postgres::Error| database_error(DOING, &error);
    let transaction = client.transaction().await.map_err(fail)?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&INSTALL_LOCK]).await.map_err(fail)?;
    let found = transaction
        .query_one(
            "SELECT to_regnamespace('absurd') IS NOT NULL, to_regclass('zk_fleet.installed') IS NOT NULL",
            &[],
        )
        .await
        .map_err(fail)?;
    let (has_absurd, has_fleet): (bool, bool) =
        (found.try_get(0).map_err(fail)?, found.try_get(1).map_err(fail)?);
    if has_absurd {
        check_absurd(transaction.client()).await?;
    } else {
        transaction.batch_execute(ABSURD_SQL).await.map_err(fail)?;
    }
    if has_fleet {
        check_fleet(transaction.client()).await?;
        transaction.batch_execute("SELECT zk_fleet.raise_tokens()").await.map_err(fail)?;
    } else {
        transaction.batch_execute(FLEET_SQL).await.map_err(fail)?;
    }
    transaction.batch_execute(TENANTS_SQL).await.map_err(fail)?;
    transaction.commit().await.map_err(fail)?;
    Ok(match (has_absurd, has_fleet) {
        (_, true) => Installed::Before,
        (true, false) => Installed::BesideAbsurd,
        (false, false) => Installed::Anew,
    })
}

/// Checks that the database has the schemas that this version knows.
pub(super) async fn check_version(client: &Client) -> Result<(), EngineError> {
    check_fleet(client).await?;
    check_absurd(client).await
}

/// Checks that row-level security keeps the runs of other tenants from a connection.
pub(super) async fn check_bound(client: &Client) -> Result<(), EngineError> {
    const DOING: &str = "keep tenants apart";
    let query = "SELECT c.relforcerowsecurity, r.rolsuper OR r.rolbypassrls FROM pg_class c, pg_roles r \
        WHERE c.oid = 'zk_fleet.runs'::regclass AND r.rolname = current_user";
    let row = client.query_typed_one(query, &[]).await;
    let found = row.and_then(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    match found.map_err(|error| database_error(DOING, &error))? {
        (true, false) => Ok(()),
        (_, true) => Err(failed(
            DOING,
            "row-level security does not hold for a role with SUPERUSER or BYPASSRLS: give zk a role of its own, since tenants share \
             its database",
        )),
        (false, false) => Err(failed(
            DOING,
            "the database was prepared by an earlier zk: `zk fleet setup` brings it up to date",
        )),
    }
}

async fn check_absurd(client: &Client) -> Result<(), EngineError> {
    let found = client.query_typed("SELECT absurd.get_schema_version()", &[]).await;
    let found: String = match found.as_deref() {
        Ok([row, ..]) => row.try_get(0).map_err(|error| database_error(DOING, &error))?,
        Ok([]) => String::new(),
        Err(error) if is_missing(error) => "before 0.4".to_owned(),
        Err(error) => return Err(database_error("read the version of Absurd", error)),
    };
    if found == ABSURD_VERSION {
        return Ok(());
    }
    Err(failed(
        "use the database for runs",
        format!(
            "its schema `absurd` has version {found}, and this zk knows {ABSURD_VERSION}: bring it there with `absurdctl migrate` of \
             that version, or use a database of its own"
        ),
    ))
}

async fn check_fleet(client: &Client) -> Result<(), EngineError> {
    let found = client.query_typed("SELECT version FROM zk_fleet.installed", &[]).await;
    let found: i32 = match found.as_deref() {
        Ok([row]) => row.try_get(0).map_err(|error| database_error(DOING, &error))?,
        Ok(_) => {
            return Err(failed(
                "use the database for runs",
                "`zk_fleet.installed` has not one row: another program wrote it",
            ));
        }
        Err(error) if is_missing(error) => {
            return Err(failed(
                "use the database for runs",
                "it is not prepared; `zk fleet setup` prepares it once",
            ));
        }
        Err(error) => return Err(database_error("read the version of the database", error)),
    };
    if found == FLEET_VERSION {
        return Ok(());
    }
    let number = |version: i32| u32::try_from(version).unwrap_or_default();
    Err(EngineError::TooNew { found: number(found), known: number(FLEET_VERSION) })
}

/// Whether a statement failed because a schema, table or function is not there.
fn is_missing(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_FUNCTION, SqlState::INVALID_SCHEMA_NAME]
            .contains(code)
    })
}

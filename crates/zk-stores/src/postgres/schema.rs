//! Tables, and the migrations between their versions.

use tokio_postgres::Client;
use zk_core::service::StoreError;

use super::connection::database_error;

/// Version of the tables.
pub(super) const SCHEMA_VERSION: i32 = 3;

/// PostgreSQL advisory lock for the migrations of the tables; the bytes of "zk".
const MIGRATION_LOCK: i64 = 0x7a6b;

/// Migrations to version 1, 2 and so on. A released migration is never changed.
const STEPS: [&str; 3] = [
    "
CREATE TABLE zk_sessions (
    id text PRIMARY KEY,
    parent text,
    cwd bytea NOT NULL,
    created_ms bigint NOT NULL,
    updated_ms bigint NOT NULL,
    messages bigint NOT NULL,
    branches bigint NOT NULL,
    first_title text NOT NULL,
    name text,
    answered boolean NOT NULL,
    running boolean NOT NULL,
    branch text,
    leaf text NOT NULL,
    next_seq bigint NOT NULL,
    lease_token bigint NOT NULL,
    lease_pid bigint NOT NULL,
    lease_until timestamptz
);
CREATE INDEX zk_sessions_updated ON zk_sessions (updated_ms DESC, id DESC);
CREATE TABLE zk_entries (
    session text NOT NULL REFERENCES zk_sessions (id) ON DELETE CASCADE,
    seq bigint NOT NULL,
    id text NOT NULL,
    parent text,
    time_ms bigint NOT NULL,
    kind text NOT NULL,
    PRIMARY KEY (session, seq),
    UNIQUE (session, id)
);
",
    "
ALTER TABLE zk_sessions ADD COLUMN leg_token bigint NOT NULL DEFAULT 0, ADD COLUMN is_leg boolean NOT NULL DEFAULT false;
CREATE TABLE zk_mail (
    session text NOT NULL REFERENCES zk_sessions (id) ON DELETE CASCADE,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    id text NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (session, id)
);
",
    // A connection with the setting `zk.tenant` sees the sessions of that tenant alone, and others see all. Entries and mail belong
    // to the tenant of their session.
    "
ALTER TABLE zk_sessions ADD COLUMN tenant text NOT NULL DEFAULT '';
ALTER TABLE zk_sessions ALTER COLUMN tenant SET DEFAULT coalesce(current_setting('zk.tenant', true), '');
ALTER TABLE zk_sessions ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY zk_tenant ON zk_sessions USING (coalesce(current_setting('zk.tenant', true), '') IN ('', tenant));
ALTER TABLE zk_entries ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY zk_tenant ON zk_entries USING (coalesce(current_setting('zk.tenant', true), '') = ''
    OR EXISTS (SELECT 1 FROM zk_sessions s WHERE s.id = session));
ALTER TABLE zk_mail ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY zk_tenant ON zk_mail USING (coalesce(current_setting('zk.tenant', true), '') = ''
    OR EXISTS (SELECT 1 FROM zk_sessions s WHERE s.id = session));
",
];

/// Creates the tables, or migrates them to [`SCHEMA_VERSION`]. Tables of a newer zk are refused.
pub(super) async fn migrate(client: &mut Client) -> Result<(), StoreError> {
    let run = async {
        let transaction = client.transaction().await?;
        transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
        transaction.batch_execute("CREATE TABLE IF NOT EXISTS zk_schema (version integer NOT NULL)").await?;
        let row = transaction.query_opt("SELECT version FROM zk_schema", &[]).await?;
        let found: i32 = row.map_or(Ok(0), |row| row.try_get(0))?;
        if found >= SCHEMA_VERSION {
            transaction.commit().await?;
            return Ok(found);
        }
        for step in STEPS.iter().skip(usize::try_from(found).unwrap_or_default()) {
            transaction.batch_execute(step).await?;
        }
        transaction.batch_execute("DELETE FROM zk_schema").await?;
        transaction.execute("INSERT INTO zk_schema (version) VALUES ($1)", &[&SCHEMA_VERSION]).await?;
        transaction.commit().await?;
        Ok(SCHEMA_VERSION)
    };
    match run.await.map_err(|error: tokio_postgres::Error| database_error("make the tables", &error))? {
        found if found > SCHEMA_VERSION => Err(StoreError::Failed(format!(
            "the tables of sessions have version {found}, this zk knows up to {SCHEMA_VERSION}; use a newer zk"
        ))),
        _ => Ok(()),
    }
}

use std::path::PathBuf;

use zk_core::model::SessionId;
use zk_core::service::StoreError;

use super::Inner;
use super::connection::database_error;
use super::rows::path_of;

/// Right to write a session.
pub(super) struct Lease {
    pub(super) token: i64,
    /// Whether a leg of a run has it.
    pub(super) is_leg: bool,
}

impl Lease {
    /// Takes the lease of a session, with its directory; `None` if there is no such session.
    pub(super) async fn take(inner: &Inner, id: &SessionId) -> Result<Option<(Self, PathBuf)>, StoreError> {
        let mut link = inner.connection.link().await?;
        let client = link.client()?;
        let seconds = inner.lease.as_secs_f64();
        let pid = i64::from(std::process::id());
        let query = "UPDATE zk_sessions SET lease_token = lease_token + 1, lease_pid = $2, is_leg = false, \
            lease_until = clock_timestamp() + make_interval(secs => $3) \
            WHERE id = $1 AND (lease_until IS NULL OR lease_until <= clock_timestamp()) RETURNING lease_token, cwd";
        let taken = client.query_opt(query, &[&id.as_str(), &pid, &seconds]).await;
        if let Some(row) = taken.map_err(|error| database_error("open a session", &error))? {
            let token = row.try_get(0).map_err(|error| database_error("open a session", &error))?;
            let cwd = row.try_get(1).map_err(|error| database_error("open a session", &error))?;
            return Ok(Some((Self { token, is_leg: false }, path_of(cwd))));
        }
        let query = "SELECT lease_pid FROM zk_sessions WHERE id = $1";
        let row = client.query_opt(query, &[&id.as_str()]).await;
        match row.map_err(|error| database_error("open a session", &error))? {
            None => Ok(None),
            Some(row) => Err(in_use(id, row.try_get(0).unwrap_or_default())),
        }
    }

    /// Takes the lease of a session for a leg whose engine gave it `token`, also from a leg with an older one. `None` if there
    /// is no such session.
    pub(super) async fn take_for_leg(
        inner: &Inner,
        id: &SessionId,
        token: i64,
    ) -> Result<Option<(Self, PathBuf)>, StoreError> {
        let fail = |error: tokio_postgres::Error| database_error("open a session for a leg", &error);
        let mut link = inner.connection.link().await?;
        let client = link.client()?;
        let (seconds, pid) = (inner.lease.as_secs_f64(), i64::from(std::process::id()));
        let query = "UPDATE zk_sessions SET leg_token = $2, is_leg = true, lease_token = lease_token + 1, lease_pid = $3, \
            lease_until = clock_timestamp() + make_interval(secs => $4) WHERE id = $1 AND leg_token <= $2 \
            AND (is_leg OR lease_until IS NULL OR lease_until <= clock_timestamp()) RETURNING lease_token, cwd";
        let taken = client.query_opt(query, &[&id.as_str(), &token, &pid, &seconds]).await.map_err(fail)?;
        if let Some(row) = taken {
            let token = row.try_get(0).map_err(fail)?;
            return Ok(Some((Self { token, is_leg: true }, path_of(row.try_get(1).map_err(fail)?))));
        }
        let query = "SELECT leg_token, lease_pid FROM zk_sessions WHERE id = $1";
        match client.query_opt(query, &[&id.as_str()]).await.map_err(fail)? {
            None => Ok(None),
            Some(row) if row.try_get::<_, i64>(0).map_err(fail)? > token => {
                Err(StoreError::Fenced { id: id.clone() })
            }
            Some(row) => Err(in_use(id, row.try_get(1).unwrap_or_default())),
        }
    }
}

fn in_use(id: &SessionId, pid: i64) -> StoreError {
    StoreError::InUse { id: id.clone(), pid: u32::try_from(pid).unwrap_or_default() }
}

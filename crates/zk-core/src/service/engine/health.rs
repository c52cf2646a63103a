use std::time::SystemTime;

use serde::Serialize;

use super::{EngineName, unix_ms};

/// State of an engine itself, for a diagnosis.
///
/// ```
/// use zk_core::service::EngineHealth;
///
/// let health = EngineHealth { version: "SQLite 3.50".to_owned(), ..EngineHealth::default() };
/// assert!(health.workers.is_empty() && health.clock.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EngineHealth {
    /// Kind and version of the engine; empty if it does not tell.
    pub version: String,
    /// Place of the engine without credentials, such as a file or a host; empty if it does not tell.
    pub place: String,
    /// Present time by the engine's clock, if that is not the clock of this machine, serialised as milliseconds since 1970.
    #[serde(
        rename = "clock_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "unix_ms::serialize_known"
    )]
    pub clock: Option<SystemTime>,
    /// Workers that registered with the engine.
    pub workers: Vec<WorkerHealth>,
    /// Number of running legs whose lease has expired and that no worker has taken over yet.
    pub expired_leases: u64,
}

/// State of a worker in [`EngineHealth`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerHealth {
    /// Name of the worker.
    pub name: EngineName,
    /// Whether its process lives.
    pub is_alive: bool,
    /// Whether it was asked to end.
    pub is_draining: bool,
    /// Number of its running legs.
    pub legs: u64,
}

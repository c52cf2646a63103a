//! Engines of durable runs beyond one machine, and the program `zk-worker`.
//!
//! | item | purpose |
//! |---|---|
//! | `PostgresEngine` | runs in PostgreSQL, on Absurd's stored procedures (feature `postgres`) |
//! | `PostgresKind` | the kind of its addresses, for a program on `zk-cli` (feature `postgres`) |
//! | `TemporalEngine` | runs on a Temporal server (feature `temporal`) |
//! | `TemporalKind` | the kind of its addresses, for a program on `zk-cli` (feature `temporal`) |
//! | `TemporalLocation` | an address `temporal://HOST:PORT/NAMESPACE` (feature `temporal`) |
//! | `zk-worker` | zk with the engines of this crate (feature `worker`) |
//!
//! # What this crate must never know
//!
//! No prompt, answer, path or secret reaches an engine: a job is ids and names. How a leg runs is `zk-engine`'s, and how an
//! agent is put together is `zk-cli`'s.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "temporal")]
mod temporal;

#[cfg(feature = "postgres")]
pub use postgres::{Installed, PostgresEngine, PostgresKind};
#[cfg(feature = "temporal")]
pub use temporal::{LocationError, TemporalEngine, TemporalKind, TemporalLocation};

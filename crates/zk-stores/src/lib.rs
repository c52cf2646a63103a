//! Stores of sessions besides the SQLite files of `zk-session`.
//!
//! | item | purpose |
//! |---|---|
//! | [`FileMapStore`] | sessions in any map with get, save, delete and list |
//! | [`DirMap`], [`MemoryMap`] | maps: a private directory, the memory |
//! | [`RemoteStore`] | client of `zk serve-sessions` over HTTP |
//! | `PostgresStore` | sessions in PostgreSQL, with leases and fencing tokens (feature `postgres`) |
//! | `parse_postgres_address` | address of a PostgreSQL database that zk can use without TLS (feature `postgres`) |
//! | [`StoreLocation`] | place of a store as a person writes it: `files:PATH`, `http://…`; opens it |
//! | `ChosenStore` | the store of a program, as it was chosen at the start (features `files` and `remote`) |
//! | `RefusedStore` | store that cannot be used as it is set (features `files` and `remote`) |
//! | [`wire`] | messages between the client and the server of sessions |
//!
//! # What it keeps
//!
//! All stores pass `zk_testkit::check_store`: an append is stored whole or not at all, an acknowledged one is
//! kept, and one writer has a session at a time. A writer whose lease has ended and was taken by another one
//! gets [`StoreError::Fenced`](zk_core::service::StoreError::Fenced), and writes nothing.
//!
//! # What this crate must never know
//!
//! No loop, no provider, no tool. It reads no environment and no settings, and prints nothing.

#[cfg(all(feature = "files", feature = "remote"))]
mod chosen;
#[cfg(feature = "files")]
mod files;
mod location;
#[cfg(all(feature = "files", feature = "remote"))]
mod open;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "remote")]
mod remote;
#[cfg(any(feature = "files", feature = "remote", feature = "postgres"))]
mod shared;
pub mod wire;

#[cfg(all(feature = "files", feature = "remote"))]
pub use chosen::ChosenStore;
#[cfg(feature = "files")]
pub use files::{DirMap, FileMapStore, KeyValue, MapError, MapLock, MemoryMap, Saved};
pub use location::{LocationError, StoreLocation};
#[cfg(all(feature = "files", feature = "remote"))]
pub use open::{RefusedStore, StoreOpening};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresAddressError, PostgresStore, parse_postgres_address};
#[cfg(feature = "remote")]
pub use remote::RemoteStore;

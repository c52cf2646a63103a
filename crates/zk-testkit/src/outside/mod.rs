//! Servers of other authors, and links to them.

#[cfg(feature = "server")]
mod link;
mod postgres;

#[cfg(feature = "server")]
pub use link::LinkProxy;
pub use postgres::PostgresServer;

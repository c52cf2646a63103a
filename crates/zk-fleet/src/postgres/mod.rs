//! Runs in PostgreSQL.

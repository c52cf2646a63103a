//! Runs in Temporal.

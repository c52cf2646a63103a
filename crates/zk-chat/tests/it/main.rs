//! Conversations as an embedder opens them.

mod factory;
mod hosted;

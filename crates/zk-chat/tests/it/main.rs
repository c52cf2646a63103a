//! Conversations as an embedder opens them.

mod factory;
#[cfg(test)]
mod hosted;

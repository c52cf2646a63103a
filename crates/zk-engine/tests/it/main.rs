//! Tests of the engine as its users have it.

mod agents;
mod conform;
mod kills;

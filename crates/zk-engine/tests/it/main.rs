//! Tests of the engine as its users have it.

mod conform;
mod kills;

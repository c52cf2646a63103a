//! Tests of the engine on Temporal. They need the program `temporal`: from PATH, or from `ZK_TEMPORAL`.

mod conform;
mod figures;
mod flows;
mod kills;
mod server;

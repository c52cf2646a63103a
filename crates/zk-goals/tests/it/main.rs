//! Goals on real runs, and the list of conversations over processes.

mod fleet;
mod goals;
mod simulation;
mod support;

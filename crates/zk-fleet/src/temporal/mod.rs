//! Engine of durable runs on Temporal.

mod changes;
mod engine;
mod flow;
mod flows;
mod health;
mod kind;
mod legs;
mod location;
mod order;
mod runs;
mod schedules;
mod serve;
mod server;
mod sessions;
mod workers;

pub use engine::TemporalEngine;
pub use kind::TemporalKind;
pub use location::{LocationError, TemporalLocation};

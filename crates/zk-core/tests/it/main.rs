//! The behaviour of the event catalogue and of what models cost, by topic.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

mod catalogue;
mod errors;
mod gates;
mod prices;
mod samples;
mod special_cases;
mod whole_calls;

//! The behaviour of the kernel and of the event catalogue, by topic.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

mod cancel;
mod catalogue;
mod children;
mod compile_fail;
mod errors;
mod inherit;
mod modes;
mod order;
mod plugins;
mod prices;
mod reenter;
mod registry;
mod samples;
mod scopes;
mod special_cases;
mod support;
mod tasks;
mod tombstones;
mod whole_calls;

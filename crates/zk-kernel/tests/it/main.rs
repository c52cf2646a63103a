//! The behaviour of the kernel, by topic.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

mod cancel;
mod children;
mod compile_fail;
mod errors;
mod inherit;
mod modes;
mod order;
mod plugins;
mod reenter;
mod registry;
mod scopes;
mod support;
mod tasks;
mod tombstones;

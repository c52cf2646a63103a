//! The loop as a whole: what happens, in which order, and what is left when it ends.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "the helpers of tests fail by panicking"
)]

mod abort;
mod aliases;
mod background;
mod background_tree;
mod budgets;
mod call_order;
mod cancel;
mod commands;
mod commits;
mod context;
mod control;
mod conversation;
mod cut_keys;
mod dispatch;
mod errors;
mod gates;
mod guarded;
mod lifecycle;
mod models;
mod order;
mod output;
mod parts;
mod plugin_failures;
mod prefix;
mod presets;
mod random;
mod retries;
mod run_handle;
mod sections;
mod spawn;
mod spawn_named;
mod steering;
mod stream;
mod support;
mod thinking;
mod tool_path;
mod tools_per_turn;
mod transform;
mod turn_work;
mod typed;
mod updates;
mod usage;

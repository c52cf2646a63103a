//! The kernel of zk: typed events, modes that combine the answers of their handlers, and registrations by
//! plugin.
//!
//! | module | concept |
//! |---|---|
//! | [`event`](Event) | a point plugins can take part in; it names its reply type and its mode |
//! | [`mode`](Mode) | how the answers of several handlers become one outcome |
//! | [`handler`](Handler) | what a plugin registers |
//! | [`scope`](Scope) | one plugin's registrations, removed together |
//! | [`registry`](Item) | named items beside the events: tools, providers, services |
//! | [`bus`](Bus) | the table of all that, and the children that inherit from it |
//! | [`cx`](Cx) | what a handler is given: the run it serves, its stop token, the services |
//!
//! # Example
//!
//! `cargo run -p zk-harness-kernel --example vote`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/vote.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No message, no model, no tool, no permission, no file and no command belongs here. This crate depends on
//! no other crate of zk, prints nothing and reads no environment. `zk-core` re-exports it as
//! `zk_core::kernel`.

mod bus;
mod cx;
mod describe;
mod emit;
mod event;
mod failure;
mod handler;
mod lock;
mod mode;
mod plugin;
mod registry;
mod scope;
mod source;
mod wire_reply;

pub use bus::{Bus, BusBuilder};
pub use cx::Cx;
pub use describe::{Registration, RegistrationKind};
pub use event::{AnyEvent, Event, EventStamp, Outcome};
pub use failure::{BoxError, Cause, EmitError, HookError, OnError};
pub use handler::{Answer, AsyncHook, AsyncHookWith, Handler, IntoReply};
pub use mode::{Absorb, First, Fold, Gather, Gathered, LastOrStop, Mode, Notify, Stops, Veto};
pub use plugin::{InstallError, Plugin, plugin_fn};
pub use registry::{Item, ItemChange, ProvideError};
pub use scope::{Hook, HookOptions, Scope, ScopeGuard, Tombstones};
pub use source::{Origin, Reach, Source, Stage};
pub use wire_reply::WireReply;

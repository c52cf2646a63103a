//! Hooks outside of the process: programs, in any language, that handle events of zk as JSON lines.
//!
//! A [`Bridge`] is a plugin. It starts its program with the `Exec` service for the first event, writes each
//! event as one line to the program's standard input, and reads replies from its standard output. The program
//! is ended with the plugin's scope.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_core::events::ToolGate;
//! use zk_core::kernel::Bus;
//! use zk_core::service::ExecRequest;
//! use zk_hooks::Bridge;
//!
//! let guard = Bridge::new("guard", ExecRequest::new("/usr/local/bin/guard", "/"))
//!     .ask::<ToolGate>()
//!     .tell(["tool:after"]);
//! let bus = Bus::new();
//! bus.install(&guard)?;
//! # Ok(())
//! # }
//! ```
//!
//! # The lines
//!
//! ```text
//! → {"id":1,"event":"tool:gate","reply":true,"run":"r1","data":{"call":…,"args":{"command":"git push --force"},…}}
//! ← {"id":1,"reply":{"decision":"refuse","reason":"no force push here"}}
//! → {"id":2,"event":"tool:gate","reply":true,"run":"r1","data":…}
//! ← {"id":2,"reply":null}
//! → {"id":3,"event":"tool:after","reply":false,"run":"r1","data":…}
//! ```
//!
//! The first line is `bridge:hello` with the version of this protocol. `data` is the event as described in
//! the [reference](https://github.com/zk-agent/zk/blob/main/docs/reference/events.md). If `reply` is true,
//! the program answers with the same `id`, in any order: a reply, `null` for none, or
//! `{"id":1,"error":"why"}`. Other lines need no answer. The program's standard error is quoted in messages
//! about its failure.
//!
//! # When it fails
//!
//! The handler fails after an error, a time-out, the program's end, a closed pipe, an invalid line, or a line
//! above 1 MB; the event's contract decides what follows. A gate refuses the call. A program that broke the
//! protocol or ended is only started again with the plugin, since it may have lost the state behind its
//! refusals. A program that only observes can neither slow nor stop a run: events that it does not read in
//! time are dropped, and `bridge:lost` reports their number.
//!
//! # Commands as hooks
//!
//! [`CommandHooks`] is another plugin: it runs a command for each event, as configured in the `hooks` of
//! settings, with the JSON and the exit codes of Claude Code.
//!
//! # What this crate must never know
//!
//! The location of settings, their trust, and terminals: the host passes all of that in.

mod bridge;
mod command;

pub use bridge::{BRIDGE_VERSION, Bridge, BridgeError, EventLine, Hello, LineStamp, Lost, ReplyLine};
pub use command::{
    CommandHook, CommandHooks, HookConfigError, HookEvent, HookFailure, HookSet, HookSource, Matcher,
    Vocabulary, claude_arguments, claude_name, settings_schema, zk_name,
};

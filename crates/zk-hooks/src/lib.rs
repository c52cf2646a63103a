//! Hooks outside of the process: a program, in any language, that takes part in events of zk as JSON lines.
//!
//! A [`Bridge`] is a plugin. It starts its program with the `Exec` service when the first event is there for it, writes
//! each event it was given as one line to standard input, and reads replies from standard output. The program ends with
//! the plugin's scope.
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
//! The first line is `bridge:hello` with the version of all this. `data` is the event as the
//! [reference](https://github.com/zk-agent/zk/blob/main/docs/reference/events.md) has it. Where `reply` is true the
//! program answers with the same `id`, in any order: a reply, `null` for none, or `{"id":1,"error":"why"}`. Other lines
//! need no answer. What the program prints to standard error is quoted when it fails.
//!
//! # When it fails
//!
//! An error, no reply in time, an end, a closed pipe, a line that is no reply, or one above 1 MB: the handler fails, and
//! the event decides what becomes of that. A gate refuses the call. A program that broke the protocol or ended is not
//! started again before the plugin is: it may have forgotten what it had refused. One that only watches can neither slow
//! nor stop anything: what it does not read in time is left out, and `bridge:lost` says how much.
//!
//! # Commands as hooks
//!
//! [`CommandHooks`] is a plugin of its own: it runs a command for each event, as the `hooks` of settings name them, with
//! the JSON and the exit codes of Claude Code.
//!
//! # What this crate must never know
//!
//! The places of settings, what of them is trusted, and what a terminal is: a host hands all of that in.

mod bridge;
mod command;

pub use bridge::{BRIDGE_VERSION, Bridge, BridgeError, EventLine, Hello, LineStamp, Lost, ReplyLine};
pub use command::{
    CommandHook, CommandHooks, HookConfigError, HookEvent, HookFailure, HookSet, HookSource, Matcher,
    Vocabulary, settings_schema,
};

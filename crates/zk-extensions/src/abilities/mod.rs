//! Items and handlers that stand on the bus for what an extension registers.

mod asked;
mod backend;
mod backend_turn;
mod command;
mod prompt;
mod renderer;
mod told;
mod tool;

pub(crate) use asked::{askable, askable_names, guard_start};
pub(crate) use backend::ExtensionBackend;
pub(crate) use backend_turn::OpenTurns;
pub(crate) use command::ExtensionCommand;
pub(crate) use prompt::{ExtensionContext, ExtensionSection};
pub(crate) use renderer::ExtensionRenderer;
pub(crate) use told::observe;
pub(crate) use tool::ExtensionTool;

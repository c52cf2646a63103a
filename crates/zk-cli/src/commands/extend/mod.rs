//! Commands on what extends zk: extensions, hooks, MCP servers, plugins in Claude Code's layout, skills.

mod ext;
mod hooks;
mod learned;
pub(super) mod mcp;
mod plugin;
mod skills;

pub(crate) use ext::ext;
pub(crate) use hooks::{command_hooks, registry};
pub(crate) use learned::learned;
pub(crate) use mcp::mcp;
pub(crate) use plugin::plugin;
pub(crate) use skills::skills;

use super::{print, print_text, print_words};

//! Tools, resources, prompts and skills of servers within the agent.

pub(crate) mod catalogue;
pub(crate) mod prompts;
pub(crate) mod resources;
pub(crate) mod sanitize;
pub(crate) mod search;
pub(crate) mod skills;
pub(crate) mod tool;

//! The names of the commands of a conversation on a terminal, which mean the same wherever a prompt is given.

/// What zk's own commands are called: no file takes their names, and without a person they are no prompts.
pub(crate) const OWN_COMMANDS: [&str; 23] = [
    "cd",
    "clear",
    "compact",
    "context",
    "copy",
    "help",
    "history",
    "jobs",
    "mcp",
    "model",
    "models",
    "new",
    "permissions",
    "provider",
    "quit",
    "resume",
    "screen",
    "sessions",
    "show",
    "thinking",
    "tools",
    "tree",
    "uncompact",
];

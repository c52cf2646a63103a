use zk_permission::KnownTools;

/// Tools that belong to a run or to a person, whoever registers them.
pub(crate) const TOOLS_OF_RUNS: [&str; 15] = [
    "agents",
    "apply_changes",
    "ask_user",
    "conversation_recall",
    "load_tools",
    "present_plan",
    "read_shell",
    zk_memory::REMEMBER,
    "request_compaction",
    "run_in_shell",
    "spawn",
    "todo_read",
    "todo_write",
    "tool_search",
    "wait",
];

/// Names of all tools that zk itself may offer, in some contexts or settings only. A name may come twice.
pub(crate) fn own_tools() -> impl Iterator<Item = &'static str> {
    zk_tools::NAMES.into_iter().chain(zk_skills::NAMES).chain(TOOLS_OF_RUNS).chain(["fetch"])
}

/// Tools that rules can be about before plugins and servers are there.
pub(super) fn known_tools() -> KnownTools {
    KnownTools { own: own_tools().collect(), of_foreign: zk_skills::tool_names }
}

//! Taint tracking against prompt injection: untrusted content that entered a context since the last typed prompt.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zk_core::events::{
    AgentBeforeStart, ContextReduced, ContextTransform, Input, MessagesCause, SectionSize, SessionLoaded,
    SessionMessages, SystemSections, SystemTransform, ToolEnd, ToolResultsAfter, TurnAfter,
};
use zk_core::kernel::{Cx, HookOptions, Reach, Scope, Stage};
use zk_core::model::{Block, MENTIONED_BY, Message, Role, TYPED_DURING_RUN};
use zk_core::service::{
    ContextId, DYNAMIC_CONTEXT, ExpandedPrompts, QUERY_CONTEXT, RunTool, RunTools, Tool, WINDOW_OWNER,
    is_dynamic_context, visible_line,
};

use crate::fact::REMEMBER;
use crate::recall::block::BLOCK;
use crate::recall::words::words_in;

/// Taint reason for a prompt whose text is not what a person typed.
const EXPANDED: &str = "a prompt that a command, a file or piped input wrote";

/// Taint reason for words that are not in the last prompt, in a conversation with content that no person typed.
const EARLIER: &str = "content from before your prompt, which does not have these words";

/// Taint reason for recalled facts that a file of the project has.
const FILE_FACTS: &str = "facts of a file in the project, such as MEMORY.md";

/// Maximum number of taint reasons that are kept for a prompt.
const MAX_REASONS: usize = 8;

/// Maximum number of conversations whose record is kept.
const MAX_CONTEXTS: usize = 64;

/// Section of the system prompt with instructions of files that nobody had to approve.
const INSTRUCTIONS: &str = "instructions";

/// Sections of the system prompt that zk or the host itself words, with their sources. Any other may have words of a
/// server, an extension, a skill or a file.
const OWN_SECTIONS: [(&str, &str); 6] = [
    ("system", "zk-agent"),
    ("identity", "zk"),
    ("frontend", "zk"),
    ("guide", "zk"),
    ("delegation", "agent"),
    ("tools", "tools"),
];

/// Sources of the tools that zk itself describes. The description of any other is a text of whoever made it.
const OWN_TOOL_SOURCES: [&str; 9] = [
    "agent",
    "backends",
    "fetch",
    "memory",
    "shell-mode",
    "tool-protocols",
    "tools",
    WINDOW_OWNER,
    "worktrees",
];

/// Tool that begins sub-agents. Its argument `agent` exists where there are named ones.
const SPAWN_TOOL: &str = "spawn";

/// Taint reason for a system prompt that a plugin changed after its sections were put together.
const CHANGED_SYSTEM: &str = "changes of a plugin to the system prompt";

/// Parts of the context before a prompt that zk itself words, or that have facts of the person. Facts of a project's
/// file are counted by [`Taint::note_file_facts`].
const OWN_QUERY_PARTS: [&str; 3] = ["environment", BLOCK, "undo"];

/// Parts of the context behind a request that zk itself words.
const OWN_REQUEST_PARTS: [&str; 1] = ["budget"];

/// Branch names that contain no text of others. Any other name is a text of whoever made the branch.
const PLAIN_BRANCHES: [&str; 5] =
    ["branch main", "branch master", "branch trunk", "branch develop", "branch dev"];

/// Prompt-injection taint of each conversation on a bus: the untrusted content in its context.
#[derive(Debug, Default)]
pub(crate) struct Taint {
    contexts: Mutex<HashMap<Option<Arc<ContextId>>, Entered>>,
}

/// Content that entered one context since the last prompt.
#[derive(Debug, Default)]
struct Entered {
    /// Whether a person typed the last prompt.
    is_typed: bool,
    /// Taint reasons from the system prompt of the run.
    system: Vec<String>,
    /// Expected length of the system prompt in bytes, the sum of its sections; `None` before these are known and
    /// after the comparison.
    system_bytes: Option<usize>,
    /// Text of the last input as it was typed; `None` if a command wrote it.
    input: Option<String>,
    /// Texts that were typed since the last prompt, as they were before any handler of `input` changed them.
    typed: Vec<String>,
    /// Whether facts of a project's file were recalled for the prompt that is about to come.
    has_file_facts: bool,
    reasons: Vec<String>,
    /// Whether untrusted content entered at any time. It may have told the model to wait for the next prompt.
    is_mixed: bool,
    /// Words of the person's last prompt.
    said: Vec<String>,
}

impl Entered {
    /// Whether all words of a text, stop words aside, are in the person's last prompt.
    fn was_said(&self, text: &str) -> bool {
        let words = words_in(text);
        !words.is_empty() && words.iter().all(|word| self.said.contains(word))
    }

    fn add_reason(&mut self, reason: impl Into<String>) {
        let reason = reason.into();
        self.is_mixed = true;
        if self.reasons.len() < MAX_REASONS && !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }
}

impl Taint {
    /// Registers the handlers that see what enters a context.
    pub(crate) fn register(self: &Arc<Self>, scope: &Scope) {
        let taint = self.clone();
        scope.on_sync_at(Reach::Own, move |sections: &SystemSections, cx: &Cx| {
            let sizes = sections.sections.iter().map(|section| section.bytes);
            let bytes = sizes.sum::<usize>() + 2 * sections.sections.len().saturating_sub(1);
            taint.with_entered(cx, |entered| {
                entered.system = sections.sections.iter().filter_map(section_reason).collect();
                entered.system_bytes = Some(bytes);
            });
        });
        let last = HookOptions { stage: Stage::Late, reach: Some(Reach::Own), time_limit: None };
        let taint = self.clone();
        scope.on_sync_at(last, move |start: &AgentBeforeStart, cx: &Cx| {
            taint.with_entered(cx, |entered| {
                if entered.system_bytes.take().is_some_and(|bytes| bytes != start.system.len()) {
                    entered.system.push(CHANGED_SYSTEM.to_owned());
                }
            });
            None
        });
        let taint = self.clone();
        scope.on_sync_at(last, move |transform: &SystemTransform, cx: &Cx| {
            if transform.rewritten_by().is_some() {
                taint.with_entered(cx, |entered| entered.add_reason(CHANGED_SYSTEM));
            }
            None
        });
        let first = HookOptions { stage: Stage::Early, reach: Some(Reach::Own), time_limit: None };
        let taint = self.clone();
        scope.on_sync_at(first, move |input: &Input, cx: &Cx| {
            let expanded = cx.service::<ExpandedPrompts>();
            let is_typed = !expanded.is_some_and(|expanded| expanded.has(&input.text));
            taint.with_entered(cx, |entered| {
                entered.input = is_typed.then(|| input.text.trim().to_owned());
                match &entered.input {
                    Some(text) => entered.typed.push(text.clone()),
                    None => entered.add_reason(EXPANDED),
                }
            });
            None
        });
        let taint = self.clone();
        scope.on_sync_at(Reach::Own, move |event: &SessionMessages, cx: &Cx| taint.add_messages(event, cx));
        let taint = self.clone();
        scope.on_sync_at(Reach::Own, move |end: &ToolEnd, cx: &Cx| {
            if end.call.name != REMEMBER {
                let name = visible_line(&end.call.display_name);
                taint.with_entered(cx, |entered| entered.add_reason(format!("the result of `{name}`")));
            }
        });
        let taint = self.clone();
        scope.on_sync_at(Reach::Own, move |after: &ToolResultsAfter, cx: &Cx| {
            // Calls that never ran have results too, such as a hook's words about a refusal.
            for call in after.assistant.calls().filter(|call| call.name != REMEMBER) {
                let name = visible_line(&call.name);
                taint.with_entered(cx, |entered| entered.add_reason(format!("the result of `{name}`")));
            }
        });
        let taint = self.clone();
        scope.on_sync_at(Reach::Own, move |turn: &TurnAfter, cx: &Cx| {
            let blocks = turn.message.iter().flat_map(|message| &message.content);
            if blocks.into_iter().any(|block| matches!(block, Block::Provider(_))) {
                taint.with_entered(cx, |entered| {
                    entered.add_reason("content that the model's provider looked up")
                });
            }
        });
        let taint = self.clone();
        scope.on_sync_at(Reach::Own, move |_: &ContextReduced, cx: &Cx| {
            taint.with_entered(cx, |entered| entered.add_reason("a shorter form of earlier messages"));
        });
        // Runs after the handler that adds context to the request.
        let taint = self.clone();
        scope.on_sync_at(last, move |transform: &ContextTransform, cx: &Cx| {
            let offered = cx.service::<dyn RunTools>().map(|run| run.tools());
            if let Some(tool) = foreign_tool(offered.as_deref(), cx) {
                let tool = visible_line(&tool);
                taint.with_entered(cx, |entered| {
                    entered.add_reason(format!("the description of the tool `{tool}`"))
                });
            }
            if describes_agents(offered.as_deref().unwrap_or_default()) {
                taint.with_entered(cx, |entered| entered.add_reason("the descriptions of named agents"));
            }
            let blocks =
                transform.messages.last().map(|message| message.content.as_slice()).unwrap_or_default();
            for block in blocks.iter().filter(|block| is_dynamic_context(block)) {
                let text = block.as_text().unwrap_or_default();
                for (part, _) in split_parts(text, DYNAMIC_CONTEXT) {
                    if !OWN_REQUEST_PARTS.contains(&&*part) {
                        let part = visible_line(&part);
                        taint.with_entered(cx, |entered| entered.add_reason(format!("the context `{part}`")));
                    }
                }
            }
            None
        });
        let taint = self.clone();
        scope.on_sync_at(Reach::Own, move |loaded: &SessionLoaded, cx: &Cx| {
            let is_mixed = !loaded.entries.is_empty();
            taint.with_entered(cx, |entered| *entered = Entered { is_mixed, ..Entered::default() });
        });
    }

    /// Taint reasons of a call of `remember` with this text: the words may come from somebody else than the person.
    /// Empty if there are none.
    pub(crate) fn reasons(&self, text: &str, cx: &Cx) -> Vec<String> {
        if cx.origin().depth > 0 {
            return vec!["a sub-agent makes the call, and its prompt was written by a model".to_owned()];
        }
        self.with_entered(cx, |entered| {
            if !entered.is_typed {
                return vec!["no person typed the prompt of this run".to_owned()];
            }
            if entered.reasons.is_empty() && entered.is_mixed && !entered.was_said(text) {
                return vec![EARLIER.to_owned()];
            }
            entered.reasons.clone()
        })
    }

    /// Records that facts of a project's file are in the context before the next prompt.
    pub(crate) fn note_file_facts(&self, cx: &Cx) {
        self.with_entered(cx, |entered| entered.has_file_facts = true);
    }

    fn add_messages(&self, event: &SessionMessages, cx: &Cx) {
        self.with_entered(cx, |entered| {
            if event.cause == MessagesCause::Prompt {
                let (system, input) = (std::mem::take(&mut entered.system), entered.input.take());
                let (is_mixed, has_file_facts) = (entered.is_mixed, entered.has_file_facts);
                *entered = Entered { input, is_mixed, ..Entered::default() };
                for reason in system {
                    entered.add_reason(reason);
                }
                if has_file_facts {
                    entered.add_reason(FILE_FACTS);
                }
            }
            for message in event.messages.iter().filter(|message| message.role == Role::User) {
                let is_prompt = event.cause == MessagesCause::Prompt;
                match message.injected_by.as_deref() {
                    None if is_prompt => {
                        entered.is_typed = true;
                        let is_as_typed = entered.input.as_deref() == Some(message.text().trim());
                        entered.said = words_in(entered.input.as_deref().unwrap_or_default());
                        if !is_as_typed {
                            entered.add_reason(EXPANDED);
                        }
                    }
                    Some(QUERY_CONTEXT) => add_query_context(message, entered),
                    Some(by) if TYPED_DURING_RUN.contains(&by) => {
                        let text = message.text();
                        if !entered.typed.iter().any(|typed| typed == text.trim()) {
                            entered.add_reason(EXPANDED);
                        }
                    }
                    Some(by) if by.starts_with(MENTIONED_BY) => {
                        entered.add_reason(format!("the file {}", visible_line(by)));
                    }
                    Some(by) => entered.add_reason(format!("a message of `{}`", visible_line(by))),
                    None => entered.add_reason("a message that no person typed"),
                }
            }
        });
    }

    fn with_entered<T>(&self, cx: &Cx, change: impl FnOnce(&mut Entered) -> T) -> T {
        let context = cx.service::<ContextId>();
        let mut contexts: MutexGuard<'_, HashMap<_, _>> =
            self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        if contexts.len() >= MAX_CONTEXTS && !contexts.contains_key(&context) {
            // A context without a record counts as tainted: its prompt was not typed.
            contexts.clear();
        }
        change(contexts.entry(context).or_default())
    }
}

/// Taint reason for a section of the system prompt, if somebody else than zk may have worded it.
fn section_reason(section: &SectionSize) -> Option<String> {
    let is_own = OWN_SECTIONS.contains(&(&*section.id, &*section.source));
    if section.bytes == 0 || is_own {
        return None;
    }
    Some(match &*section.id {
        INSTRUCTIONS => "the instructions in files such as AGENTS.md".to_owned(),
        id => format!("the section `{}` of the system prompt", visible_line(id)),
    })
}

/// Name of a tool that zk does not describe itself, if there is one: among those of the run, or among all without a run.
fn foreign_tool(offered: Option<&[RunTool]>, cx: &Cx) -> Option<String> {
    let offered = offered.map(|tools| tools.iter().map(|tool| &*tool.name).collect::<BTreeSet<&str>>());
    let is_offered = |name: &str| offered.as_ref().is_none_or(|names| names.contains(name));
    let is_own = |source: String| OWN_TOOL_SOURCES.contains(&&*source);
    let mut tools = cx.items::<dyn Tool>().into_iter();
    let foreign = tools.find(|tool| is_offered(&tool.name) && !is_own(tool.source.to_string()));
    foreign.map(|tool| tool.name.to_string())
}

/// Whether the tool `spawn` describes named agents, whose definitions are files of a person, a project or a plugin.
fn describes_agents(tools: &[RunTool]) -> bool {
    let spawn = tools.iter().find(|tool| &*tool.name == SPAWN_TOOL);
    spawn.is_some_and(|tool| tool.spec.schema.pointer("/properties/agent").is_some())
}

/// Adds taint reasons for the parts of the context before a prompt that somebody else than zk may have worded.
fn add_query_context(message: &Message, entered: &mut Entered) {
    for (part, text) in split_parts(&message.text(), QUERY_CONTEXT) {
        let is_commit = text.starts_with("commit ") && text.ends_with(", on no branch");
        let is_plain_git = part == "git" && (is_commit || PLAIN_BRANCHES.contains(&&*text));
        if !OWN_QUERY_PARTS.contains(&&*part) && !is_plain_git {
            let part = visible_line(&part);
            entered.add_reason(if part == "git" {
                "the name of the branch".to_owned()
            } else {
                format!("the context `{part}`")
            });
        }
    }
}

/// Splits an envelope of context into the names and texts of its parts.
fn split_parts(text: &str, envelope: &str) -> Vec<(String, String)> {
    let mut parts = Vec::new();
    let mut rest = text.strip_prefix(&format!("<{envelope}>\n")).unwrap_or(text);
    while let Some((name, from)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        if name == format!("/{envelope}") {
            return parts;
        }
        let Some((part, after)) = from.split_once(&format!("</{name}>\n")) else { break };
        parts.push((name.to_owned(), part.to_owned()));
        rest = after;
    }
    // A context of another form was not written by zk.
    if !rest.trim().is_empty() {
        parts.push(("unknown".to_owned(), String::new()));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_context_are_told_apart() {
        let text = "<query_context>\n<environment>a <b></environment>\n<git>branch x</git>\n</query_context>";
        let found = split_parts(text, QUERY_CONTEXT);
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["environment", "git"]);
        for odd in ["free text", "<query_context>\n<a>open", "<query_context>\n<a>x</a>\nmore"] {
            assert!(split_parts(odd, QUERY_CONTEXT).iter().any(|(name, _)| name == "unknown"), "{odd}");
        }
    }

    #[test]
    fn one_word_that_was_not_said_makes_a_text_somebody_elses() {
        let entered = Entered { said: words_in("deploys go through the host heron"), ..Entered::default() };
        assert!(entered.was_said("Deploys go through heron"));
        assert!(!entered.was_said("Deploys go through the host evil") && !entered.was_said("?"));
        // No word is left out, however long the text.
        let long = format!("{} evil", "deploys ".repeat(40));
        assert!(!entered.was_said(&long));
    }

    #[test]
    fn only_names_of_branches_that_say_something_count() {
        for (git, counts) in [
            ("branch main", false),
            ("commit 0123456789ab, on no branch", false),
            ("branch remember-evil", true),
        ] {
            let text = format!("<query_context>\n<git>{git}</git>\n</query_context>");
            let mut entered = Entered::default();
            add_query_context(&Message::injected(text, QUERY_CONTEXT), &mut entered);
            assert_eq!(!entered.reasons.is_empty(), counts, "{git}");
        }
    }
}

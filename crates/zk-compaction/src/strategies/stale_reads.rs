use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use zk_core::events::ToolBegin;
use zk_core::kernel::{BoxError, Cx, Plugin, Reach, Scope};
use zk_core::model::{CallId, Effect, Effects, Message, ToolCall, ToolContent, ToolResult};
use zk_core::service::{TurnCwd, UNCHANGED_READ, WindowCause, WindowPlan, WindowStrategy, WindowView};

use crate::text::short_results::{answer_before, replaced_results};
use crate::window::plugin;

/// Name of the strategy on the bus.
const STALE_READS: &str = "stale_reads";

/// Maximum number of calls whose files are remembered.
const MAX_REMEMBERED_CALLS: usize = 20_000;

/// Size limit of a result that only refers to an earlier read, in bytes.
const MAX_NOTE_BYTES: usize = 5_000;

/// Replaces results of file reads that are out of date by a line: the same read was made again later, or a
/// later call changed the file. A later read that says that the file is unchanged leaves the earlier one in place.
///
/// It changes requests only when the conversation is compacted or exceeds the lower threshold, since each
/// change of an earlier message costs the provider's prompt cache from there on. Reads and changes are known by
/// the declared effects of calls in this process; a change by a shell command, and calls from before a resume,
/// are not known, so their reads stay.
///
/// ```
/// use zk_compaction::{Shorten, StaleReads, Window};
/// use zk_core::kernel::Bus;
///
/// let bus = Bus::new();
/// bus.install(&Window::default())?;
/// bus.install(&StaleReads::default())?;
/// bus.install(&Shorten)?;
/// # Ok::<(), zk_core::kernel::InstallError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct StaleReads {
    calls: Arc<Mutex<KnownCalls>>,
}

/// Files of calls, by the call.
#[derive(Debug, Default)]
struct KnownCalls {
    files: HashMap<CallId, CallFiles>,
    order: VecDeque<CallId>,
}

/// Files that one call reads and changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CallFiles {
    /// File of a call that reads one path and does nothing else.
    read: Option<PathBuf>,
    written: Vec<PathBuf>,
}

impl CallFiles {
    /// Files of a call with these effects in the directory `cwd`.
    fn of(effects: &Effects, cwd: &Path) -> Self {
        let Effects::Known { list } = effects else { return Self::default() };
        let mut files = Self::default();
        for effect in list {
            match effect {
                Effect::Writes { paths } => files.written.extend(paths.iter().map(|path| cwd.join(path))),
                Effect::Reads { paths } => {
                    if let ([_], [path]) = (list.as_slice(), paths.as_slice()) {
                        files.read = Some(cwd.join(path));
                    }
                }
                Effect::Executes { .. } | Effect::Network { .. } | Effect::LeavesContext { .. } => {}
            }
        }
        files
    }
}

impl KnownCalls {
    fn remember(&mut self, call: CallId, files: CallFiles) {
        if files == CallFiles::default() {
            return;
        }
        if self.order.len() >= MAX_REMEMBERED_CALLS
            && let Some(oldest) = self.order.pop_front()
        {
            self.files.remove(&oldest);
        }
        self.order.push_back(call.clone());
        self.files.insert(call, files);
    }

    /// Reads among the answered calls of `messages` that are out of date, each with the line for its result.
    fn find_stale_reads(&self, messages: &[Arc<Message>]) -> HashMap<CallId, String> {
        let answered: HashMap<&CallId, &ToolResult> = messages
            .iter()
            .flat_map(|message| message.results())
            .filter(|result| !result.is_error)
            .map(|result| (&result.call_id, result))
            .collect();
        let mut stale = HashMap::new();
        let mut written: HashSet<&PathBuf> = HashSet::new();
        let mut later: Vec<(&ToolCall, &Path)> = Vec::new();
        let calls: Vec<&ToolCall> = messages.iter().flat_map(|message| message.calls()).collect();
        for call in calls.into_iter().rev() {
            let Some(result) = answered.get(&call.id) else { continue };
            let Some(files) = self.files.get(&call.id) else { continue };
            if let Some(path) = &files.read {
                let is_again = later
                    .iter()
                    .any(|(next, of)| *of == path && next.name == call.name && next.args == call.args);
                let shown = path.display();
                if written.contains(path) {
                    let line = format!("[This content of {shown} was left out: the file was changed later.]");
                    stale.insert(call.id.clone(), line);
                } else if is_again {
                    let line = format!("[This content of {shown} was left out: it was read again later.]");
                    stale.insert(call.id.clone(), line);
                } else if !is_note(result) {
                    later.push((call, path));
                }
            }
            written.extend(&files.written);
        }
        stale
    }
}

/// Whether a read's result is only the note that the file is unchanged since it was last read.
fn is_note(result: &ToolResult) -> bool {
    match &result.content {
        ToolContent::Text(text) => {
            text.starts_with('`') && text.len() <= MAX_NOTE_BYTES && text.contains(UNCHANGED_READ)
        }
        ToolContent::Blocks(_) => false,
    }
}

impl Plugin for StaleReads {
    fn name(&self) -> &'static str {
        "compaction-stale-reads"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let calls = self.calls.clone();
        scope.on_sync_at(Reach::Own, move |begin: &ToolBegin, cx: &Cx| {
            let cwd = TurnCwd::of(cx).unwrap_or_default();
            let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.remember(begin.call.call_id.clone(), CallFiles::of(&begin.effects, &cwd));
        });
        plugin::register(scope, STALE_READS, self.clone())
    }
}

#[async_trait]
impl WindowStrategy for StaleReads {
    fn order(&self) -> i32 {
        50
    }

    async fn plan(&self, view: &WindowView<'_>, _: &Cx) -> Result<Option<WindowPlan>, BoxError> {
        if view.cause == WindowCause::Turn {
            return Ok(None);
        }
        let stale = self.calls.lock().unwrap_or_else(PoisonError::into_inner).find_stale_reads(view.messages);
        let mut plan = WindowPlan::default();
        for (at, message) in view.messages.iter().enumerate().skip(view.taken_back) {
            let line = |call: &CallId| stale.get(call).cloned();
            if let Some((new, results)) = replaced_results(message, answer_before(view.messages, at), line) {
                plan.results += results;
                plan.replace.push((at, new));
            }
        }
        Ok((plan.results > 0).then_some(plan))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zk_core::model::Block;

    use super::*;

    fn call(id: &str, path: &str, from: u64, is_error: bool) -> [Arc<Message>; 2] {
        let call = ToolCall::new(id, "read_file", json!({"path": path, "from": from}));
        let result = Block::result(id, "x".repeat(400), is_error);
        [Message::assistant(vec![Block::ToolCall(call)]).shared(), Message::user(vec![result]).shared()]
    }

    #[test]
    fn a_read_is_out_of_date_once_the_file_was_changed_or_the_same_part_was_read_again() {
        let read = |path: &str| CallFiles { read: Some(path.into()), written: Vec::new() };
        let wrote = |path: &str| CallFiles { read: None, written: vec![path.into()] };
        // Id, path, first line, whether it failed, files; and whether it is out of date.
        let rows = [
            ("changed", "a.rs", 1, false, read("a.rs"), true),
            ("failed-write", "b.rs", 1, true, wrote("b.rs"), false),
            ("kept", "b.rs", 1, false, read("b.rs"), false),
            ("other-part", "b.rs", 50, false, read("b.rs"), true),
            ("write", "a.rs", 1, false, wrote("a.rs"), false),
            ("again", "b.rs", 50, false, read("b.rs"), false),
            ("newest", "a.rs", 1, false, read("a.rs"), false),
        ];
        let mut known = KnownCalls::default();
        let mut messages = Vec::new();
        for (id, path, from, is_error, files, _) in &rows {
            known.remember(CallId::from(*id), files.clone());
            messages.extend(call(id, path, *from, *is_error));
        }
        messages.extend(call("unknown", "a.rs", 1, false));
        let stale = known.find_stale_reads(&messages);
        let mut found: Vec<String> = stale.keys().map(ToString::to_string).collect();
        found.sort();
        let mut expected: Vec<&str> = rows.iter().filter(|row| row.5).map(|row| row.0).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{stale:?}");
        assert!(stale[&CallId::from("changed")].contains("a.rs was left out: the file was changed"));
    }

    #[test]
    fn a_read_stays_while_the_later_ones_only_say_that_the_file_is_unchanged() {
        let mut known = KnownCalls::default();
        let mut messages = Vec::new();
        for (id, text) in [
            ("first", "x".repeat(400)),
            ("note", format!("`a.rs` {UNCHANGED_READ}; the earlier result still holds")),
        ] {
            let effects = Effects::reads(["a.rs"]);
            known.remember(CallId::from(id), CallFiles::of(&effects, Path::new("/project")));
            let call = ToolCall::new(id, "read_file", json!({"path": "a.rs"}));
            messages.push(Message::assistant(vec![Block::ToolCall(call)]).shared());
            messages.push(Message::user(vec![Block::result(id, text, false)]).shared());
        }
        assert_eq!(known.find_stale_reads(&messages), HashMap::new());
    }

    #[test]
    fn a_file_of_the_same_name_in_another_directory_is_another_file() {
        let mut known = KnownCalls::default();
        let mut messages = Vec::new();
        let (reads, writes) = (Effects::reads(["a.rs"]), Effects::writes(["a.rs"]));
        for (id, cwd, effects) in
            [("read", "/one", &reads), ("again", "/two", &reads), ("write", "/three", &writes)]
        {
            known.remember(CallId::from(id), CallFiles::of(effects, Path::new(cwd)));
            messages.extend(call(id, "a.rs", 1, false));
        }
        assert_eq!(known.find_stale_reads(&messages), HashMap::new());
        known.remember(CallId::from("same"), CallFiles::of(&writes, Path::new("/one")));
        messages.extend(call("same", "a.rs", 1, false));
        assert_eq!(known.find_stale_reads(&messages).into_keys().collect::<Vec<_>>(), [CallId::from("read")]);
    }

    #[test]
    fn no_more_calls_are_remembered_than_the_limit() {
        let mut known = KnownCalls::default();
        for n in 0..MAX_REMEMBERED_CALLS + 5 {
            let files = CallFiles { read: Some("a".into()), written: Vec::new() };
            known.remember(CallId::from(format!("c{n}")), files);
        }
        assert_eq!((known.files.len(), known.order.len()), (MAX_REMEMBERED_CALLS, MAX_REMEMBERED_CALLS));
        assert!(!known.files.contains_key(&CallId::from("c4")));
    }
}

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use super::sub_agent::SubAgentRows;
use super::{Entry, EntryKind, EntryVisitor, OpenSession, StoreError};
use crate::model::{EntryId, Role};

/// Maximum length of a row's text in characters.
const MAX_TEXT_CHARS: usize = 200;

/// Outline of a session's tree: prompts and answers in a line each, with their branches and labels.
///
/// ```
/// use zk_core::model::Message;
/// use zk_core::service::{Entry, EntryKind, SessionOutline};
///
/// let prompt = EntryKind::Message { message: Message::user_text("hello\nworld").shared(), usage: None };
/// let entry = Entry { id: "e_1".into(), parent: None, time_ms: 0, kind: prompt };
/// let outline = SessionOutline::from_entries([entry]);
/// assert_eq!(outline.rows()[0].text, "hello world");
/// assert_eq!(outline.before_prompt(&"e_1".into()), Some(None));
/// ```
#[derive(Clone, Debug, Default)]
pub struct SessionOutline {
    nodes: Vec<Node>,
    by_id: HashMap<EntryId, usize>,
    labels: BTreeMap<EntryId, String>,
    /// Leaf before the last move.
    last_left: Option<EntryId>,
    sub_agents: SubAgentRows,
}

#[derive(Clone, Debug)]
struct Node {
    id: EntryId,
    parent: Option<usize>,
    kind: NodeKind,
}

#[derive(Clone, Debug)]
enum NodeKind {
    Shown(OutlineKind, String),
    RunStart,
    RunEnd,
    /// Message without a row, or move of the leaf.
    Between,
    /// Entry about its run, such as usage or a change of the model.
    Note,
}

/// Kind of a row in an outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutlineKind {
    /// Prompt of the person.
    Prompt,
    /// Answer of the model, or the beginning of one with calls.
    Answer,
    /// Summary of a branch that was left.
    Summary,
    /// Sub-agent with its task and its last answer; no point to continue from.
    SubAgent,
}

/// Row of an outline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlineRow {
    /// Id of the entry.
    pub id: EntryId,
    /// Kind of the row.
    pub kind: OutlineKind,
    /// Beginning of the text, in one line.
    pub text: String,
    /// Depth of the branch, from 0.
    pub depth: usize,
    /// Label of the entry.
    pub label: Option<String>,
    /// Whether the entry is on the present branch.
    pub is_present: bool,
    /// Whether the row is the last one of the present branch.
    pub is_leaf: bool,
}

impl SessionOutline {
    /// Builds the outline from the entries of all branches, in the order of writing.
    #[must_use]
    pub fn from_entries(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut outline = Self::default();
        entries.into_iter().for_each(|entry| outline.add(&entry));
        outline
    }

    /// Reads the outline of an open session.
    ///
    /// # Errors
    /// As [`OpenSession::scan_tree`].
    pub async fn of_session(session: &dyn OpenSession) -> Result<Self, StoreError> {
        let outline = Arc::<Mutex<Self>>::default();
        session.scan_tree(Self::visitor(&outline)).await?;
        Ok(std::mem::take(&mut *outline.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Creates a visitor that fills an outline, for [`SessionStore::scan_tree`](super::SessionStore::scan_tree).
    #[must_use]
    pub fn visitor(outline: &Arc<Mutex<Self>>) -> EntryVisitor {
        let outline = outline.clone();
        Box::new(move |entry, _| {
            outline.lock().unwrap_or_else(PoisonError::into_inner).add(&entry);
            ControlFlow::Continue(())
        })
    }

    /// Adds the next entry of the log to the outline.
    pub fn add(&mut self, entry: &Entry) {
        let kind = match &entry.kind {
            EntryKind::Message { message, .. } => {
                let text = first_line(&message.text(), MAX_TEXT_CHARS);
                match (message.role, message.injected_by.as_deref()) {
                    (_, _) if text.is_empty() => NodeKind::Between,
                    (Role::Assistant, _) => NodeKind::Shown(OutlineKind::Answer, text),
                    (Role::User, None) => NodeKind::Shown(OutlineKind::Prompt, text),
                    (Role::User, Some("branch")) => NodeKind::Shown(OutlineKind::Summary, text),
                    (Role::User, Some(_)) => NodeKind::Between,
                }
            }
            EntryKind::RunStart { .. } => NodeKind::RunStart,
            EntryKind::Label { target, label } => {
                match label {
                    Some(label) => _ = self.labels.insert(target.clone(), first_line(label, MAX_TEXT_CHARS)),
                    None => _ = self.labels.remove(target),
                }
                NodeKind::Note
            }
            EntryKind::Leaf { left, .. } => {
                self.last_left.clone_from(left);
                NodeKind::Between
            }
            EntryKind::RunEnd { .. } => NodeKind::RunEnd,
            EntryKind::Model { .. }
            | EntryKind::Thinking { .. }
            | EntryKind::OpenTurn { .. }
            | EntryKind::CallBegin { .. }
            | EntryKind::CallEnd { .. }
            | EntryKind::CallData { .. }
            | EntryKind::Usage { .. }
            | EntryKind::Custom(_) => NodeKind::Note,
        };
        let parent = entry.parent.as_ref().and_then(|parent| self.by_id.get(parent)).copied();
        if let EntryKind::Custom(custom) = &entry.kind {
            self.sub_agents.add(self.nodes.len(), custom);
        }
        self.by_id.insert(entry.id.clone(), self.nodes.len());
        self.nodes.push(Node { id: entry.id.clone(), parent, kind });
    }

    /// Returns the present leaf.
    #[must_use]
    pub fn leaf(&self) -> Option<&EntryId> {
        self.nodes.last().map(|node| &node.id)
    }

    /// Returns the leaf before the last move; `None` if the leaf was never moved.
    #[must_use]
    pub fn leaf_before_move(&self) -> Option<&EntryId> {
        self.last_left.as_ref()
    }

    /// Whether the session contains an entry.
    #[must_use]
    pub fn contains(&self, id: &EntryId) -> bool {
        self.by_id.contains_key(id)
    }

    /// Whether an entry is the beginning of a sub-agent, from which a conversation cannot continue.
    #[must_use]
    pub fn is_sub_agent(&self, id: &EntryId) -> bool {
        self.by_id.get(id).is_some_and(|at| self.sub_agents.begins_at(*at))
    }

    /// Returns the entry after which the branch of an edited prompt begins: the one before the prompt and the
    /// start of its run. The inner `None` is the time before the first entry; the outer one means that `id`
    /// is no prompt.
    #[must_use]
    pub fn before_prompt(&self, id: &EntryId) -> Option<Option<EntryId>> {
        let node = self.nodes.get(*self.by_id.get(id)?)?;
        if !matches!(node.kind, NodeKind::Shown(OutlineKind::Prompt, _)) {
            return None;
        }
        let mut before = node.parent.and_then(|parent| self.nodes.get(parent));
        while let Some(node) = before
            && matches!(node.kind, NodeKind::RunStart)
        {
            before = node.parent.and_then(|parent| self.nodes.get(parent));
        }
        Some(before.map(|node| node.id.clone()))
    }

    /// Returns the entry after which a branch that follows an answer begins: the end of the run if the answer
    /// is its last message, or else the answer itself.
    #[must_use]
    pub fn end_of_run(&self, id: &EntryId) -> EntryId {
        let Some(mut at) = self.by_id.get(id).copied() else { return id.clone() };
        for (child, node) in self.nodes.iter().enumerate().skip(at + 1) {
            if node.parent != Some(at) {
                continue;
            }
            match node.kind {
                NodeKind::RunEnd => return node.id.clone(),
                NodeKind::Note => at = child,
                NodeKind::Shown(..) | NodeKind::RunStart | NodeKind::Between => break,
            }
        }
        id.clone()
    }

    /// Iterates over the labels of entries.
    pub fn labels(&self) -> impl Iterator<Item = (&EntryId, &str)> {
        self.labels.iter().map(|(id, label)| (id, label.as_str()))
    }

    /// Returns the last prompt of the present branch.
    #[must_use]
    pub fn last_prompt(&self) -> Option<&EntryId> {
        let is_prompt = |node: &&Node| matches!(node.kind, NodeKind::Shown(OutlineKind::Prompt, _));
        self.ancestors(self.nodes.len().checked_sub(1)).find(is_prompt).map(|node| &node.id)
    }

    /// Returns the entries of the present branch after the last one that it has in common with the branch to
    /// `to`.
    #[must_use]
    pub fn left_by(&self, to: Option<&EntryId>) -> HashSet<EntryId> {
        let target = to.and_then(|to| self.by_id.get(to)).copied();
        let kept: HashSet<&EntryId> = self.ancestors(target).map(|node| &node.id).collect();
        let present = self.ancestors(self.nodes.len().checked_sub(1));
        present.map(|node| &node.id).take_while(|id| !kept.contains(id)).cloned().collect()
    }

    /// Returns the ids of an entry and its ancestors.
    #[must_use]
    pub fn branch_of(&self, id: &EntryId) -> HashSet<EntryId> {
        self.ancestors(self.by_id.get(id).copied()).map(|node| node.id.clone()).collect()
    }

    /// Iterates over a node and its ancestors, nearest first.
    fn ancestors(&self, from: Option<usize>) -> impl Iterator<Item = &Node> {
        let mut next = from;
        std::iter::from_fn(move || {
            let node = self.nodes.get(next?)?;
            next = node.parent;
            Some(node)
        })
    }

    /// Returns the rows of the tree, each after the row that it continues. Continuations of one row are
    /// indented if there are several. Sub-agents are indented below the row that started them.
    #[must_use]
    pub fn rows(&self) -> Vec<OutlineRow> {
        // For each node, its nearest shown ancestor.
        let mut above: Vec<Option<usize>> = Vec::with_capacity(self.nodes.len());
        let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let is_shown =
                |at: usize| matches!(self.nodes.get(at).map(|node| &node.kind), Some(NodeKind::Shown(..)));
            let parent = node.parent.and_then(|parent| {
                if is_shown(parent) { Some(parent) } else { above.get(parent).copied().flatten() }
            });
            above.push(parent);
            if matches!(node.kind, NodeKind::Shown(..)) {
                children.entry(parent).or_default().push(at);
            }
        }
        let present: HashSet<&EntryId> =
            self.ancestors(self.nodes.len().checked_sub(1)).map(|node| &node.id).collect();
        let mut beside = self.sub_agents.by_row(&above);
        let mut push_beside = |rows: &mut Vec<OutlineRow>, row: Option<usize>, depth: usize| {
            for sub_agent in beside.remove(&row).unwrap_or_default() {
                let Some(Node { id, .. }) = self.nodes.get(sub_agent.at) else { continue };
                rows.push(OutlineRow {
                    id: id.clone(),
                    kind: OutlineKind::SubAgent,
                    text: first_line(&sub_agent.text(), MAX_TEXT_CHARS),
                    depth: depth + sub_agent.depth,
                    label: self.labels.get(id).cloned(),
                    is_present: present.contains(id),
                    is_leaf: false,
                });
            }
        };
        let mut rows: Vec<OutlineRow> = Vec::new();
        push_beside(&mut rows, None, 0);
        let mut open: Vec<(usize, usize)> = Vec::new();
        let mut push = |open: &mut Vec<(usize, usize)>, parent: Option<usize>, depth: usize| {
            let next = children.remove(&parent).unwrap_or_default();
            let depth = depth + usize::from(next.len() > 1);
            open.extend(next.into_iter().rev().map(|child| (child, depth)));
        };
        push(&mut open, None, 0);
        while let Some((at, depth)) = open.pop() {
            if let Some(Node { id, kind: NodeKind::Shown(kind, text), .. }) = self.nodes.get(at) {
                rows.push(OutlineRow {
                    id: id.clone(),
                    kind: *kind,
                    text: text.clone(),
                    depth,
                    label: self.labels.get(id).cloned(),
                    is_present: present.contains(id),
                    is_leaf: false,
                });
            }
            push_beside(&mut rows, Some(at), depth);
            push(&mut open, Some(at), depth);
        }
        let last = self
            .ancestors(self.nodes.len().checked_sub(1))
            .find(|node| matches!(node.kind, NodeKind::Shown(..)));
        if let Some(last) = last
            && let Some(row) = rows.iter_mut().find(|row| row.id == last.id)
        {
            row.is_leaf = true;
        }
        rows
    }
}

/// Returns the beginning of a text in one line of at most `most` characters, with each run of white space or control
/// characters as one space.
///
/// ```
/// use zk_core::service::first_line;
///
/// assert_eq!(first_line("fix\n\tthe test", 80), "fix the test");
/// assert_eq!(first_line("fix the test", 4), "fix…");
/// ```
#[must_use]
pub fn first_line(text: &str, most: usize) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > most.saturating_mul(4) {
            break;
        }
    }
    match line.char_indices().nth(most) {
        None => line,
        Some(_) => line.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{Block, Message};
    use crate::service::RunStatus;

    use super::*;

    fn entry(id: &str, parent: Option<&str>, kind: EntryKind) -> Entry {
        Entry { id: id.into(), parent: parent.map(Into::into), time_ms: 0, kind }
    }

    fn message(message: Message) -> EntryKind {
        EntryKind::Message { message: message.shared(), usage: None }
    }

    /// Entries with a prompt and its answer, and another prompt in place of the first, after a label.
    fn sample_log() -> Vec<Entry> {
        let says = |text: &str| message(Message::user_text(text));
        let answers = |text: &str| message(Message::assistant(vec![Block::text(text)]));
        let back = EntryKind::Leaf { to: Some("b".into()), left: Some("e".into()) };
        let label = EntryKind::Label { target: "c".into(), label: Some("first\ntry".into()) };
        vec![
            entry("a", None, says("begin")),
            entry("b", Some("a"), answers("begun")),
            entry("r", Some("b"), EntryKind::RunStart { run_id: "r".into() }),
            entry("c", Some("r"), says("one way")),
            entry("d", Some("c"), answers("done")),
            entry("e", Some("d"), label),
            entry("f", Some("b"), back),
            entry("g", Some("f"), says("another way")),
        ]
    }

    #[test]
    fn branches_are_indented_and_the_leaf_is_marked() {
        let rows = SessionOutline::from_entries(sample_log()).rows();
        let shown: Vec<_> = rows
            .iter()
            .map(|row| (row.depth, row.text.as_str(), row.is_present, row.is_leaf, row.label.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                (0, "begin", true, false, None),
                (0, "begun", true, false, None),
                (1, "one way", false, false, Some("first try")),
                (1, "done", false, false, None),
                (1, "another way", true, true, None),
            ]
        );
    }

    #[test]
    fn sub_agents_are_indented_below_the_row_that_started_them() {
        use crate::service::{SubAgentEntry, SubAgentStep};
        let step = |agent: &str, step: SubAgentStep| {
            EntryKind::Custom(SubAgentEntry { agent: agent.to_owned(), step }.stored())
        };
        let began = |parent: &str, task: &str| SubAgentStep::Began {
            parent: parent.to_owned(),
            call_id: "c".into(),
            task: task.to_owned(),
        };
        let says = |text: &str| message(Message::user_text(text));
        let answers = |text: &str| message(Message::assistant(vec![Block::text(text)]));
        let outline = SessionOutline::from_entries([
            entry("a", None, says("find it")),
            entry("b", Some("a"), step("main.1", began("main", "look here"))),
            entry("c", Some("b"), step("main.1.1", began("main.1", "look deeper"))),
            entry("d", Some("c"), step("main.1", SubAgentStep::Said { text: "It is\nthere.".into() })),
            entry("e", Some("d"), answers("found")),
            // A later process gives the name to another sub-agent.
            entry("f", Some("e"), says("again")),
            entry("g", Some("f"), step("main.1", began("main", "look again"))),
        ]);
        let rows = outline.rows();
        let shown: Vec<_> =
            rows.iter().map(|row| (row.depth, row.kind, row.text.as_str(), row.is_present)).collect();
        let (prompt, answer, sub_agent) = (OutlineKind::Prompt, OutlineKind::Answer, OutlineKind::SubAgent);
        assert_eq!(
            shown,
            [
                (0, prompt, "find it", true),
                (1, sub_agent, "main.1: look here → It is there.", true),
                (2, sub_agent, "main.1.1: look deeper (no answer)", true),
                (0, answer, "found", true),
                (0, prompt, "again", true),
                (1, sub_agent, "main.1: look again (no answer)", true),
            ]
        );
        assert!(outline.is_sub_agent(&"c".into()) && !outline.is_sub_agent(&"d".into()));
        assert_eq!(rows.iter().find(|row| row.is_leaf).map(|row| row.text.as_str()), Some("again"));
    }

    #[test]
    fn editing_a_prompt_leaves_the_branch_before_its_run() {
        let outline = SessionOutline::from_entries(sample_log());
        assert_eq!(outline.before_prompt(&"c".into()), Some(Some("b".into())));
        assert_eq!(outline.before_prompt(&"a".into()), Some(None));
        assert_eq!(outline.before_prompt(&"b".into()), None);
        assert_eq!(outline.leaf_before_move(), Some(&"e".into()));
        assert_eq!(outline.last_prompt(), Some(&"g".into()));
        let left = outline.left_by(Some(&"d".into()));
        assert_eq!(left, HashSet::from(["f".into(), "g".into()]));
        assert_eq!(outline.left_by(None).len(), 4);
    }

    #[test]
    fn a_branch_behind_the_last_answer_begins_after_its_run() {
        let says = |text: &str| message(Message::user_text(text));
        let answers = |text: &str| message(Message::assistant(vec![Block::text(text)]));
        let start = || EntryKind::RunStart { run_id: "r".into() };
        let end = || EntryKind::RunEnd { run_id: "r".into(), status: RunStatus::Completed };
        let outline = SessionOutline::from_entries([
            entry("a", None, start()),
            entry("b", Some("a"), says("one")),
            entry("c", Some("b"), answers("first")),
            entry("d", Some("c"), answers("last")),
            entry("e", Some("d"), EntryKind::Label { target: "d".into(), label: Some("x".into()) }),
            entry("f", Some("e"), end()),
            entry("g", Some("f"), says("two")),
        ]);
        for (id, end) in [("c", "c"), ("d", "f"), ("b", "b"), ("g", "g")] {
            assert_eq!(outline.end_of_run(&id.into()), end.into(), "{id}");
        }
        assert_eq!(outline.labels().collect::<Vec<_>>(), [(&"d".into(), "x")]);
    }
}

use std::collections::HashMap;

use super::{CustomEntry, SubAgentEntry, SubAgentStep};

/// Sub-agents of a session, for its outline.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubAgentRows {
    all: Vec<SubAgentRow>,
    /// Last sub-agent of each name: a later process may assign a name again.
    by_name: HashMap<String, usize>,
}

/// Sub-agent in an outline.
#[derive(Clone, Debug)]
pub(crate) struct SubAgentRow {
    /// Position of its beginning among the entries.
    pub(crate) at: usize,
    /// Depth below the session's own agent, from 1.
    pub(crate) depth: usize,
    name: String,
    task: String,
    /// Last complete answer.
    said: Option<String>,
}

impl SubAgentRow {
    pub(crate) fn text(&self) -> String {
        let Self { name, task, said, .. } = self;
        match said {
            Some(said) => format!("{name}: {task} → {said}"),
            None => format!("{name}: {task} (no answer)"),
        }
    }
}

impl SubAgentRows {
    /// Adds the step of a sub-agent, if the entry at this position is one.
    pub(crate) fn add(&mut self, at: usize, entry: &CustomEntry) {
        let Some(SubAgentEntry { agent, step }) = SubAgentEntry::of(entry) else { return };
        match step {
            SubAgentStep::Began { parent, task, .. } => {
                let above = self.by_name.get(&parent).and_then(|above| self.all.get(*above));
                let depth = above.map_or(1, |above| above.depth + 1);
                self.by_name.insert(agent.clone(), self.all.len());
                self.all.push(SubAgentRow { at, depth, name: agent, task, said: None });
            }
            SubAgentStep::Said { text } => {
                if let Some(row) = self.by_name.get(&agent).and_then(|row| self.all.get_mut(*row)) {
                    row.said = Some(text);
                }
            }
            // Pieces of an answer, which the complete one replaces.
            SubAgentStep::Grew { .. } => {}
        }
    }

    /// Whether a sub-agent begins at this position.
    pub(crate) fn begins_at(&self, at: usize) -> bool {
        self.all.binary_search_by_key(&at, |row| row.at).is_ok()
    }

    /// Sub-agents by the row below which they stand; `above` has the row of each entry.
    pub(crate) fn by_row(&self, above: &[Option<usize>]) -> HashMap<Option<usize>, Vec<&SubAgentRow>> {
        let mut rows: HashMap<Option<usize>, Vec<&SubAgentRow>> = HashMap::new();
        for row in &self.all {
            rows.entry(above.get(row.at).copied().flatten()).or_default().push(row);
        }
        rows
    }
}

//! Events about parts that a run goes on without: each becomes a notice for the person.

use zk_core::events::{AgentStart, PartLeftOut, ToolLeftOut, ToolsChanged};
use zk_core::kernel::Origin;

use super::{Engine, Reduce};
use crate::{NoteLevel, Text};

impl Reduce for PartLeftOut {
    fn reduce(&self, engine: &mut Engine, _: &Origin) {
        let Self { kind, name, source, error } = self;
        let (name, source) = (Text::line(name), Text::line(source));
        engine.add_note(NoteLevel::Warning, &format!("{kind} `{name}` of {source} is left out: {error}"));
    }
}

impl Reduce for ToolsChanged {
    fn reduce(&self, engine: &mut Engine, origin: &Origin) {
        // Tools that a sub-agent lacks are reported by its parent, which lacks them too.
        let left_out = self.left_out.iter().filter(|_| origin.depth == 0);
        for ToolLeftOut { name, source, reason } in left_out {
            let (name, source) = (Text::line(name), Text::line(source));
            engine.add_note(NoteLevel::Warning, &format!("tool `{name}` of {source} is left out: {reason}"));
        }
    }
}

impl Engine {
    /// Shows a notice with the missing tools of a run.
    pub(super) fn note_missing_tools(&mut self, start: &AgentStart) {
        for name in &start.missing_tools {
            let name = Text::line(name);
            self.add_note(
                NoteLevel::Warning,
                &format!("there is no tool `{name}` yet; it joins when something registers it"),
            );
        }
    }
}

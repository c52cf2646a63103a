use zk_core::events::ViewBlock;
use zk_core::model::Display;
use zk_core::service::CustomEntry;

use super::{AgentBlocks, Core};
use crate::blocks::body::FullBody;
use crate::record::{PluginRecord, RunRecord};
use crate::{BlockId, Content, PluginBlock, Text};

/// Prefix of keys of blocks that show an entry.
const ENTRY_KEY: &str = "\0entry ";

/// Maximum size of a plugin's block in bytes.
const MAX_PLUGIN_BLOCK_BYTES: usize = 256 * 1024;

impl AgentBlocks {
    /// Shows or updates a block of a plugin. Returns the reason if it is left out.
    pub(in crate::engine) fn show_or_hold_plugin(
        &mut self,
        core: &mut Core,
        block: &ViewBlock,
    ) -> Result<(), String> {
        let bytes = serde_json::to_string(&block.body).map_or(usize::MAX, |json| json.len());
        if bytes > MAX_PLUGIN_BLOCK_BYTES {
            return Err(format!("its body has {bytes} bytes, {MAX_PLUGIN_BLOCK_BYTES} are allowed"));
        }
        if self.streams {
            self.held.push(block.clone());
        } else {
            self.show_plugin(core, block.clone());
        }
        Ok(())
    }

    /// Shows an entry that a plugin appended for the person.
    pub(in crate::engine) fn show_entry(&mut self, core: &mut Core, entry: &CustomEntry) {
        self.entries += 1;
        let block = ViewBlock {
            source: entry.source.clone(),
            key: format!("{ENTRY_KEY}{}", self.entries),
            kind: entry.kind.clone(),
            title: String::new(),
            body: Display::Lines { lines: entry.text().trim_end().lines().map(str::to_owned).collect() },
            last: true,
        };
        if self.streams {
            self.held.push(block);
        } else {
            self.show_plugin(core, block);
        }
    }

    pub(super) fn show_plugin(&mut self, core: &mut Core, block: ViewBlock) {
        let is_it = |known: &ViewBlock| known.source == block.source && known.key == block.key;
        let known = self.plugins.iter().position(|(_, known, _)| is_it(known));
        let (id, record) = match known.map(|at| self.plugins.remove(at)) {
            Some((id, _, record)) => (id, record),
            None => {
                let at = self.block_count - self.count_at_run_start;
                let body = Display::Line { text: String::new() };
                let [source, kind, title] = [&block.source, &block.kind, &block.title].map(String::clone);
                let is_entry = block.key.starts_with(ENTRY_KEY);
                self.record.plugins.push(PluginRecord { at, source, kind, title, body, is_entry });
                (self.next_id(), self.record.plugins.len() - 1)
            }
        };
        if let Some(record) = self.record.plugins.get_mut(record) {
            record.kind.clone_from(&block.kind);
            record.title.clone_from(&block.title);
            record.body.clone_from(&block.body);
        }
        let content = plugin_content(core, &id, &block.source, &block.kind, &block.title, &block.body);
        match (known.is_some(), block.last) {
            (false, last) => core.open_block(self.new_block(id.clone(), last, content)),
            (true, true) => core.close_block(self.new_block(id.clone(), true, content)),
            (true, false) => core.change_block(&id, |shown| *shown = content),
        }
        if !block.last {
            self.plugins.push((id, block, record));
        }
    }

    /// Shows the plugin blocks recorded at this position of a stored run.
    pub(in crate::engine) fn restore_plugins(&mut self, core: &mut Core, record: &mut RunRecord) {
        while record
            .plugins
            .first()
            .is_some_and(|plugin| plugin.at <= self.block_count - self.count_at_run_start)
        {
            let plugin = record.plugins.remove(0);
            let id = self.next_id();
            let PluginRecord { source, kind, title, body, .. } = plugin;
            let content = plugin_content(core, &id, &source, &kind, &title, &body);
            core.open_block(self.new_block(id, true, content));
        }
    }
}

fn plugin_content(
    core: &mut Core,
    id: &BlockId,
    source: &str,
    kind: &str,
    title: &str,
    body: &Display,
) -> Content {
    let body = core.keep_body(id, FullBody::of_display(body));
    let (source, kind, title) = (Text::line(source), Text::line(kind), Text::line(title));
    Content::Plugin(Box::new(PluginBlock { source, kind, title, body }))
}

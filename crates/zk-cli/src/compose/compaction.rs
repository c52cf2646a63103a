//! Compaction of conversations and of results, as the settings say.

use std::sync::Arc;

use serde_json::{Map, Value};
use zk_compaction::settings::{CompactionChoiceError, StrategyName};
use zk_compaction::{LineFile, Window, WindowOptions};
use zk_core::kernel::Plugin;
use zk_core::service::PluginSettings;
use zk_exec::LocalStateFiles;
use zk_providers::CompactAt;
use zk_providers::select::NamedProvider;
use zk_tools::LearnedRules;

use crate::app::Workplace;
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;

impl From<CompactionChoiceError> for Failure {
    fn from(error: CompactionChoiceError) -> Self {
        Self::usage(error.to_string())
    }
}

/// Returns the plugin that stores lines of compacted conversations for later ones.
pub(crate) fn shared_lines(work: &Workplace, settings: &Settings) -> Option<Arc<dyn Plugin>> {
    let path = work.machine.dirs.shared_lines().filter(|_| settings.program.shorten)?;
    let writes = settings.compaction.shared_lines;
    let files = Arc::new(LocalStateFiles::default());
    Some(Arc::new(LineFile::new(path, &work.project, writes, work.machine.redactor.clone(), files)))
}

/// Returns the rules that outputs of this project taught; `None` without a directory for state.
pub(crate) fn learned_rules(work: &Workplace) -> Option<LearnedRules> {
    let path = work.machine.dirs.learned_rules()?;
    let files = Arc::new(LocalStateFiles::default());
    Some(LearnedRules::new(path, &work.project, files, work.machine.redactor.clone()))
}

/// Adds the option with which the provider compacts the context itself, if the settings select that.
pub(crate) fn request_server_compaction(
    settings: &Settings,
    provider: &NamedProvider,
    options: &mut Map<String, Value>,
) -> Outcome<()> {
    if settings.compaction.strategy != Some(StrategyName::Server)
        || options.contains_key("context_management")
    {
        return Ok(());
    }
    let asked = provider.vendor.dialect.compaction().filter(|_| provider.prebuilt.is_none());
    let Some(asked) = asked else {
        return Err(Failure::usage(format!(
            "`compaction.strategy = \"server\"`: the provider `{}` does not compact conversations itself; choose another \
             strategy, or another provider",
            provider.name
        )));
    };
    options.insert("context_management".to_owned(), asked);
    if !options.contains_key("compact_at") {
        let window: WindowOptions = PluginSettings::table(settings, Window::default().name())
            .map_or_else(|| Ok(WindowOptions::default()), serde_json::from_value)
            .map_err(|error| Failure::usage(format!("`[plugins.context-window]`: {error}")))?;
        // Between both thresholds, so that the server compacts first, and zk only if that is not enough.
        let at = CompactAt { part: f64::midpoint(window.soft, window.hard), reserve: window.reserve };
        options.insert("compact_at".to_owned(), serde_json::to_value(at).map_err(Failure::failed)?);
    }
    Ok(())
}

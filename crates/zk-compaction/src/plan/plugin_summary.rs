//! Asks plugins before a compaction: a plugin can forbid it or supply the summary.

use zk_core::events::{CompactionTrigger, SessionBeforeCompact};
use zk_core::kernel::{BoxError, Cx, EmitError, Event};
use zk_core::model::SessionId;
use zk_core::service::{ContextId, WindowPlan, WindowView};

use crate::plan::cut;
use crate::plan::prepare::Preparation;
use crate::strategies::summary;
use crate::window::owner::WindowOwner;

/// Name of a plan with a plugin's summary, in lists of strategies.
pub(crate) const PLUGIN_SUMMARY: &str = "plugin";

/// Default reason if a plugin forbids a compaction.
const NO_REASON: &str = "a plugin keeps it as it is";

impl WindowOwner {
    /// Asks the plugins about an automatic compaction. Returns the reason if one forbids it, and stores a
    /// summary that one supplies. For a manual compaction, the code that accepted the request has asked them
    /// already.
    pub(crate) async fn ask_plugins(
        &self,
        context: Option<&ContextId>,
        preparation: &mut Preparation<'_>,
        cx: &Cx,
    ) -> Result<Option<String>, EmitError> {
        let trigger = match preparation.trigger {
            Some(trigger @ (CompactionTrigger::Hard | CompactionTrigger::Overflow)) => trigger,
            Some(CompactionTrigger::Soft | CompactionTrigger::Manual) | None => return Ok(None),
        };
        let before = SessionBeforeCompact {
            session_id: cx.service::<SessionId>().as_deref().cloned(),
            tokens: preparation.before.tokens,
            instructions: None,
            trigger,
        };
        let Some(reply) = cx.emit(before).await? else { return Ok(None) };
        if reply.cancel {
            self.lock().conversation(context).trigger.pause(&self.options);
            return Ok(Some(reply.reason.unwrap_or_else(|| NO_REASON.to_owned())));
        }
        match reply.summary() {
            Ok(text) => preparation.summary = text.map(str::to_owned),
            Err(error) => self.leave_out_summary(&error.into(), cx).await?,
        }
        Ok(None)
    }

    /// Reports a plugin's failed summary and continues without it.
    pub(crate) async fn leave_out_summary(&self, error: &BoxError, cx: &Cx) -> Result<(), EmitError> {
        self.announce_failed_part(PLUGIN_SUMMARY, SessionBeforeCompact::NAME, error, cx).await
    }
}

/// Plan that replaces all but the newest messages by `summary`; `None` if there is nothing to leave out.
pub(crate) fn plan(view: &WindowView<'_>, summary: &str) -> Result<Option<WindowPlan>, BoxError> {
    let Some(cut) = cut::find(view.messages, view.keep) else { return Ok(None) };
    let gone = view.messages.get(cut.clone()).unwrap_or_default();
    let stands_for = summary::marker(view.messages, gone, summary)?;
    Ok(Some(WindowPlan::default().cut(cut, vec![stands_for])))
}

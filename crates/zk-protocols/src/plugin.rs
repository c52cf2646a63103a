use std::sync::Arc;

use zk_core::events::{MessageEnd, Ruling, ToolGate, ToolsOffer};
use zk_core::kernel::{BoxError, Cx, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::service::{Provider, Tool};

use crate::deferred::CALL_TOOL;
use crate::inline::{CallExtractor, EXTRACT_CALLS, FencedCalls, NAMELESS_CALL, fresh_mark};
use crate::lookup::{LOAD_TOOLS, LoadTools, offers};
use crate::provider::ProtocolProvider;
use crate::reasoning::ReasoningOnly;
use crate::settings::ProtocolSettings;

/// Plugin that offers each model its tools in the protocol that fits it, and asks once more for an answer that is
/// reasoning alone.
///
/// ```
/// use zk_core::kernel::Bus;
/// use zk_protocols::{ProtocolSettings, ProtocolsPlugin, ToolProtocol};
///
/// let bus = Bus::new();
/// let settings = ProtocolSettings { protocol: Some(ToolProtocol::Inline), ..ProtocolSettings::default() };
/// bus.install(&ProtocolsPlugin::new(settings)).unwrap();
/// ```
#[derive(Debug)]
pub struct ProtocolsPlugin {
    settings: Arc<ProtocolSettings>,
    /// Nonce in the info string of calls that are written as text.
    mark: Arc<str>,
}

impl ProtocolsPlugin {
    /// Creates the plugin with these settings, and a random mark of calls in text.
    #[must_use]
    pub fn new(settings: ProtocolSettings) -> Self {
        Self { settings: Arc::new(settings), mark: fresh_mark().into() }
    }

    /// Sets the mark in the info string of calls in text, `tool_call-MARK`, such as that of an earlier process for a
    /// conversation that goes on. Files that the model reads must not know it.
    #[must_use]
    pub fn with_mark(self, mark: &str) -> Self {
        Self { mark: mark.into(), ..self }
    }
}

impl Plugin for ProtocolsPlugin {
    fn name(&self) -> &str {
        "tool-protocols"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let everywhere =
            |stage| HookOptions { stage, reach: Some(Reach::Descendants), ..HookOptions::default() };
        scope.provide::<dyn CallExtractor>(EXTRACT_CALLS, Arc::new(FencedCalls::new(&self.mark)))?;
        // Not among the tools of a program that never uses it.
        if self.settings.names_lookup() {
            scope.provide::<dyn Tool>(LOAD_TOOLS, Arc::new(LoadTools::new()))?;
            let settings = self.settings.clone();
            scope.on_sync_at(everywhere(Stage::Early), move |offer: &ToolsOffer, _: &Cx| {
                Some(offers(&settings, offer))
            });
        }
        let (settings, mark) = (self.settings.clone(), self.mark.clone());
        scope.decorate_all::<dyn Provider>(move |inner| {
            Arc::new(ProtocolProvider { inner, settings: settings.clone(), mark: mark.clone() })
        });
        scope.on_sync_at(everywhere(Stage::Early), |gate: &ToolGate, _: &Cx| refuse_nameless_call(gate));
        scope.handle_at::<MessageEnd, _>(everywhere(Stage::Late), Arc::new(ReasoningOnly::default()));
        Ok(())
    }
}

/// Refuses a call that names no tool, with the form of a call.
fn refuse_nameless_call(gate: &ToolGate) -> Option<Ruling> {
    let name = gate.call.name.as_str();
    if gate.tool.is_some() || !matches!(name, CALL_TOOL | NAMELESS_CALL) {
        return None;
    }
    let form = "give `name`, the name of a tool, and `arguments`, an object";
    Some(Ruling::refuse(format!("this call names no tool: {form}")))
}

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use zk_core::events::{
    Input, PermissionRequest, ProviderPayload, SessionBeforeCompact, SessionBeforeFork, SessionBeforeSwitch,
    SessionBeforeTree, ToolGate, ToolPrepare, ToolTransform, ToolsOffer,
};
use zk_core::kernel::{Answer, Cx, Event, Handler, HookOptions, Scope, Stage, WireReply};

use crate::error::ExtensionError;
use crate::extension::Shared;
use crate::protocol::EventQuestion;

/// Time limit of the handler. The extension has its own shorter limit, extended only while it is asking the
/// person.
const HANDLER_LIMIT: Duration = Duration::from_secs(3600);

/// Event that an extension can answer.
pub(crate) struct Askable {
    pub(crate) name: &'static str,
    /// Whether extensions of projects can answer it as well.
    pub(crate) by_projects: bool,
    pub(crate) register: fn(&Scope, Arc<Shared>, Stage),
}

impl Askable {
    const fn of<E: Event<Reply: WireReply>>(by_projects: bool) -> Self {
        Self { name: E::NAME, by_projects, register: register_ask::<E> }
    }
}

/// All events whose reply can be parsed from JSON.
const ASKABLE: [Askable; 11] = [
    Askable::of::<Input>(true),
    Askable::of::<ToolsOffer>(true),
    Askable::of::<ToolPrepare>(true),
    Askable::of::<ToolGate>(true),
    // An extension of a project must not allow calls without a question.
    Askable::of::<PermissionRequest>(false),
    Askable::of::<ToolTransform>(true),
    Askable::of::<ProviderPayload>(false),
    Askable::of::<SessionBeforeSwitch>(true),
    Askable::of::<SessionBeforeFork>(true),
    Askable::of::<SessionBeforeTree>(true),
    Askable::of::<SessionBeforeCompact>(true),
];

/// Finds an event that an extension can answer.
pub(crate) fn askable(name: &str) -> Option<&'static Askable> {
    ASKABLE.iter().find(|event| event.name == name)
}

/// Names of the events that an extension can answer.
pub(crate) fn askable_names(is_project: bool) -> Vec<String> {
    let events = ASKABLE.iter().filter(|event| event.by_projects || !is_project);
    events.map(|event| event.name.to_owned()).collect()
}

fn register_ask<E: Event<Reply: WireReply>>(scope: &Scope, shared: Arc<Shared>, stage: Stage) {
    let at = HookOptions { stage, reach: None, time_limit: Some(HANDLER_LIMIT) };
    scope.handle_at::<E, Ask>(at, Arc::new(Ask { shared }));
}

/// Handler that passes events to the extension and waits for its answer.
struct Ask {
    shared: Arc<Shared>,
}

impl<E: Event<Reply: WireReply>> Handler<E> for Ask {
    async fn call(&self, event: &E, cx: &Cx) -> Answer<E> {
        let shared = &self.shared;
        shared.ready().await?;
        if !shared.is_asked(E::NAME) {
            return Err(ExtensionError::Unguarded {
                name: shared.name().to_owned(),
                event: E::NAME.to_owned(),
            }
            .into());
        }
        let question = EventQuestion { event: E::NAME, run: cx.run_id(), data: event };
        match shared.request("event/ask", question, shared.config.limits.answer, cx).await? {
            Value::Null => Ok(None),
            reply => Ok(Some(E::Reply::from_json(reply).map_err(|error| ExtensionError::Answer {
                name: shared.name().to_owned(),
                what: E::NAME.to_owned(),
                reason: error.to_string(),
            })?)),
        }
    }
}

/// Refuses calls until the extension has started and registered its guards.
pub(crate) fn guard_start(scope: &Scope, shared: &Arc<Shared>) {
    let at = HookOptions { stage: Stage::default(), reach: None, time_limit: Some(HANDLER_LIMIT) };
    scope.handle_at::<ToolGate, StartGuard>(at, Arc::new(StartGuard(shared.clone())));
}

struct StartGuard(Arc<Shared>);

impl Handler<ToolGate> for StartGuard {
    async fn call(&self, event: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        let shared = &self.0;
        match shared.ready().await {
            // An event only reaches handlers that were registered before it was emitted.
            Ok(_) if shared.is_asked(ToolGate::NAME) => {
                let ask = Ask { shared: shared.clone() };
                Handler::<ToolGate>::call(&ask, event, cx).await
            }
            Ok(_) => Ok(None),
            Err(_) if shared.was_ready() => Ok(None),
            Err(error) => Err(format!(
                "{error} (if it guards nothing, `guards = false` in its settings lets calls run without it)"
            )
            .into()),
        }
    }
}

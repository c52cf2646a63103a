use std::sync::Arc;
use std::time::Duration;

use zk_core::events::{ContextTransform, ModelSelect};
use zk_core::kernel::{BoxError, Cx, Event, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::service::{ContextWindow, Tool, WINDOW_OWNER, WindowStrategy, settings_of};

use crate::WindowOptions;
use crate::window::owner::WindowOwner;
use crate::window::recall::{RECALL, Recall};
use crate::window::request::{REQUEST, RequestCompaction};

/// Time limit of all strategies together.
const ALL_STRATEGIES_TIME_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Plugin that owns the context window: decides which messages of each conversation are sent, and asks the
/// strategies on its bus ([`WindowStrategy`]) when a request has to shrink.
///
/// Before each request, every strategy may apply a threshold of its own. If the request exceeds the lower
/// threshold of its [`Budget`](crate::Budget), strategies apply their prepared plans. If it exceeds the upper
/// one, after an overflow, or after a call of [`ContextWindow::reduce`], strategies are asked in their order
/// until the target is reached: half of the request, or half of the window if that is smaller (of
/// `fallback_bytes` if the window is unknown). After that, the sent messages only grow until the next
/// compaction. Omitted messages are announced as [`ContextReduced`](zk_core::events::ContextReduced), each
/// decision as [`ContextCompaction`](zk_core::events::ContextCompaction).
///
/// A compaction that frees too little has failed. After two failures in a row the run ends with a report of
/// the window's content, and no further compaction is tried until an overflow or a person's request.
///
/// Decisions are stored with the conversation, so a resumed session continues with the same sent messages.
/// Another model gets the whole conversation again if its window is large enough.
///
/// ```
/// use zk_compaction::{Shorten, Tail, Window};
/// use zk_core::kernel::Bus;
///
/// let bus = Bus::new();
/// bus.install(&Window::default())?;
/// bus.install(&Tail::default())?;
/// bus.install(&Shorten)?;
/// # Ok::<(), zk_core::kernel::InstallError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Window {
    options: Option<WindowOptions>,
}

impl Window {
    /// Plugin with these options, which override the settings.
    #[must_use]
    pub fn with(options: WindowOptions) -> Self {
        Self { options: Some(options) }
    }
}

impl Plugin for Window {
    fn name(&self) -> &'static str {
        WINDOW_OWNER
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let options = match (&self.options, scope.bus()) {
            (Some(options), _) => options.clone(),
            (None, Some(bus)) => settings_of(&bus, scope.source())?.unwrap_or_default(),
            (None, None) => WindowOptions::default(),
        };
        options.check()?;
        let owner = Arc::new(WindowOwner::new(options, scope.clone()));
        listen(scope, &owner, WindowOwner::overflowed);
        scope.handle_at::<ModelSelect, _>(Reach::Own, owner.clone());
        listen(scope, &owner, WindowOwner::run_started);
        listen(scope, &owner, WindowOwner::sections_sized);
        listen(scope, &owner, WindowOwner::turn_ended);
        listen(scope, &owner, WindowOwner::loaded);
        if owner.options.recall {
            scope.provide::<dyn Tool>(RECALL, Arc::new(Recall::new(owner.clone())))?;
        }
        if owner.options.request {
            scope.provide::<dyn Tool>(REQUEST, Arc::new(RequestCompaction::new(owner.clone())))?;
        }
        scope.provide_service::<dyn ContextWindow>(owner.clone());
        let at =
            HookOptions { time_limit: Some(ALL_STRATEGIES_TIME_LIMIT), ..HookOptions::from(Stage::Early) };
        scope.handle_at::<ContextTransform, _>(at, owner);
        Ok(())
    }
}

/// Subscribes `owner` to events of its own agent; a sub-agent has its own window.
fn listen<E: Event>(scope: &Scope, owner: &Arc<WindowOwner>, tell: fn(&WindowOwner, &E, &Cx)) {
    let owner = owner.clone();
    scope.on_sync_at(Reach::Own, move |event: &E, cx: &Cx| tell(&owner, event, cx));
}

/// Registers a strategy. Fails without an owner to ask it.
pub(crate) fn register(
    scope: &Scope,
    name: &str,
    strategy: impl WindowStrategy + 'static,
) -> Result<(), BoxError> {
    if scope.bus().and_then(|bus| bus.service::<dyn ContextWindow>()).is_none() {
        return Err(format!("nothing owns the context window: install `Window` before `{name}`").into());
    }
    scope.provide::<dyn WindowStrategy>(name, Arc::new(strategy))?;
    Ok(())
}

/// Fails if the contradicting strategy `other` is registered.
pub(crate) fn refuse_beside(scope: &Scope, name: &str, other: &str) -> Result<(), BoxError> {
    let is_there = scope.bus().is_some_and(|bus| bus.item::<dyn WindowStrategy>(other).is_some());
    if is_there {
        let text =
            format!("the strategies `{name}` and `{other}` contradict each other: install one of them");
        return Err(text.into());
    }
    Ok(())
}

use std::sync::Arc;
use std::time::Duration;

use zk_core::events::{ContextTransform, ModelSelect};
use zk_core::kernel::{BoxError, Cx, Event, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::service::{ContextWindow, Tool, WINDOW_OWNER, WindowStrategy, settings_of};

use crate::WindowOptions;
use crate::window::owner::WindowOwner;
use crate::window::recall::{RECALL, Recall};

/// Time limit of all strategies together.
const ALL_STRATEGIES_TIME_LIMIT: Duration = Duration::from_secs(15 * 60);

/// The owner of the context window: keeps what is sent of each conversation, and asks the strategies on its bus
/// ([`WindowStrategy`]) when less has to be sent.
///
/// Before each request, every strategy may apply a threshold of its own. Where the request exceeds the lower threshold of
/// its [`Budget`](crate::Budget), strategies apply what they have prepared. Where it exceeds the upper one, after an
/// overflow, or when [`ContextWindow::reduce`] was called, about half as much is to be sent, or half of the window (of the
/// bytes that stand for it where it is not known) where that is smaller: strategies are asked by their order until that is
/// reached. Then the bytes stay the same until that happens again. What was left out is announced as
/// [`ContextReduced`](zk_core::events::ContextReduced), each decision as
/// [`ContextCompaction`](zk_core::events::ContextCompaction).
///
/// A compaction that frees too little has failed; after two in a row the run ends with what fills the window, and no
/// more is tried until the conversation overflows or somebody asks.
///
/// Decisions are stored where the conversation is: a resumed session goes on as it was sent last. Another
/// model gets the whole conversation again if its window has room for it.
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
    /// An owner with these options, whatever the settings say.
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
        scope.provide_service::<dyn ContextWindow>(owner.clone());
        let at =
            HookOptions { time_limit: Some(ALL_STRATEGIES_TIME_LIMIT), ..HookOptions::from(Stage::Early) };
        scope.handle_at::<ContextTransform, _>(at, owner);
        Ok(())
    }
}

/// Tells `owner` of its own agent's events: a sub-agent has a window of its own.
fn listen<E: Event>(scope: &Scope, owner: &Arc<WindowOwner>, tell: fn(&WindowOwner, &E, &Cx)) {
    let owner = owner.clone();
    scope.on_sync_at(Reach::Own, move |event: &E, cx: &Cx| tell(&owner, event, cx));
}

/// Registers a strategy; an owner has to be there to ask it.
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

/// Refuses to register the strategy `name` where `other` is: they contradict each other.
pub(crate) fn refuse_beside(scope: &Scope, name: &str, other: &str) -> Result<(), BoxError> {
    let is_there = scope.bus().is_some_and(|bus| bus.item::<dyn WindowStrategy>(other).is_some());
    if is_there {
        let text =
            format!("the strategies `{name}` and `{other}` contradict each other: install one of them");
        return Err(text.into());
    }
    Ok(())
}

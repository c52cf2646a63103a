//! The bridge plugin, with the events that its program is asked about or told.

mod ask;
mod error;
mod lines;
mod pump;
mod queue;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_core::kernel::{BoxError, Event, Plugin, Reach, Scope, WireReply};
use zk_core::service::{ExecRequest, Input};

use ask::Ask;
use queue::{Queue, queue};

pub use error::BridgeError;
pub use lines::{BRIDGE_VERSION, EventLine, Hello, LineStamp, Lost, ReplyLine};

/// Default time limit of a reply: less than the 30 s of a gate, so that the error message names the program.
const REPLY: Duration = Duration::from_secs(10);

type Register = Arc<dyn Fn(&Scope, &Arc<Queue>, Duration) + Send + Sync>;

/// Plugin whose handlers are in another process.
///
/// ```
/// use zk_core::events::{ToolGate, ToolPrepare};
/// use zk_core::service::ExecRequest;
/// use zk_hooks::Bridge;
///
/// let bridge = Bridge::new("policy", ExecRequest::new("policy-server", "/srv"))
///     .ask::<ToolPrepare>()
///     .ask::<ToolGate>()
///     .tell(["tool:after", "agent:done"]);
/// ```
///
/// An event whose reply cannot be serialised does not compile:
///
/// ```compile_fail
/// use zk_core::events::ContextTransform;
/// use zk_core::service::ExecRequest;
///
/// zk_hooks::Bridge::new("policy", ExecRequest::new("policy-server", "/srv")).ask::<ContextTransform>();
/// ```
#[must_use = "a bridge does nothing until it is installed"]
pub struct Bridge {
    name: String,
    request: ExecRequest,
    limit: Duration,
    asked: Vec<Register>,
    told: Arc<BTreeSet<String>>,
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge")
            .field("name", &self.name)
            .field("program", &self.request.program)
            .field("asked", &self.asked.len())
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}

impl Bridge {
    /// Bridge to the program of `request`, without events yet. The plugin has this name.
    pub fn new(name: impl Into<String>, request: ExecRequest) -> Self {
        let request = ExecRequest { input: Input::Piped, terminal: None, timeout: None, ..request };
        Self { name: name.into(), request, limit: REPLY, asked: Vec::new(), told: Arc::default() }
    }

    /// Asks the program about each `E`, as a handler of that event.
    pub fn ask<E: Event<Reply: WireReply>>(mut self) -> Self {
        self.asked.push(Arc::new(|scope, queue, limit| {
            scope.handle::<E, Ask>(Arc::new(Ask::new(queue.clone(), limit)));
        }));
        self
    }

    /// Sends the program the events with these names, of zk or of plugins, without waiting for it.
    pub fn tell<N: Into<String>>(mut self, events: impl IntoIterator<Item = N>) -> Self {
        let told = self.told.iter().cloned().chain(events.into_iter().map(Into::into));
        self.told = Arc::new(told.collect());
        self
    }

    /// Sets the time limit of a reply; 10 s by default. For the first reply it includes the program's start.
    pub fn reply_within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }
}

impl Plugin for Bridge {
    fn name(&self) -> &str {
        &self.name
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let (queue, work) = queue(&self.name, &self.request);
        scope.spawn(pump::run(work, self.request.clone(), self.limit));
        for register in &self.asked {
            register(scope, &queue, self.limit);
        }
        if !self.told.is_empty() {
            let told = self.told.clone();
            scope.observe_stamped(Reach::Own, move |event, stamp, cx| {
                if told.contains(event.name()) {
                    queue.tell(event, stamp, cx);
                }
            });
        }
        Ok(())
    }
}

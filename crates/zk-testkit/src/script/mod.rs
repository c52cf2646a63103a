//! Script of a model: its responses, turn by turn.

mod asked;
mod playback;
mod turn;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use asked::{Answered, Asked};
#[cfg(feature = "server")]
pub(crate) use playback::parse_args;
pub(crate) use playback::{Beat, Playback, beats};
pub use turn::{Step, Turn};

/// Turns of a scripted model, in order.
///
/// ```
/// use serde_json::json;
/// use zk_testkit::{Script, Turn};
///
/// let script = Script::new()
///     .turn(|t| t.text("Let me look.").call("read_file", json!({"path": "a.txt"})))
///     .respond(|asked| {
///         let seen = asked.results().first().map(|result| result.text.clone()).unwrap_or_default();
///         Turn::new().text(format!("The file says: {seen}"))
///     });
/// assert_eq!(script.len(), 2);
/// ```
#[derive(Clone, Default)]
pub struct Script {
    pub(crate) turns: Vec<Said>,
    pub(crate) forever: Option<Responder>,
    pub(crate) pace: Option<Duration>,
}

pub(crate) type Responder = Arc<dyn Fn(&Asked) -> Turn + Send + Sync>;

#[derive(Clone)]
pub(crate) enum Said {
    Fixed(Turn),
    Computed(Responder),
}

impl Script {
    /// Script without turns.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Script that computes each turn from the request, and never ends.
    pub fn answering(respond: impl Fn(&Asked) -> Turn + Send + Sync + 'static) -> Self {
        Self::new().forever(respond)
    }

    /// Adds a turn.
    #[must_use]
    pub fn turn(mut self, build: impl FnOnce(Turn) -> Turn) -> Self {
        self.turns.push(Said::Fixed(build(Turn::new())));
        self
    }

    /// Adds a turn that is computed from the request, for example from the results of earlier calls.
    #[must_use]
    pub fn respond(mut self, respond: impl Fn(&Asked) -> Turn + Send + Sync + 'static) -> Self {
        self.turns.push(Said::Computed(Arc::new(respond)));
        self
    }

    /// Computes all further turns from the requests, so that the script never ends.
    #[must_use]
    pub fn forever(mut self, respond: impl Fn(&Asked) -> Turn + Send + Sync + 'static) -> Self {
        self.forever = Some(Arc::new(respond));
        self
    }

    /// Sets a pause before each piece of text, thinking or arguments, for demonstrations.
    #[must_use]
    pub fn pace(mut self, pause: Duration) -> Self {
        self.pace = Some(pause);
        self
    }

    /// Number of turns, without those of [`Script::forever`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Whether the script has no turns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("turns", &self.turns.len())
            .field("forever", &self.forever.is_some())
            .finish_non_exhaustive()
    }
}

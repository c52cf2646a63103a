use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::term::print_stderr;

type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// Printer of notices beside a run: warnings and errors of handlers. Prints to standard error until a screen
/// takes over, so that notices never corrupt it. Clones share the sink.
#[derive(Clone, Default)]
pub struct Notices(Arc<Mutex<Option<Sink>>>);

impl Notices {
    /// Sends notices to `sink` from now on.
    pub fn route_to(&self, sink: impl Fn(&str) + Send + Sync + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(sink));
    }

    /// Shows one notice.
    pub fn show(&self, text: &str) {
        let sink = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match sink {
            Some(sink) => sink(text),
            None => print_stderr(&format!("zk: {text}")),
        }
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use zk_core::service::Redactor;

/// Redactor that the terminal and standard error of this process ask for every text. They are the process's,
/// so this is too.
static REDACTOR: OnceLock<Arc<Redactor>> = OnceLock::new();

/// Keeps what `redactor` finds out of everything that is printed from now on. The first one stays.
pub fn redact_with(redactor: &Arc<Redactor>) {
    let _ = REDACTOR.set(redactor.clone());
}

/// The text without secrets.
pub fn redacted(text: &str) -> Cow<'_, str> {
    match REDACTOR.get() {
        Some(redactor) => redactor.redact(text),
        None => Redactor::new().redact(text).into_owned().into(),
    }
}

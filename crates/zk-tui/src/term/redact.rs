use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use zk_core::service::Redactor;

/// Redactor of all output of this process, which is global like the output.
static REDACTOR: OnceLock<Arc<Redactor>> = OnceLock::new();

/// Sets the redactor of all later output. The first one stays.
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

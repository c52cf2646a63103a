//! What happens inside a conversation, in files for a person who looks for a fault.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde::Serialize;
use zk_core::events::{ContextCompaction, ContextReduced, HistoryRepaired, PrefixBreak, ProviderPayload};
use zk_core::kernel::{BoxError, Cx, Event, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::service::{DebugDump, Redactor};

use crate::sessions::make_private;
use crate::term::Notices;

/// Writes `NUMBER-WHAT.txt` for each thing that happens: requests as they are sent, what had to be repaired of a history,
/// compactions and what they left out, broken prefixes, and what strategies say of themselves. Secrets are left out of it.
#[derive(Clone)]
pub(crate) struct DumpFiles {
    inner: Arc<Inner>,
}

struct Inner {
    dir: PathBuf,
    redactor: Arc<Redactor>,
    notices: Notices,
    number: AtomicU32,
    failed: AtomicBool,
}

impl DumpFiles {
    /// Files in `dir`, which is made when there is something to write.
    pub(crate) fn new(dir: PathBuf, redactor: Arc<Redactor>, notices: Notices) -> Self {
        let (number, failed) = (AtomicU32::new(0), AtomicBool::new(false));
        Self { inner: Arc::new(Inner { dir, redactor, notices, number, failed }) }
    }

    fn keep(&self, what: &str, text: &str) -> std::io::Result<()> {
        let inner = &self.inner;
        make_private(&inner.dir)?;
        let text = inner.redactor.redact(text);
        // Another conversation may have written here before.
        loop {
            let number = inner.number.fetch_add(1, Ordering::AcqRel) + 1;
            let path = inner.dir.join(format!("{number:04}-{what}.txt"));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
                Ok(mut file) => return file.write_all(text.as_bytes()),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn keep_value(&self, what: &str, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.write(what, &text),
            Err(error) => self.write(what, &format!("it cannot be written: {error}")),
        }
    }
}

impl DebugDump for DumpFiles {
    fn write(&self, what: &str, text: &str) {
        if let Err(error) = self.keep(what, text)
            && !self.inner.failed.swap(true, Ordering::AcqRel)
        {
            let dir = self.inner.dir.display();
            self.inner.notices.show(&format!("warning: --debug-dump: cannot write to {dir}: {error}"));
        }
    }
}

impl Plugin for DumpFiles {
    fn name(&self) -> &'static str {
        "debug-dump"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide_service::<dyn DebugDump>(Arc::new(self.clone()));
        self.dump::<HistoryRepaired>(scope, "history-repaired");
        self.dump::<ContextCompaction>(scope, "compaction");
        self.dump::<ContextReduced>(scope, "left-out");
        self.dump::<PrefixBreak>(scope, "prefix-break");
        let dump = self.clone();
        // As others leave it.
        let late = HookOptions { stage: Stage::Late, reach: Some(Reach::Descendants), time_limit: None };
        scope.on_sync_at(late, move |event: &ProviderPayload, _: &Cx| {
            dump.keep_value("request", &event.payload);
            None
        });
        Ok(())
    }
}

impl DumpFiles {
    fn dump<E: Event<Reply = ()> + Serialize>(&self, scope: &Scope, what: &'static str) {
        let dump = self.clone();
        let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
        scope.on_sync_at(everywhere, move |event: &E, _: &Cx| dump.keep_value(what, event));
    }
}

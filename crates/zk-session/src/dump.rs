//! Dump of a conversation's requests and repairs into files, for debugging.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde::Serialize;
use zk_core::events::{ContextCompaction, ContextReduced, HistoryRepaired, PrefixBreak, ProviderPayload};
use zk_core::kernel::{BoxError, Cx, Event, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::service::{DebugDump, Redactor, make_private_dir};

/// Plugin that writes each event to a file `NUMBER-KIND.txt`: requests as they are sent, repairs of the
/// history, compactions with the content that they left out, broken cache prefixes, and notes of compaction
/// strategies. Secrets are removed.
#[derive(Clone)]
pub struct DumpFiles {
    inner: Arc<Inner>,
}

type OnFailure = dyn Fn(&Path, &io::Error) + Send + Sync;

struct Inner {
    dir: PathBuf,
    redactor: Arc<Redactor>,
    on_failure: Box<OnFailure>,
    number: AtomicU32,
    failed: AtomicBool,
}

impl DumpFiles {
    /// Writes files into `dir`, which is created with the first file. The first failure calls `on_failure`
    /// with the directory.
    pub fn new(
        dir: PathBuf,
        redactor: Arc<Redactor>,
        on_failure: impl Fn(&Path, &io::Error) + Send + Sync + 'static,
    ) -> Self {
        let (number, failed) = (AtomicU32::new(0), AtomicBool::new(false));
        let on_failure = Box::new(on_failure);
        Self { inner: Arc::new(Inner { dir, redactor, on_failure, number, failed }) }
    }

    fn write_file(&self, what: &str, text: &str) -> io::Result<()> {
        let inner = &self.inner;
        make_private_dir(&inner.dir)?;
        let text = inner.redactor.redact(text);
        // Files of an earlier conversation are kept.
        loop {
            let number = inner.number.fetch_add(1, Ordering::AcqRel) + 1;
            let path = inner.dir.join(format!("{number:04}-{what}.txt"));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
                Ok(mut file) => return file.write_all(text.as_bytes()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn write_json(&self, what: &str, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.write(what, &text),
            Err(error) => self.write(what, &format!("it cannot be written: {error}")),
        }
    }
}

impl fmt::Debug for DumpFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DumpFiles").field("dir", &self.inner.dir).finish_non_exhaustive()
    }
}

impl DebugDump for DumpFiles {
    fn write(&self, what: &str, text: &str) {
        if let Err(error) = self.write_file(what, text)
            && !self.inner.failed.swap(true, Ordering::AcqRel)
        {
            (self.inner.on_failure)(&self.inner.dir, &error);
        }
    }
}

impl Plugin for DumpFiles {
    fn name(&self) -> &'static str {
        "debug-dump"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide_service::<dyn DebugDump>(Arc::new(self.clone()));
        self.dump_events::<HistoryRepaired>(scope, "history-repaired");
        self.dump_events::<ContextCompaction>(scope, "compaction");
        self.dump_events::<ContextReduced>(scope, "left-out");
        self.dump_events::<PrefixBreak>(scope, "prefix-break");
        let dump = self.clone();
        // Runs late, to see the request after all other handlers.
        let late = HookOptions { stage: Stage::Late, reach: Some(Reach::Descendants), time_limit: None };
        scope.on_sync_at(late, move |event: &ProviderPayload, _: &Cx| {
            dump.write_json("request", &event.payload);
            None
        });
        Ok(())
    }
}

impl DumpFiles {
    fn dump_events<E: Event<Reply = ()> + Serialize>(&self, scope: &Scope, what: &'static str) {
        let dump = self.clone();
        let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
        scope.on_sync_at(everywhere, move |event: &E, _: &Cx| dump.write_json(what, event));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use zk_core::events::{CompactionStage, CompactionTrigger, PrefixCause, PrefixPart};
    use zk_core::kernel::Bus;
    use zk_core::model::TurnId;
    use zk_core::model::wire::Repair;

    use super::*;

    const SECRET: &str = "sk-ant-0123456789abcdefghij";

    #[tokio::test]
    async fn each_thing_that_happens_is_in_a_private_file_of_its_name_without_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let dumps = dir.path().join("dumps");
        let redactor = Redactor::new();
        redactor.learn(SECRET);
        let files = DumpFiles::new(dumps.clone(), Arc::new(redactor), |_, error| panic!("{error}"));
        let bus = Bus::new();
        bus.install(&files).unwrap();
        let (cx, turn_id) = (bus.cx(), TurnId::from("t"));
        let call_id = format!("call-{SECRET}").into();
        let repairs = vec![Repair::OrphanResult { call_id }];
        cx.emit(HistoryRepaired { turn_id: turn_id.clone(), repairs }).await.unwrap();
        let compaction = ContextCompaction {
            turn_id: turn_id.clone(),
            trigger: CompactionTrigger::Hard,
            stage: CompactionStage::Stopped,
            before: 9000,
            after: 8999,
            strategies: vec!["summary".to_owned()],
            note: Some(format!("it keeps {SECRET}")),
        };
        cx.emit(compaction).await.unwrap();
        let strategy = "rolling".to_owned();
        let reduced = ContextReduced {
            turn_id: turn_id.clone(),
            strategy,
            results: 1,
            messages: 2,
            before: 3,
            after: 1,
        };
        cx.emit(reduced).await.unwrap();
        let part = PrefixPart::Tools { first: "read_file".to_owned(), source: None };
        let cause = PrefixCause::Unexplained;
        cx.emit(PrefixBreak { turn_id, part, cause, lost_tokens: 1200, cost: None }).await.unwrap();
        bus.service::<dyn DebugDump>().unwrap().write("subgoal-registry", &format!("1 active: use {SECRET}"));

        let read = |entry: io::Result<std::fs::DirEntry>| {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            let text = std::fs::read_to_string(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), text)
        };
        let written: BTreeMap<String, String> = std::fs::read_dir(&dumps).unwrap().map(read).collect();
        for ((name, text), (expected, part)) in written.iter().zip([
            ("0001-history-repaired.txt", "orphan_result"),
            ("0002-compaction.txt", "\"after\": 8999"),
            ("0003-left-out.txt", "rolling"),
            ("0004-prefix-break.txt", "read_file"),
            ("0005-subgoal-registry.txt", "1 active"),
        ]) {
            assert_eq!(name, expected);
            assert!(text.contains(part) && !text.contains(SECRET), "{name}: {text}");
        }
        assert_eq!(written.len(), 5);
    }
}

//! The audit record: what was asked of tools, who decided, and how it ended, in `audit/DATE.jsonl` of the state directory.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use zk_core::events::{PermissionDecided, SessionStart, ToolEnd};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Plugin, Reach, Scope};
use zk_core::model::{Display, SessionId};
use zk_core::service::Redactor;

/// The most of one text that a record has, in bytes.
const TEXT: usize = 4096;

/// Writes one line for each decision about a call before the call runs, and one for its end before its result is given
/// back. Where a line cannot be written the call is refused, or the run ends.
///
/// | field | value |
/// |---|---|
/// | `time` | UTC, `2026-11-22T11:30:00.000Z` |
/// | `record` | `decided` or `ended` |
/// | `session`, `run`, `agent`, `call` | ids; no session where none is kept |
/// | `tool` | its canonical name |
/// | `context` | of a decision: `process`, `sandbox`, `docker:IMAGE`, `remote:ADDRESS`, or `outside` for a command let out of the sandbox |
/// | `cwd`, `args`, `effects` | of a decision; long texts are cut, and say how long they were |
/// | `verdict`, `by`, `reasons` | `allow` or `deny`; `policy`, `earlier_answer`, `person` or `nobody`; what spoke, rules included |
/// | `exit`, `is_error`, `elapsed_ms` | of an end; `exit` of commands only |
#[derive(Clone, Debug)]
pub(crate) struct Audit(Arc<Log>);

#[derive(Debug)]
struct Log {
    dir: PathBuf,
    context: String,
    redactor: Arc<Redactor>,
    session: Mutex<Option<SessionId>>,
    file: Mutex<Option<(String, File)>>,
}

impl Audit {
    /// A record in `dir` of calls whose commands usually run in `context`.
    pub(crate) fn new(dir: PathBuf, context: String, redactor: Arc<Redactor>) -> Self {
        Self(Arc::new(Log { dir, context, redactor, session: Mutex::default(), file: Mutex::default() }))
    }
}

impl Plugin for Audit {
    fn name(&self) -> &'static str {
        "audit"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let log = self.0.clone();
        scope.on_sync(move |start: &SessionStart, _: &Cx| {
            *log.session.lock().unwrap_or_else(PoisonError::into_inner) = start.session_id.clone();
        });
        let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
        scope.handle_at::<PermissionDecided, _>(everywhere, self.0.clone());
        scope.handle_at::<ToolEnd, _>(everywhere, self.0.clone());
        Ok(())
    }
}

impl Handler<PermissionDecided> for Log {
    async fn call(&self, ev: &PermissionDecided, cx: &Cx) -> Answer<PermissionDecided> {
        let context = if ev.effects.leaves_context() { "outside" } else { &*self.context };
        let record = json!({
            "time": now(),
            "record": "decided",
            "session": self.session(),
            "run": cx.run_id(),
            "agent": &*cx.origin().agent,
            "call": ev.call.call_id,
            "tool": ev.call.name,
            "context": context,
            "cwd": ev.cwd,
            "args": ev.args,
            "effects": ev.effects,
            "verdict": if ev.allowed { "allow" } else { "deny" },
            "by": ev.by,
            "reasons": ev.reasons,
        });
        // What changes nothing is not worth a wait for the disk.
        self.write(record, !ev.effects.is_read_only())?;
        Ok(None)
    }
}

impl Handler<ToolEnd> for Log {
    async fn call(&self, ev: &ToolEnd, cx: &Cx) -> Answer<ToolEnd> {
        let exit = match &ev.display {
            Some(Display::Command { exit, .. }) => Some(exit.to_string()),
            Some(
                Display::Line { .. } | Display::Lines { .. } | Display::Diff { .. } | Display::Table { .. },
            )
            | None => None,
        };
        let record = json!({
            "time": now(),
            "record": "ended",
            "session": self.session(),
            "run": cx.run_id(),
            "agent": &*cx.origin().agent,
            "call": ev.call.call_id,
            "tool": ev.call.name,
            "exit": exit,
            "is_error": ev.result.is_error,
            "elapsed_ms": ev.elapsed_ms,
        });
        self.write(record, !ev.read_only)?;
        Ok(None)
    }
}

impl Log {
    fn session(&self) -> Option<SessionId> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Appends a line, and waits until the disk has it if it is to be `durable`.
    fn write(&self, mut record: Value, durable: bool) -> Result<(), BoxError> {
        self.redactor.redact_value(&mut record);
        cut(&mut record);
        let mut line = record.to_string();
        line.push('\n');
        let day = now().chars().take(10).collect::<String>();
        let path = self.dir.join(format!("{day}.jsonl"));
        let mut open = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = (|| {
            if open.as_ref().is_none_or(|(of, _)| *of != day) {
                *open = Some((day, self.open(&path)?));
            }
            let Some((_, file)) = open.as_mut() else { return Ok(()) };
            // One write: lines of two processes do not mix.
            file.write_all(line.as_bytes())?;
            if durable { file.sync_data() } else { Ok(()) }
        })();
        written.map_err(|error: std::io::Error| {
            *open = None;
            let path = path.display();
            let next = "nothing runs unrecorded, and permissions.audit = false keeps none";
            format!("cannot write the audit record {path}: {error}; {next}").into()
        })
    }

    fn open(&self, path: &std::path::Path) -> std::io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let no_links = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let file =
            OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(no_links).open(path)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
    }
}

/// Cuts long texts, and says how long they were.
fn cut(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > TEXT => {
            let whole = text.len();
            let mut end = TEXT;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str(&format!("… ({whole} bytes)"));
        }
        Value::Array(values) => values.iter_mut().for_each(cut),
        Value::Object(map) => map.values_mut().for_each(cut),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (date, second) = (zk_permission::date_of_day(seconds / 86_400), seconds % 86_400);
    format!("{date}T{:02}:{:02}:{:02}.{millis:03}Z", second / 3600, second / 60 % 60, second % 60)
}

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};
use serde_json::Value;
use zk_core::events::{CallRef, DecidedBy, PermissionDecided, SessionStart, ToolEnd};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Plugin, Reach, Scope};
use zk_core::model::{CallId, Display, SessionId};
use zk_core::service::{Redactor, StateFileError, StateFiles};

use crate::plugin::date_of_day;

/// Maximum length of a text in a record, in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// Plugin that records each decision about a tool call, and the call's end, in `DATE.jsonl` of a directory.
///
/// A decision is written before the call runs, and the end before the call's result is returned. If a line
/// cannot be written, the call is refused, or the run ends.
///
/// | field | value |
/// |---|---|
/// | `time` | UTC, `2026-11-22T11:30:00.000Z` |
/// | `record` | `decided` or `ended` |
/// | `session`, `run`, `agent`, `call` | ids; `session` is absent if the conversation is not saved |
/// | `tool` | canonical name of the tool |
/// | `context` | of a decision: `process`, `sandbox`, `docker:IMAGE`, `remote:ADDRESS`, or `outside` for a command that leaves the sandbox |
/// | `cwd`, `args`, `effects` | of a decision; long texts are cut, and give their full length |
/// | `verdict`, `by`, `reasons` | `allow` or `deny`; `policy`, `earlier_answer`, `person` or `nobody`; reasons, with the rules that applied |
/// | `exit`, `is_error`, `elapsed_ms` | of an end; `exit` only for commands |
#[derive(Clone, Debug)]
pub struct Audit(Arc<Log>);

#[derive(Debug)]
struct Log {
    dir: PathBuf,
    context: String,
    redactor: Arc<Redactor>,
    session: Mutex<Option<SessionId>>,
    files: Arc<dyn StateFiles>,
}

impl Audit {
    /// Creates a recorder that writes to `dir` through `files`. `context` is the usual execution context of
    /// commands.
    #[must_use]
    pub fn new(dir: PathBuf, context: String, redactor: Arc<Redactor>, files: Arc<dyn StateFiles>) -> Self {
        Self(Arc::new(Log { dir, context, redactor, session: Mutex::default(), files }))
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

/// Line of the audit file. All texts are redacted and shortened, except ids and constants.
#[derive(Serialize)]
struct Record<'a> {
    time: &'a str,
    record: &'static str,
    session: Option<SessionId>,
    run: &'a str,
    agent: &'a str,
    call: &'a CallId,
    tool: Short<'a>,
    #[serde(flatten)]
    of: Of<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Of<'a> {
    Decided {
        context: Short<'a>,
        cwd: Short<'a>,
        args: Cut<'a>,
        effects: Cut<'a>,
        verdict: &'static str,
        by: DecidedBy,
        reasons: Vec<Short<'a>>,
    },
    Ended {
        exit: Option<String>,
        is_error: bool,
        elapsed_ms: u64,
    },
}

impl Handler<PermissionDecided> for Log {
    async fn call(&self, ev: &PermissionDecided, cx: &Cx) -> Answer<PermissionDecided> {
        let context = if ev.effects.leaves_context() { "outside" } else { &*self.context };
        let of = Of::Decided {
            context: self.redact_text(context),
            cwd: Short(Cow::Owned(self.redact_text(&ev.cwd.to_string_lossy()).0.into_owned())),
            args: self.redact_value(Cow::Borrowed(&ev.args)),
            effects: self.redact_value(Cow::Owned(serde_json::to_value(&ev.effects)?)),
            verdict: if ev.allowed { "allow" } else { "deny" },
            by: ev.by,
            reasons: ev.reasons.iter().map(|reason| self.redact_text(reason)).collect(),
        };
        self.write("decided", &ev.call, of, cx)?;
        Ok(None)
    }
}

impl Handler<ToolEnd> for Log {
    async fn call(&self, ev: &ToolEnd, cx: &Cx) -> Answer<ToolEnd> {
        let exit = match &ev.display {
            Some(Display::Command { exit, .. }) => Some(exit.to_string()),
            Some(
                Display::Line { .. }
                | Display::Lines { .. }
                | Display::Diff { .. }
                | Display::Table { .. }
                | Display::Markdown { .. }
                | Display::Checklist { .. },
            )
            | None => None,
        };
        let of = Of::Ended { exit, is_error: ev.result.is_error, elapsed_ms: ev.elapsed_ms };
        self.write("ended", &ev.call, of, cx)?;
        Ok(None)
    }
}

impl Log {
    fn redact_text<'a>(&self, text: &'a str) -> Short<'a> {
        Short(self.redactor.redact(text))
    }

    fn redact_value<'a>(&self, mut value: Cow<'a, Value>) -> Cut<'a> {
        if self.redactor.has_candidate_in(&value) {
            self.redactor.redact_value(value.to_mut());
        }
        Cut(value)
    }

    /// Appends a line without syncing: calls with effects are synced in their session, so a power cut can
    /// lose only the last lines of this record.
    fn write(&self, record: &'static str, call: &CallRef, of: Of<'_>, cx: &Cx) -> Result<(), BoxError> {
        let time = now();
        let day = time.get(..10).unwrap_or_default();
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let origin = cx.origin();
        let mut line = serde_json::to_vec(&Record {
            time: &time,
            record,
            session,
            run: cx.run_id(),
            agent: &origin.agent,
            call: &call.call_id,
            tool: self.redact_text(&call.name),
            of,
        })?;
        line.push(b'\n');
        let path = self.dir.join(format!("{day}.jsonl"));
        // A single write, so that lines of two processes do not mix.
        self.files.append(&path, &line).map(drop).map_err(|error: StateFileError| {
            let (path, error) = (path.display(), error.into_io());
            let next = "nothing runs unrecorded, and permissions.audit = false keeps none";
            format!("cannot write the audit record {path}: {error}; {next}").into()
        })
    }
}

/// Text that is serialised shortened, with its full length, if it is too long.
struct Short<'a>(Cow<'a, str>);

impl Serialize for Short<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.len() <= MAX_TEXT_BYTES {
            return serializer.serialize_str(&self.0);
        }
        let mut end = MAX_TEXT_BYTES;
        while !self.0.is_char_boundary(end) {
            end -= 1;
        }
        let begin = self.0.get(..end).unwrap_or_default();
        serializer.collect_str(&format_args!("{begin}… ({} bytes)", self.0.len()))
    }
}

/// JSON value whose long texts are serialised shortened.
struct Cut<'a>(Cow<'a, Value>);

impl Serialize for Cut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cut = |value| Cut(Cow::Borrowed(value));
        match &*self.0 {
            Value::String(text) => Short(Cow::Borrowed(text)).serialize(serializer),
            Value::Array(values) => serializer.collect_seq(values.iter().map(cut)),
            Value::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(key, value)| (key, cut(value))))
            }
            value @ (Value::Null | Value::Bool(_) | Value::Number(_)) => value.serialize(serializer),
        }
    }
}

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (date, second) = (date_of_day(seconds / 86_400), seconds % 86_400);
    format!("{date}T{:02}:{:02}:{:02}.{millis:03}Z", second / 3600, second / 60 % 60, second % 60)
}

//! Requests of an extension.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use zk_core::kernel::{Cx, Source};
use zk_core::model::Message;
use zk_core::service::{
    Delivery, MessageDelivery, NewEntry, Question, Questions, RunControl, Selection, SessionLog, SideCall,
    Submitted, UiAnswer, visible_line, visible_lines,
};

use super::host::Host;
use crate::protocol::{
    AppendEntry, Appended, AskPerson, AskedForm, Deliver, Delivered, EntriesQuery, ErrorObject, OwnEntry,
    PersonAnswer, Registered, Registrations, RemovedRegistrations, RunMessage, RunOrder, SideQuestion,
    SideReply,
};

type Served = Result<Value, ErrorObject>;

/// Default time for a person to answer a question of the extension.
const USUAL_PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time for a person to answer a question.
const MAX_PATIENCE: Duration = Duration::from_secs(3600);
/// Most characters of a question.
const MAX_QUESTION_CHARS: usize = 4_000;
/// Most choices of a question.
const MAX_OPTIONS: usize = 50;
/// Longest entry in a session, in bytes.
const MAX_ENTRY_BYTES: usize = 1 << 20;

fn failed_error(message: impl Into<String>) -> ErrorObject {
    ErrorObject { code: -32000, message: message.into() }
}

fn to_result(value: impl Serialize) -> Served {
    serde_json::to_value(value).map_err(|error| failed_error(error.to_string()))
}

pub(super) async fn register(host: &Host, registrations: Registrations) -> Served {
    let left_out = host.registry.apply(&host.shared, &host.bus, registrations, false).await;
    to_result(Registered { left_out })
}

pub(super) async fn unregister(host: &Host, removed: RemovedRegistrations) -> Served {
    host.registry.unregister(removed).await;
    Ok(Value::Null)
}

pub(super) async fn ask(host: &Host, asked: AskPerson) -> Served {
    let Some(questions) = host.bus.service::<Questions>() else { return to_result(PersonAnswer::Absent) };
    let AskPerson { form, text, options, accepts_words, preview, seconds } = asked;
    if text.chars().count() > MAX_QUESTION_CHARS || options.len() > MAX_OPTIONS {
        return Err(failed_error(format!(
            "a question has at most {MAX_QUESTION_CHARS} characters and {MAX_OPTIONS} choices"
        )));
    }
    // The text must not look like a question of zk itself.
    let text = visible_lines(&format!("extension `{}` asks: {text}", host.shared.name())).join("\n");
    let question = match form {
        AskedForm::Confirm => Question::Confirm { text },
        AskedForm::Input => Question::Input { text },
        AskedForm::Select if options.is_empty() => {
            return Err(failed_error("a question of the form `select` has `options`"));
        }
        AskedForm::Select => {
            let mut select =
                Selection::new(text, options.iter().map(|option| visible_line(option)).collect());
            select.accepts_words = accepts_words;
            select.preview = preview;
            select.into()
        }
    };
    let patience = seconds.map_or(USUAL_PATIENCE, Duration::from_secs).min(MAX_PATIENCE);
    let cx = host.shared.run_cx(None).unwrap_or_else(|| host.bus.cx());
    let _open = host.link.open_question();
    to_result(match questions.ask(question, &cx, patience).await {
        UiAnswer::Once => PersonAnswer::Yes,
        UiAnswer::Choice { index } => PersonAnswer::Choice { index },
        UiAnswer::Text { text } => PersonAnswer::Text { text },
        UiAnswer::No { .. } => PersonAnswer::No,
        UiAnswer::Absent
        | UiAnswer::Session
        | UiAnswer::Always
        | UiAnswer::WiderSession
        | UiAnswer::WiderAlways
        | UiAnswer::MoreSession { .. }
        | UiAnswer::MoreAlways { .. }
        | UiAnswer::Contained => PersonAnswer::Absent,
    })
}

fn session_log(host: &Host) -> Result<Arc<dyn SessionLog>, ErrorObject> {
    let cx = host.shared.run_cx(None).unwrap_or_else(|| host.bus.cx());
    cx.service::<dyn SessionLog>()
        .ok_or_else(|| failed_error("this conversation is not stored, so it has no entries"))
}

pub(super) async fn append(host: &Host, entry: AppendEntry) -> Served {
    let AppendEntry { kind, version, data, audience } = entry;
    if data.to_string().len() > MAX_ENTRY_BYTES {
        return Err(failed_error(format!("an entry has at most {MAX_ENTRY_BYTES} bytes")));
    }
    let scope = host.bus.scope(host.shared.config.source());
    let entry = NewEntry { kind, version, data, audience };
    let appended = session_log(host)?.append(&scope, entry).await;
    scope.close().await;
    to_result(Appended { id: appended.map_err(|error| failed_error(error.to_string()))?.to_string() })
}

pub(super) async fn entries(host: &Host, query: EntriesQuery) -> Served {
    let scope = host.bus.scope(host.shared.config.source());
    let entries = session_log(host)?.entries(&scope).await;
    scope.close().await;
    let entries = entries.map_err(|error| failed_error(error.to_string()))?.into_iter();
    let wanted = entries.filter(|entry| query.kind.as_ref().is_none_or(|kind| entry.kind == *kind));
    let own = wanted.map(|entry| {
        let data = entry.data.read().unwrap_or_default();
        OwnEntry { kind: entry.kind, version: entry.version, data }
    });
    to_result(own.collect::<Vec<_>>())
}

/// Returns the control of the run that a request is about.
fn run_control(host: &Host, run: Option<&str>) -> Result<(Cx, Arc<dyn RunControl>), ErrorObject> {
    let cx = host.shared.run_cx(run).ok_or_else(|| {
        failed_error(
            "no such run is waiting for this extension; do this while it works on a request of the run",
        )
    })?;
    let control = cx.service::<dyn RunControl>().ok_or_else(|| failed_error("there is no run here"))?;
    Ok((cx, control))
}

pub(super) async fn side_call(host: &Host, question: SideQuestion) -> Served {
    let SideQuestion { run, purpose, prompt, system, max_tokens } = question;
    let (_, control) = run_control(host, run.as_deref())?;
    let source = Source::new(host.shared.config.source());
    let call = SideCall { system, max_tokens, ..SideCall::new(&source, visible_line(&purpose), prompt) };
    let answer = control.side_call(call).await.map_err(|error| failed_error(error.to_string()))?;
    to_result(SideReply { text: answer.text })
}

fn injected(host: &Host, text: String) -> Message {
    Message::injected(text, host.shared.config.source())
}

pub(super) fn message(host: &Host, method: &str, message: RunMessage) -> Served {
    let RunMessage { run, text } = message;
    let (_, control) = run_control(host, run.as_deref())?;
    let message = injected(host, text);
    match method {
        "run/steer" => control.steer(message),
        "run/follow_up" => control.follow_up(message),
        _ => {
            control.next_prompt(message);
            Ok(())
        }
    }
    .map_err(|error| failed_error(error.to_string()))?;
    Ok(Value::Null)
}

pub(super) fn abort(host: &Host, order: &RunOrder) -> Served {
    let (_, control) = run_control(host, order.run.as_deref())?;
    control.abort(&visible_line(&format!("extension `{}`: {}", host.shared.name(), order.reason)));
    Ok(Value::Null)
}

pub(super) async fn deliver(host: &Host, message: Deliver) -> Served {
    let Deliver { text, when } = message;
    if host.shared.config.origin.is_project && when != Delivery::NextPrompt {
        return Err(failed_error(
            "an extension of a project cannot begin a run; deliver it with `next_prompt`",
        ));
    }
    let delivery = host.bus.service::<dyn MessageDelivery>();
    let delivery = delivery.ok_or_else(|| failed_error("there is no conversation that takes messages"))?;
    if !host.delivered.allows() {
        return Err(failed_error(
            "too many messages were delivered within an hour; wait before the next one",
        ));
    }
    let delivered = delivery.deliver(injected(host, text), when).await;
    to_result(match delivered.map_err(|error| failed_error(error.to_string()))? {
        Submitted::Started(run) => Delivered::Started { run: run.to_string() },
        Submitted::Queued(run) => Delivered::Queued { run: run.to_string() },
        Submitted::Waiting => Delivered::Waiting,
    })
}

use zk_core::service::{EntryKind, Redactor};

/// Removes secrets from an entry, as a [`Recorder`](crate::Recorder) does before it stores one.
///
/// ```
/// use zk_core::model::Message;
/// use zk_core::service::{EntryKind, Redactor};
/// use zk_session::redact_entry;
///
/// let message = Message::user_text("Look at https://me:hunter2@host/v1.".to_owned()).shared();
/// let entry = redact_entry(EntryKind::Message { message, usage: None }, &Redactor::new());
/// let EntryKind::Message { message, .. } = entry else { unreachable!() };
/// assert_eq!(message.text(), "Look at https://me:[redacted]@host/v1.");
/// ```
#[must_use]
pub fn redact_entry(mut entry: EntryKind, redactor: &Redactor) -> EntryKind {
    match &mut entry {
        EntryKind::Message { message, .. } | EntryKind::OpenTurn { message, .. } => {
            if let Some(clean) = redactor.redact_message(message) {
                *message = clean.shared();
            }
        }
        EntryKind::CallBegin { args, summary, .. } => {
            redactor.redact_value(args);
            redact_line(summary, redactor);
        }
        EntryKind::CallEnd { result, summary, display, details, .. } => {
            redact_line(summary, redactor);
            if let Some(clean) = redactor.redact_content(&result.content) {
                result.content = clean;
            }
            display.iter_mut().for_each(|display| _ = redactor.redact_display(display));
            details.iter_mut().for_each(|details| _ = redactor.redact_value(details));
        }
        EntryKind::CallData { summary, display, details, .. } => {
            redact_line(summary, redactor);
            display.iter_mut().for_each(|display| _ = redactor.redact_display(display));
            details.iter_mut().for_each(|details| _ = redactor.redact_value(details));
        }
        EntryKind::Custom(custom) => {
            let mut data = custom.data.value();
            if redactor.redact_value(&mut data) {
                custom.data = data.into();
            }
        }
        EntryKind::Model { .. }
        | EntryKind::Thinking { .. }
        | EntryKind::Usage { .. }
        | EntryKind::RunStart { .. }
        | EntryKind::RunEnd { .. }
        | EntryKind::Leaf { .. } => {}
        EntryKind::Label { label, .. } => redact_line(label, redactor),
    }
    entry
}

fn redact_line(line: &mut Option<String>, redactor: &Redactor) {
    if let Some(line) = line {
        *line = redactor.redact(line).into_owned();
    }
}

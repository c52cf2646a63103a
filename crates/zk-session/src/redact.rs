use zk_core::service::{EntryKind, Redactor};

/// The entry without secrets.
pub(crate) fn redact_entry(mut entry: EntryKind, redactor: &Redactor) -> EntryKind {
    match &mut entry {
        EntryKind::Message { message, .. } | EntryKind::OpenTurn { message, .. } => {
            if let Some(clean) = redactor.redact_message(message) {
                *message = clean.shared();
            }
        }
        EntryKind::CallBegin { args, .. } => {
            redactor.redact_value(args);
        }
        EntryKind::CallEnd { result, display, details, .. } => {
            if let Some(clean) = redactor.redact_content(&result.content) {
                result.content = clean;
            }
            display.iter_mut().for_each(|display| _ = redactor.redact_display(display));
            details.iter_mut().for_each(|details| _ = redactor.redact_value(details));
        }
        EntryKind::CallData { display, details, .. } => {
            display.iter_mut().for_each(|display| _ = redactor.redact_display(display));
            details.iter_mut().for_each(|details| _ = redactor.redact_value(details));
        }
        EntryKind::Custom(custom) => {
            redactor.redact_value(&mut custom.data);
        }
        EntryKind::Model { .. }
        | EntryKind::Thinking { .. }
        | EntryKind::Usage { .. }
        | EntryKind::RunStart { .. }
        | EntryKind::RunEnd { .. } => {}
    }
    entry
}

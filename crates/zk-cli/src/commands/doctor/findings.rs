/// Result of one check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    Fine,
    Warning,
    Failure,
}

pub(super) struct Finding {
    pub(super) health: Health,
    pub(super) text: String,
}

pub(super) fn fine(text: impl Into<String>) -> Finding {
    Finding { health: Health::Fine, text: text.into() }
}

pub(super) fn warning(text: impl Into<String>) -> Finding {
    Finding { health: Health::Warning, text: text.into() }
}

pub(super) fn failure(text: impl Into<String>) -> Finding {
    Finding { health: Health::Failure, text: text.into() }
}

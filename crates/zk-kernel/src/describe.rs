use serde::Serialize;

use super::{Source, Stage};

/// One thing registered with a bus.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Registration {
    /// Kind of the registration.
    pub kind: RegistrationKind,
    /// The event a handler is for, or the name of an item.
    pub name: String,
    /// Plugin or scope that registered it.
    pub source: Source,
    /// A handler's stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Whether it also receives the events of descendants: the reach in effect, asked for or the event's own.
    pub descendants: bool,
    /// `file:line:column` of the registration.
    pub location: String,
}

/// The kinds of [`Registration`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RegistrationKind {
    /// Sees every event.
    Observer,
    /// Answers one kind of event.
    Handler,
    /// Denies in place of a handler that a reload removed.
    Tombstone,
    /// A registry item; the field is the Rust type of its kind.
    Item(&'static str),
    /// A decorator of registry items.
    Decorator(&'static str),
    /// A service.
    Service(&'static str),
    /// Is notified of changes of registry items.
    Watcher(&'static str),
}

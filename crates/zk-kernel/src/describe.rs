use serde::Serialize;

use super::{Source, Stage};

/// Description of one registration on a bus.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Registration {
    /// Kind of the registration.
    pub kind: RegistrationKind,
    /// Name of the handled event or of the item.
    pub name: String,
    /// Plugin or scope that made the registration.
    pub source: Source,
    /// Stage of a handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Whether the handler also receives events of descendants, by its own reach or the event's default.
    pub descendants: bool,
    /// Source location of the registration, as `file:line:column`.
    pub location: String,
}

/// Kind of a [`Registration`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RegistrationKind {
    /// An observer of every event.
    Observer,
    /// A handler of one event.
    Handler,
    /// A tombstone, which denies in place of a gate that a reload removed.
    Tombstone,
    /// A registry item, with the Rust type of its kind.
    Item(&'static str),
    /// A decorator of registry items, with the Rust type of their kind.
    Decorator(&'static str),
    /// A service, with its Rust type.
    Service(&'static str),
    /// A watcher of registry items, with the Rust type of their kind.
    Watcher(&'static str),
}

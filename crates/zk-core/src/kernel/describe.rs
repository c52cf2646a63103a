use std::panic::Location;

use serde::Serialize;

use super::table::read;
use super::{Bus, Reach, Source, Stage};

/// One thing registered with a bus.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Registration {
    /// What kind of thing.
    pub kind: RegistrationKind,
    /// The event a handler is for, or the name of an item.
    pub name: String,
    /// Who registered it.
    pub source: Source,
    /// A handler's stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Whether it also takes part in the events of descendants.
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
    /// Hears of changes of registry items.
    Watcher(&'static str),
}

impl Bus {
    /// Everything registered with this bus (not with its ancestors), in a stable order.
    #[must_use]
    pub fn describe(&self) -> Vec<Registration> {
        let mut all = Vec::new();
        {
            let table = read(&self.inner.table);
            for entry in table.entries() {
                all.push(Registration {
                    kind: if entry.run.is_some() {
                        RegistrationKind::Handler
                    } else {
                        RegistrationKind::Tombstone
                    },
                    name: entry.event.to_owned(),
                    source: entry.source.clone(),
                    stage: Some(entry.stage),
                    descendants: entry.reach == Reach::Descendants,
                    location: place(entry.location),
                });
            }
            for observer in table.observers().iter().flat_map(|all| all.iter()) {
                all.push(Registration {
                    kind: RegistrationKind::Observer,
                    name: "*".to_owned(),
                    source: observer.source.clone(),
                    stage: None,
                    descendants: observer.reach == Reach::Descendants,
                    location: place(observer.location),
                });
            }
        }
        self.inner.items.describe(false, &mut all);
        self.inner.services.describe(true, &mut all);
        all.sort();
        all
    }
}

pub(super) fn place(location: &Location<'_>) -> String {
    location.to_string()
}

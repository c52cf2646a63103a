use serde_core::ser::{Serialize, SerializeStruct, Serializer};

use super::{Source, Stage};

/// Description of one registration on a bus.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Registration {
    /// Kind of the registration.
    pub kind: RegistrationKind,
    /// Name of the handled event or of the item.
    pub name: String,
    /// Plugin or scope that made the registration.
    pub source: Source,
    /// Stage of a handler.
    pub stage: Option<Stage>,
    /// Whether the handler also receives events of descendants, by its own reach or the event's default.
    pub descendants: bool,
    /// Source location of the registration, as `file:line:column`.
    pub location: String,
}

impl Serialize for Registration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { kind, name, source, stage, descendants, location } = self;
        let mut fields = serializer.serialize_struct("Registration", 5 + usize::from(stage.is_some()))?;
        fields.serialize_field("kind", kind)?;
        fields.serialize_field("name", name)?;
        fields.serialize_field("source", source)?;
        match stage {
            Some(stage) => fields.serialize_field("stage", stage)?,
            None => fields.skip_field("stage")?,
        }
        fields.serialize_field("descendants", descendants)?;
        fields.serialize_field("location", location)?;
        fields.end()
    }
}

/// Kind of a [`Registration`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

impl Serialize for RegistrationKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = "RegistrationKind";
        match self {
            Self::Observer => serializer.serialize_unit_variant(name, 0, "observer"),
            Self::Handler => serializer.serialize_unit_variant(name, 1, "handler"),
            Self::Tombstone => serializer.serialize_unit_variant(name, 2, "tombstone"),
            Self::Item(of) => serializer.serialize_newtype_variant(name, 3, "item", of),
            Self::Decorator(of) => serializer.serialize_newtype_variant(name, 4, "decorator", of),
            Self::Service(of) => serializer.serialize_newtype_variant(name, 5, "service", of),
            Self::Watcher(of) => serializer.serialize_newtype_variant(name, 6, "watcher", of),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::mode::Gathered;
    use crate::{OnError, Origin, Reach};

    #[test]
    fn descriptions_are_json_with_names_in_snake_case() {
        let of = |kind, stage| Registration {
            kind,
            name: "shell".to_owned(),
            source: Source::new("tools"),
            stage,
            descendants: true,
            location: "a.rs:1:2".to_owned(),
        };
        let json_of = |kind, stage| serde_json::to_value(of(kind, stage)).unwrap();
        assert_eq!(
            json_of(RegistrationKind::Handler, Some(Stage::Review)),
            json!({
                "kind": "handler", "name": "shell", "source": "tools", "stage": "review", "descendants": true,
                "location": "a.rs:1:2"
            })
        );
        assert_eq!(
            json_of(RegistrationKind::Item("dyn Tool"), None),
            json!({
                "kind": { "item": "dyn Tool" }, "name": "shell", "source": "tools", "descendants": true,
                "location": "a.rs:1:2"
            })
        );
        let origin = Origin { agent: Arc::from("main"), depth: 1 };
        let rest = serde_json::to_value((
            Gathered { from: Source::new("a"), reply: 1 },
            origin,
            [Reach::Own, Reach::Descendants],
            [OnError::Inherit, OnError::Continue, OnError::Throw],
        ));
        assert_eq!(
            rest.unwrap(),
            json!([
                { "from": "a", "reply": 1 },
                { "agent": "main", "depth": 1 },
                ["own", "descendants"],
                ["inherit", "continue", "throw"],
            ])
        );
    }
}

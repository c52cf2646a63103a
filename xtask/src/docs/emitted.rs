use crate::workspace::Text;

/// Source texts of the crates that may emit events of the catalogue.
pub(super) struct Emitters<'a>(Vec<&'a str>);

impl<'a> Emitters<'a> {
    pub(super) fn new(texts: &'a [Text]) -> Self {
        let emits = |file: &&Text| {
            let path = &file.path;
            let is_source = path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
            // Skip the directory of event definitions.
            is_source && !path.starts_with("crates/zk-core/src/events/") && !path.ends_with("tests.rs")
        };
        Self(texts.iter().filter(emits).map(|file| &*file.text).collect())
    }

    /// Whether any of them constructs an event of the type `rust`: `Type { … }`, `Type(…)` or `Type::new(…)`.
    pub(super) fn emit(&self, rust: &str) -> bool {
        self.0.iter().any(|text| {
            let mut before = None;
            text.split(rust).any(|part| {
                let begins = before.is_some_and(|before: &str| !before.ends_with(is_ident));
                before = Some(part);
                begins && [" {", "(", "::"].iter().any(|makes| part.starts_with(makes))
            })
        })
    }
}

fn is_ident(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zk_core::model::{Effect, Effects};

/// Effects of the calls of a tool, as data. A text `$NAME` stands for the argument `NAME`, which is a text or a list of
/// texts; any other text stands for itself. An empty list means that the paths or hosts are not known in advance.
///
/// ```
/// use serde_json::json;
/// use zk_extensions::protocol::DeclaredEffects;
///
/// let declared: DeclaredEffects = serde_json::from_value(json!({"reads": ["$path"]}))?;
/// let effects = declared.of(&json!({"path": "notes.md"}));
/// assert_eq!(effects, zk_core::model::Effects::reads(["notes.md"]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct DeclaredEffects {
    /// Paths that a call reads.
    pub reads: Option<Vec<String>>,
    /// Paths that a call writes, creates or removes.
    pub writes: Option<Vec<String>>,
    /// Program and arguments that a call runs; one text is a command line for the shell.
    pub executes: Option<Vec<String>>,
    /// Hosts that a call connects to, as `host` or `host:port`.
    pub network: Option<Vec<String>>,
}

impl DeclaredEffects {
    /// Returns the effects of a call with these arguments.
    #[must_use]
    pub fn of(&self, args: &Value) -> Effects {
        let texts = |declared: &Vec<String>| -> Vec<String> {
            declared.iter().flat_map(|text| substituted(text, args)).collect()
        };
        let paths = |declared: &Vec<String>| texts(declared).into_iter().map(PathBuf::from).collect();
        let mut list = Vec::new();
        list.extend(self.reads.as_ref().map(|reads| Effect::Reads { paths: paths(reads) }));
        list.extend(self.writes.as_ref().map(|writes| Effect::Writes { paths: paths(writes) }));
        list.extend(self.executes.as_ref().map(|executes| {
            let mut words = texts(executes);
            match (executes.len(), words.len()) {
                (1, 1) => Effect::Executes { command: words.pop(), argv: Vec::new() },
                (_, _) => Effect::Executes { command: None, argv: words },
            }
        }));
        list.extend(self.network.as_ref().map(|hosts| Effect::Network { hosts: texts(hosts) }));
        Effects::Known { list }
    }
}

/// Text itself, or the texts of the argument that it names.
fn substituted(text: &str, args: &Value) -> Vec<String> {
    let Some(name) = text.strip_prefix('$') else { return vec![text.to_owned()] };
    match args.get(name) {
        Some(Value::String(value)) => vec![value.clone()],
        Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(_) | None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn effect_templates_take_arguments_and_a_missing_one_adds_nothing() {
        let declared = DeclaredEffects {
            reads: Some(vec!["$paths".into(), "fixed".into()]),
            writes: Some(vec!["$missing".into()]),
            executes: Some(vec!["$command".into()]),
            network: Some(vec!["docs.rs".into()]),
        };
        let effects = declared.of(&json!({"paths": ["a", "b"], "command": "make"}));
        let Effects::Known { list } = effects else { panic!("unknown") };
        assert_eq!(
            list,
            [
                Effect::Reads { paths: vec!["a".into(), "b".into(), "fixed".into()] },
                Effect::Writes { paths: vec![] },
                Effect::Executes { command: Some("make".into()), argv: vec![] },
                Effect::Network { hosts: vec!["docs.rs".into()] },
            ]
        );
        assert_eq!(DeclaredEffects::default().of(&json!({})), Effects::none());
    }
}

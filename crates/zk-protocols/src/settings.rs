use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use zk_core::model::ToolProtocol;

/// Form in which models are offered tools, in `[tools]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProtocolSettings {
    /// Protocol of every model that `protocols` does not name; without this, each model's own.
    #[schemars(with = "Option<ProtocolName>")]
    pub protocol: Option<ToolProtocol>,
    /// Protocols by model: `PROVIDER/MODEL` or a part of it with `*`, such as `llama.cpp/*`.
    #[schemars(with = "BTreeMap<String, ProtocolName>")]
    pub protocols: BTreeMap<String, ToolProtocol>,
    /// Tools whose schemas every request carries with the protocols `deferred` and `lookup`.
    #[schemars(extend("x-expected" = "a list of names, such as [\"shell\"]"))]
    pub core: Vec<String>,
    /// Whether a server that can enforce a schema has to hold inline calls to those of the tools.
    pub constrained: bool,
}

/// Names of the protocols, for the schema of the settings.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case", inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum ProtocolName {
    Api,
    Deferred,
    Lookup,
    Inline,
}

impl Default for ProtocolSettings {
    fn default() -> Self {
        let core = ["read_file", "edit", "write_file", "shell", "grep", "glob"];
        Self {
            protocol: None,
            protocols: BTreeMap::new(),
            core: core.map(str::to_owned).to_vec(),
            constrained: true,
        }
    }
}

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::output;
use crate::workspace::Workspace;

/// Folder of the schemas.
const DIR: &str = "docs/reference/schemas";

/// Programs that print schemas, each keyed by the name of its surface.
const DUMPS: [&str; 3] = ["examples/dump_schemas", "examples/dump_schema", "examples/dump_extension_schema"];

/// Schema pages for stored and printed data: one JSON Schema for each surface.
pub(super) fn pages(workspace: &Workspace, programs: &Path) -> Result<Vec<(String, String)>> {
    let mut surfaces = Map::new();
    for dump in DUMPS {
        let printed = output(workspace, &programs.join(dump), &[])?;
        surfaces.extend(
            serde_json::from_slice::<Map<String, Value>>(&printed).context("the schemas are no JSON")?,
        );
    }
    for (surface, args) in [
        ("settings", &["config", "schema"][..]),
        ("result", &["config", "schema", "--result"]),
        ("rpc", &["rpc", "--schema"]),
    ] {
        let schema = output(workspace, &programs.join("zk"), args)?;
        surfaces.insert(surface.into(), serde_json::from_slice(&schema).context("the schema is no JSON")?);
    }
    surfaces
        .into_iter()
        .map(|(surface, schema)| {
            let path = format!("{DIR}/{surface}.json");
            let known = fs::read_to_string(workspace.root().join(&path)).ok();
            let known = known.and_then(|text| serde_json::from_str(&text).ok());
            check_version(&path, known.as_ref(), &schema)?;
            Ok((path, format!("{}\n", serde_json::to_string_pretty(&schema)?)))
        })
        .collect()
}

/// Checks that a changed schema has a new version.
pub(super) fn check_version(path: &str, known: Option<&Value>, new: &Value) -> Result<()> {
    let version = new["version"].as_str().with_context(|| format!("{path} has no version"))?;
    let Some(known) = known else { return Ok(()) };
    if known["version"] == version && shape(known) != shape(new) {
        bail!(
            "{path}: the shape changed and its version is still {version}: raise the second part for what was added, \
             the first for what a reader of the old shape would miss, then run `cargo xtask docs`"
        );
    }
    Ok(())
}

/// Schema without descriptions for people.
fn shape(schema: &Value) -> Value {
    match schema {
        Value::Object(object) => {
            let fields = object.iter().filter(|(name, value)| !(*name == "description" && value.is_string()));
            Value::Object(fields.map(|(name, value)| (name.clone(), shape(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(shape).collect()),
        other => other.clone(),
    }
}

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::About;
use super::entry::{hex, sha256};
use crate::release::metadata::{Metadata, Package};

/// Property with the oldest C library that the program runs with.
const GLIBC: &str = "zk:glibc";

/// Minor version of that library which a bill of materials names, 0 for none.
pub(super) fn glibc_minor(document: &str) -> Result<u32> {
    let document: Value = serde_json::from_str(document).context("the bill of materials is no JSON")?;
    let properties = document.pointer("/metadata/component/properties").and_then(Value::as_array);
    let mut properties = properties.into_iter().flatten();
    let value = properties.find(|property| property.get("name").and_then(Value::as_str) == Some(GLIBC));
    let value = value.and_then(|property| property.get("value")?.as_str());
    Ok(value.and_then(|version| version.split_once('.')?.1.parse().ok()).unwrap_or(0))
}

/// Bill of materials in CycloneDX: the packages that the program is built of, their licences, digests and
/// dependencies. Nothing of the day or the machine is in it.
pub(super) fn text(
    root: &Path,
    metadata: &Metadata,
    packages: &[&Package],
    about: &About<'_>,
) -> Result<String> {
    let checksums = checksums(root)?;
    let edges = metadata.edges();
    let by_id = metadata.by_id();
    let is_built = |package: &Package| packages.iter().any(|other| other.id == package.id);
    let components: Vec<Value> = packages.iter().map(|package| component(package, &checksums)).collect();
    let dependencies: Vec<Value> = packages
        .iter()
        .map(|package| {
            let needed = edges.get(package.id.as_str()).into_iter().flatten();
            let mut needed: Vec<String> = needed
                .filter_map(|id| by_id.get(id))
                .filter(|needed| is_built(needed))
                .map(|needed| url(needed))
                .collect();
            needed.sort();
            json!({ "ref": url(package), "dependsOn": needed })
        })
        .collect();
    let glibc =
        about.binary.glibc.map_or_else(|| "none".to_owned(), |(major, minor)| format!("{major}.{minor}"));
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "zk",
                "name": "zk",
                "version": about.version,
                "hashes": [{ "alg": "SHA-256", "content": hex(&sha256(&about.binary.bytes)) }],
                "properties": [
                    { "name": "zk:target", "value": about.target.triple },
                    { "name": GLIBC, "value": glibc },
                ],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn component(package: &Package, checksums: &BTreeMap<(String, String), String>) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": url(package),
        "name": package.name,
        "version": package.version,
        "purl": url(package),
    });
    let Some(fields) = component.as_object_mut() else { return component };
    if let Some(text) = &package.description {
        fields.insert("description".to_owned(), json!(text.trim()));
    }
    if let Some(licence) = &package.license {
        // Some old packages write a slash, which no standard knows.
        fields.insert("licenses".to_owned(), json!([{ "expression": licence.replace('/', " OR ") }]));
    }
    if let Some(sum) = checksums.get(&(package.name.clone(), package.version.clone())) {
        fields.insert("hashes".to_owned(), json!([{ "alg": "SHA-256", "content": sum }]));
    }
    if let Some(repository) = &package.repository {
        fields.insert("externalReferences".to_owned(), json!([{ "type": "vcs", "url": repository }]));
    }
    component
}

fn url(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

/// Digests of packages by name and version, from the lock file.
fn checksums(root: &Path) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = fs::read_to_string(root.join("Cargo.lock"))?.parse()?;
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    Ok(packages
        .filter_map(|package| {
            Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?))
        })
        .collect())
}

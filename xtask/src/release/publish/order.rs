use anyhow::{Result, bail};

use crate::release::metadata::Package;

/// Packages so that each comes after those it needs; by name where none needs the other.
pub(in crate::release) fn by_need(mut waiting: Vec<&Package>) -> Result<Vec<&Package>> {
    waiting.sort_by(|a, b| a.name.cmp(&b.name));
    let mut ordered = Vec::new();
    while !waiting.is_empty() {
        let needs_none = |package: &&Package| {
            let needed = package.dependencies.iter().filter(|needed| needed.kind.as_deref() != Some("dev"));
            needed
                .into_iter()
                .all(|needed| needed.path.is_none() || waiting.iter().all(|other| other.name != needed.name))
        };
        let Some(next) = waiting.iter().position(needs_none) else {
            let names: Vec<&str> = waiting.iter().map(|package| package.name.as_str()).collect();
            bail!("these crates need each other in a circle, so none can be the first: {}", names.join(", "));
        };
        ordered.push(waiting.remove(next));
    }
    Ok(ordered)
}

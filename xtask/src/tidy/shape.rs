use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Findings;
use crate::house;
use crate::workspace::{Package, Text};

const MAX_CIRCLE_FILES: usize = 3;
const MAX_FOLDER_MODULES: usize = 15;
const MAX_STRUCT_FIELDS: usize = 20;

/// Path of the file with exceptions.
const EXCEPTIONS: &str = "xtask/house.toml";

/// Counts above the limits, which may only shrink.
#[derive(Default, Deserialize)]
struct Exceptions {
    /// Number of files in each cycle, by crate.
    circles: BTreeMap<String, Vec<usize>>,
    /// Number of modules, by folder.
    folders: BTreeMap<String, usize>,
    /// Number of fields, by file and struct.
    structs: BTreeMap<String, usize>,
}

/// Checks the shape of the crates: import cycles, modules of a folder, fields of a struct.
///
/// # Errors
/// When the file with exceptions cannot be parsed.
pub(super) fn check(packages: &[Package], texts: &[Text], findings: &mut Findings) -> Result<()> {
    let exceptions = match texts.iter().find(|text| text.path == EXCEPTIONS) {
        Some(file) => toml::from_str(&file.text).with_context(|| format!("{EXCEPTIONS} does not parse"))?,
        None => Exceptions::default(),
    };
    let shapes = house::shapes(packages, texts);
    for shape in &shapes {
        let allowed = exceptions.circles.get(&shape.name).map_or(&[][..], Vec::as_slice);
        let large: Vec<&Vec<String>> =
            shape.circles.iter().filter(|files| files.len() > MAX_CIRCLE_FILES).collect();
        for (at, files) in large.iter().enumerate() {
            let (count, most) = (files.len(), allowed.get(at).copied().unwrap_or_default());
            if count > most {
                let list = files.join(", ");
                findings.error(
                    &shape.name,
                    format_args!(
                        "{count} files import each other in a circle, {MAX_CIRCLE_FILES} is the limit: move what they \
                         share into a file below them ({list})"
                    ),
                );
            }
        }
        let sizes: Vec<usize> = large.iter().map(|files| files.len()).collect();
        if sizes != allowed
            && sizes.iter().zip(allowed).all(|(count, most)| count <= most)
            && sizes.len() <= allowed.len()
        {
            findings.error(
                EXCEPTIONS,
                format_args!(
                    "{}: its circles have {sizes:?} files now, not {allowed:?}: write that",
                    shape.name
                ),
            );
        }
    }
    let advice = "put those of one concept into a folder of their own";
    let folders = shapes.iter().flat_map(|shape| shape.folders.clone()).collect();
    check_limits(&folders, MAX_FOLDER_MODULES, "modules", &exceptions.folders, advice, findings);
    let advice = "group them into structs that each have a name";
    let structs = shapes.iter().flat_map(|shape| shape.structs.clone()).collect();
    check_limits(&structs, MAX_STRUCT_FIELDS, "fields", &exceptions.structs, advice, findings);
    Ok(())
}

/// Compares counts with their limit and its exceptions.
fn check_limits(
    counts: &BTreeMap<String, usize>,
    limit: usize,
    unit: &str,
    exceptions: &BTreeMap<String, usize>,
    advice: &str,
    findings: &mut Findings,
) {
    for (place, count) in counts.iter().filter(|(_, count)| **count > limit) {
        let most = exceptions.get(place).copied().unwrap_or(limit);
        if *count > most {
            findings.error(place, format_args!("{count} {unit}, {most} is the limit: {advice}"));
        }
    }
    for (place, most) in exceptions {
        let count = counts.get(place).copied().unwrap_or_default();
        if count < *most {
            let message =
                format_args!("{place} has {count} {unit} now, not {most}: lower or remove its line");
            findings.error(EXCEPTIONS, message);
        }
    }
}

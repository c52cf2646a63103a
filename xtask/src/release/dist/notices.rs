use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::release::metadata::Package;

/// Beginnings of the names of files that carry a licence or a notice.
const NOTICE_FILES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT"];

/// Licences of the packages that the program is built of, with each text once.
pub(super) fn text(packages: &[&Package]) -> Result<String> {
    let mut out = String::from(
        "zk is built of the packages below. Each has a licence of its own, whose text follows the list.\n\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages.iter().filter(|package| package.source.is_some()) {
        let name = format!("{} {}", package.name, package.version);
        let licence = package.license.as_deref().unwrap_or("see its text");
        writeln!(out, "{name}: {licence}")?;
        for text in texts_of(package.dir())? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    // Sorted by the first package that has the text, so that an update moves little.
    let mut texts: Vec<(Vec<String>, String)> =
        texts.into_iter().map(|(text, names)| (names, text)).collect();
    texts.sort();
    for (names, text) in texts {
        write!(out, "\n{}\n{}\n\n{text}\n", "-".repeat(72), names.join(", "))?;
    }
    Ok(out)
}

/// Texts in a package's folder, sorted by the names of their files.
fn texts_of(dir: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if NOTICE_FILES.iter().any(|begin| name.starts_with(begin)) && entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    files
        .iter()
        .map(|file| {
            let text = String::from_utf8_lossy(&fs::read(file)?).replace("\r\n", "\n");
            Ok(text.trim_end().to_owned())
        })
        .collect()
}

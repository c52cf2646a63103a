use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::release::metadata::Package;

/// Times that each package has `unsafe` in its sources, by id.
pub(super) fn counts<'a>(packages: &[&'a Package]) -> Result<BTreeMap<&'a str, usize>> {
    packages
        .iter()
        .map(|package| {
            let dir = package.dir().join("src");
            // A few have their sources elsewhere.
            let dir = if dir.is_dir() { dir } else { package.dir().to_path_buf() };
            let count = in_folder(&dir).with_context(|| format!("the sources of {}", package.name))?;
            Ok((package.id.as_str(), count))
        })
        .collect()
}

fn in_folder(dir: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            count += in_folder(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            count += in_text(&String::from_utf8_lossy(&fs::read(&path)?));
        }
    }
    Ok(count)
}

/// Words `unsafe` outside of line comments. One in a text or a block comment counts, too, which is rare.
fn in_text(text: &str) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.flat_map(|line| line.split(|c| !is_part(c))).filter(|word| *word == "unsafe").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_counts_in_code_alone() {
        let text = "#![deny(unsafe_code)]\n// unsafe\nunsafe impl A {}\nlet a = unsafe { b() }; // unsafe\nunsafe fn c() {}\n";
        assert_eq!(in_text(text), 3);
    }
}

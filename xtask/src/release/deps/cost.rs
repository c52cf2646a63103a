use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::release::metadata::Package;
use crate::run::Run;

/// Beginning of the data in the report of `cargo build --timings`.
const TIMINGS_DATA: &str = "const UNIT_DATA = ";
/// Beginnings of symbols of C, and the packages that have them.
const C_SYMBOLS: [(&str, &str); 2] = [("sqlite3", "libsqlite3_sys"), ("ring_core", "ring")];

/// Time and size of packages, as far as they were measured.
#[derive(Default)]
pub(super) struct Costs {
    seconds: Option<BTreeMap<(String, String), f64>>,
    /// By the name that the package has in code.
    bytes: Option<BTreeMap<String, usize>>,
}

#[derive(Deserialize)]
struct Unit {
    name: String,
    version: String,
    duration: f64,
}

impl Costs {
    /// Reads a report of `cargo build --timings`, and the symbols of a program that has them.
    pub(super) fn read(root: &Path, timings: Option<&Path>, binary: Option<&Path>) -> Result<Self> {
        let seconds = timings.map(|path| {
            let text = fs::read_to_string(path).with_context(|| format!("no report {}", path.display()))?;
            of_report(&text)
                .with_context(|| format!("{} is no report of `cargo build --timings`", path.display()))
        });
        let bytes = binary.map(|path| {
            let args = ["--print-size", "--demangle", &path.to_string_lossy()];
            let printed = Run::new("nm", &args, root).output().context("the symbols of the program")?;
            Ok::<_, anyhow::Error>(of_symbols(&String::from_utf8_lossy(&printed)))
        });
        Ok(Self { seconds: seconds.transpose()?, bytes: bytes.transpose()? })
    }

    pub(super) fn seconds(&self, packages: &[&Package]) -> Option<f64> {
        let seconds = self.seconds.as_ref()?;
        let of = |package: &&Package| seconds.get(&(package.name.clone(), package.version.clone()));
        Some(packages.iter().filter_map(of).sum())
    }

    pub(super) fn bytes(&self, packages: &[&Package]) -> Option<usize> {
        let bytes = self.bytes.as_ref()?;
        Some(packages.iter().filter_map(|package| bytes.get(&package.name.replace('-', "_"))).sum())
    }
}

fn of_report(text: &str) -> Result<BTreeMap<(String, String), f64>> {
    let (_, data) = text.split_once(TIMINGS_DATA).context("it has no data")?;
    let mut units = serde_json::Deserializer::from_str(data).into_iter::<Vec<Unit>>();
    let units = units.next().context("its data is empty")??;
    let mut seconds = BTreeMap::new();
    for unit in units {
        *seconds.entry((unit.name, unit.version)).or_insert(0.0) += unit.duration;
    }
    Ok(seconds)
}

/// Sizes by the crate in which the symbol begins.
fn of_symbols(text: &str) -> BTreeMap<String, usize> {
    let mut bytes = BTreeMap::new();
    for line in text.lines() {
        // Address, size, kind, name; a symbol without a size has three words.
        let mut words = line.splitn(4, ' ');
        let (Some(size), Some(name)) = (words.nth(1), words.nth(1)) else { continue };
        let Ok(size) = usize::from_str_radix(size, 16) else { continue };
        let of_c = C_SYMBOLS.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, package)| *package);
        let first = name.split(|c: char| !(c.is_alphanumeric() || c == '_')).find(|word| !word.is_empty());
        if let Some(owner) = of_c.or(first) {
            *bytes.entry(owner.to_owned()).or_insert(0) += size;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_belong_to_packages() {
        let report = "<script>\nconst UNIT_DATA = [{\"i\":0,\"name\":\"a\",\"version\":\"1.0.0\",\"duration\":1.5},\
                      {\"name\":\"a\",\"version\":\"1.0.0\",\"duration\":0.5}];\nconst MORE = 1;";
        let seconds = of_report(report).unwrap();
        assert_eq!(seconds.get(&("a".to_owned(), "1.0.0".to_owned())), Some(&2.0));
        assert!(of_report("<html>").is_err());
        let symbols = "0000 0010 T <a::B as c::D>::e\n0010 0001 t a::f\n0020 0002 t sqlite3_open\n0030 T start\n         U free\n";
        let bytes = of_symbols(symbols);
        assert_eq!((bytes.get("a"), bytes.get("libsqlite3_sys")), (Some(&17), Some(&2)));
    }
}

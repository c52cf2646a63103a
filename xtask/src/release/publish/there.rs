//! Versions that a registry has, compared with those that are here.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

use crate::release::metadata::Package;
use crate::run::Run;

/// Checksum that the registry's index has of this version. Cargo asks for it, as for any dependency: it knows the
/// registry's address, its token and the proxy.
pub(super) fn checksum(root: &Path, of: &Package, registry: Option<&str>) -> Result<String> {
    let dir = root.join("target/publish/asked");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(dir.join("src"))?;
    fs::write(dir.join("src/lib.rs"), "")?;
    let mut dependency = Table::new();
    dependency.insert("version".to_owned(), Value::String(format!("={}", of.version)));
    if let Some(registry) = registry {
        dependency.insert("registry".to_owned(), Value::String(registry.to_owned()));
    }
    let manifest = format!(
        "[package]\nname = \"asked\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies.{}]\n{}",
        of.name,
        toml::to_string(&dependency)?
    );
    fs::write(dir.join("Cargo.toml"), manifest)?;
    let why = || {
        format!(
            "the registry has {} {} and does not say which; it may be yanked. Compare it by hand, or release another version",
            of.name, of.version
        )
    };
    Run::cargo(&["generate-lockfile", "--quiet"], &dir).wait().with_context(why)?;
    let lock: Table = fs::read_to_string(dir.join("Cargo.lock"))?.parse()?;
    let packages = lock.get("package").and_then(Value::as_array).into_iter().flatten();
    let text = |package: &Value, field: &str| package.get(field)?.as_str().map(str::to_owned);
    packages
        .filter(|package| text(package, "name").as_deref() == Some(&of.name))
        .filter(|package| text(package, "version").as_deref() == Some(&of.version))
        .find_map(|package| text(package, "checksum"))
        .with_context(why)
}

/// Refuses to go on beside a package of this version that is another one.
pub(super) fn refuse_another(place: &str, there: &str, packed: &str) -> Result<()> {
    if there != packed {
        bail!(
            "{place}: the registry has another package of this version, with the checksum {there}; the one of this \
             checkout has {packed}. Nothing more is published: find out who published it, and release the next version"
        );
    }
    Ok(())
}

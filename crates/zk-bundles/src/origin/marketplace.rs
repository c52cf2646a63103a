//! Files that list bundles.

use serde_json::{Map, Value};
use zk_core::service::visible_line;

use super::Source;
use crate::bundle::is_bundle_name;
use crate::bundle::manifest::below_root;

/// Path of the file below the root of a marketplace.
pub(crate) const MARKETPLACE_FILE: &str = ".claude-plugin/marketplace.json";

/// Keys of a marketplace's entry that are not keys of a manifest.
const ENTRY_KEYS: [&str; 4] = ["source", "strict", "category", "tags"];

/// Marketplace: a list of bundles with their origins.
#[derive(Clone, Debug, PartialEq)]
pub struct Marketplace {
    /// Name of the marketplace.
    pub name: String,
    /// Entries by name.
    pub entries: Vec<MarketplaceEntry>,
    /// Entries that cannot be used, with reasons.
    pub problems: Vec<String>,
}

/// Bundle of a marketplace.
#[derive(Clone, Debug, PartialEq)]
pub struct MarketplaceEntry {
    /// Name of the bundle.
    pub name: String,
    /// Description for a person.
    pub description: Option<String>,
    /// Origin of the bundle's files.
    pub(crate) place: EntryPlace,
    /// Fields that replace a missing manifest.
    pub(crate) manifest: Map<String, Value>,
}

/// Origin of a bundle of a marketplace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EntryPlace {
    /// Directory of the marketplace itself.
    Own(String),
    /// Source outside of the marketplace, such as a repository.
    Other(Source),
}

/// Reason why a file is no marketplace.
#[derive(Debug, thiserror::Error)]
#[error("{MARKETPLACE_FILE}: {0}")]
pub struct MarketplaceError(String);

impl Marketplace {
    /// Parses a marketplace's file. Entries that cannot be used are left out, with a reason each.
    ///
    /// # Errors
    /// [`MarketplaceError`] for broken JSON, and without a name or a list of plugins.
    pub fn read(bytes: &[u8]) -> Result<Self, MarketplaceError> {
        let wrong = |why: &str| MarketplaceError(why.to_owned());
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| MarketplaceError(format!("it is no JSON: {error}")))?;
        let name = value.get("name").and_then(Value::as_str).filter(|name| is_bundle_name(name));
        let name = name.ok_or_else(|| wrong("it has no `name` of letters, digits, `-`, `_` and `.`"))?;
        let plugins = value.get("plugins").and_then(Value::as_array);
        let plugins = plugins.ok_or_else(|| wrong("it has no list `plugins`"))?;
        let mut marketplace = Self { name: name.to_owned(), entries: Vec::new(), problems: Vec::new() };
        for (at, plugin) in plugins.iter().enumerate() {
            match parse_entry(plugin) {
                Ok(entry) if marketplace.get(&entry.name).is_some() => {
                    marketplace
                        .problems
                        .push(format!("`{}` is there twice; the first one counts", entry.name));
                }
                Ok(entry) => marketplace.entries.push(entry),
                Err(why) => {
                    let name = plugin.get("name").and_then(Value::as_str).map(visible_line);
                    let name = name.unwrap_or_else(|| format!("entry {}", at + 1));
                    marketplace.problems.push(format!("{name}: {why}"));
                }
            }
        }
        Ok(marketplace)
    }

    /// Entry of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&MarketplaceEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

fn parse_entry(plugin: &Value) -> Result<MarketplaceEntry, String> {
    let fields = plugin.as_object().ok_or("it is no object")?;
    let name = fields.get("name").and_then(Value::as_str).filter(|name| is_bundle_name(name));
    let name = name.ok_or("it has no usable `name`")?.to_owned();
    let place = parse_place(fields.get("source").ok_or("it has no `source`")?)?;
    let description = fields.get("description").and_then(Value::as_str).map(str::to_owned);
    let mut manifest = fields.clone();
    manifest.retain(|key, _| !ENTRY_KEYS.contains(&key.as_str()));
    Ok(MarketplaceEntry { name, description, place, manifest })
}

fn parse_place(source: &Value) -> Result<EntryPlace, String> {
    if let Some(path) = source.as_str() {
        let below = if path == "." { Ok(String::new()) } else { below_root("source", path) };
        return below.map(EntryPlace::Own).map_err(|error| error.to_string());
    }
    let text = |key: &str| source.get(key).and_then(Value::as_str).map(str::to_owned);
    let url = match text("source").as_deref() {
        Some("url" | "git" | "git-subdir") => text("url").ok_or("its source has no `url`")?,
        Some("github") => {
            let repository = text("repo").ok_or("its source has no `repo`")?;
            format!("https://github.com/{repository}.git")
        }
        Some(other) => {
            return Err(format!("zk cannot fetch from a source of the kind `{}`", visible_line(other)));
        }
        None => return Err("its source has no kind".to_owned()),
    };
    let path = text("path").map(|path| {
        let dotted = if path.starts_with("./") { path } else { format!("./{path}") };
        below_root("path", &dotted).map_err(|error| error.to_string())
    });
    let source = Source::git(&url, path.transpose()?, text("ref"), text("sha"));
    source.map(EntryPlace::Other).map_err(|error| error.to_string())
}

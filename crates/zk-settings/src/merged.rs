use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::error::SettingsError;
use crate::former::FormerKey;
use crate::layers::{Entry, Layer, Layers, Origin, dotted};
use crate::schema::{Check, Schema};
use crate::values::LayerValues;

/// Merged settings of all layers, each value with its origin. Values are checked when their layer is added.
#[derive(Clone, Default)]
pub struct MergedSettings {
    schema: Arc<Schema>,
    layers: Layers,
    appended: Vec<Appended>,
    former: Vec<FormerKey>,
}

/// A list of one layer that adds to the lists of other layers instead of overriding them.
#[derive(Clone, Debug, PartialEq)]
pub struct Appended {
    /// Path of the key.
    pub path: Vec<String>,
    /// Layer of the list.
    pub layer: Layer,
    /// The layer's list.
    pub value: toml::Value,
}

/// Precedence of a new value over existing ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// Overrides the values of earlier layers.
    Over,
    /// Yields to the values of higher layers.
    Below,
}

impl MergedSettings {
    /// Creates settings without any values.
    #[must_use]
    pub fn new(schema: Arc<Schema>) -> Self {
        Self { schema, ..Self::default() }
    }

    /// Returns the schema that values are checked against.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Sets the values of a layer.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn give(
        &mut self,
        layer: Layer,
        values: LayerValues,
        warnings: &mut Vec<String>,
    ) -> Result<(), SettingsError> {
        for (key, from, value) in values.0 {
            let key = key.split('.').map(str::to_owned).collect();
            self.set(key, value, &Origin { layer, place: from }, warnings)?;
        }
        Ok(())
    }

    /// Sets a value, overriding those of earlier layers. A former key sets the one that is in its place, unless the
    /// same file sets that, too.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn set(
        &mut self,
        key: Vec<String>,
        value: toml::Value,
        origin: &Origin,
        warnings: &mut Vec<String>,
    ) -> Result<(), SettingsError> {
        let Some(present) = self.schema.present_path(&key) else {
            return self.set_present(key, value, origin, warnings);
        };
        let former = FormerKey { former: key, present: present.clone(), place: origin.place.clone() };
        warnings.push(format!(
            "{}: {}; `zk doctor --fix` renames it in your own settings",
            origin.place,
            former.describe()
        ));
        self.former.push(former);
        match self.layers.at(&present) {
            Some(set) if set.origin == *origin => Ok(()),
            Some(_) | None => self.set_present(present, value, origin, warnings),
        }
    }

    fn set_present(
        &mut self,
        key: Vec<String>,
        value: toml::Value,
        origin: &Origin,
        warnings: &mut Vec<String>,
    ) -> Result<(), SettingsError> {
        let told = |what: String| format!("{}: {what}", origin.place);
        match self.schema.check(&key, &value, origin.layer) {
            Check::Valid => {}
            Check::Warn(what) => warnings.push(told(what)),
            Check::Ignored(what) => {
                warnings.push(told(what));
                return Ok(());
            }
            Check::Invalid(what) => return Err(SettingsError(told(what))),
        }
        // As a leaf, an empty table would replace the values of lower layers.
        if self.schema.is_empty_table(&key, &value) {
            return Ok(());
        }
        if let Some(old) = self.layers.at(&key)
            && old.origin.layer == Layer::CommandLine
            && origin.layer == Layer::Managed
            && old.value != value
        {
            warnings.push(told(format!("this file overrules {}", old.origin.place)));
        }
        self.append(&key, &value, origin.layer);
        let is_credential = self.schema.is_credential(&key);
        self.layers.set(key, value, origin.clone(), is_credential);
        Ok(())
    }

    /// Sets a value, unless a higher layer sets the same key.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn set_below(
        &mut self,
        key: Vec<String>,
        value: toml::Value,
        origin: &Origin,
        warnings: &mut Vec<String>,
    ) -> Result<(), SettingsError> {
        let present = self.schema.present_path(&key);
        let present = present.as_ref().unwrap_or(&key);
        if self.layers.is_outranked(present, origin.layer) {
            self.append(present, &value, origin.layer);
            return Ok(());
        }
        self.set(key, value, origin, warnings)
    }

    /// Sets all values of a file.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn set_all(
        &mut self,
        leaves: impl IntoIterator<Item = (Vec<String>, toml::Value)>,
        origin: &Origin,
        precedence: Precedence,
        warnings: &mut Vec<String>,
    ) -> Result<(), SettingsError> {
        leaves.into_iter().try_for_each(|(key, value)| match precedence {
            Precedence::Over => self.set(key, value, origin, warnings),
            Precedence::Below => self.set_below(key, value, origin, warnings),
        })
    }

    fn append(&mut self, key: &[String], value: &toml::Value, layer: Layer) {
        if self.schema.is_appended(key) {
            self.appended.push(Appended { path: key.to_vec(), layer, value: value.clone() });
        }
    }

    /// Returns the keys that files set by former names, in the order they were read.
    #[must_use]
    pub fn former_keys(&self) -> &[FormerKey] {
        &self.former
    }

    /// Returns the lists that add up over the layers, in the order they were read.
    #[must_use]
    pub fn appended(&self) -> &[Appended] {
        &self.appended
    }

    /// Deserialises the section at a table, with its defaults for missing keys.
    ///
    /// # Errors
    /// Values of several layers that contradict each other.
    pub fn section<T: DeserializeOwned>(&self, table: &str) -> Result<T, SettingsError> {
        let name: Vec<&str> = table.split('.').filter(|name| !name.is_empty()).collect();
        let table = self.table(&name).unwrap_or_default();
        table.try_into().map_err(|error: toml::de::Error| {
            let wrong = self.wrong_entry::<T>(&name).unwrap_or_else(|| format!("[{}]", name.join(".")));
            SettingsError(format!("{wrong}: {}", error.message()))
        })
    }

    /// Returns the origin and name of the first entry that the section's type rejects.
    fn wrong_entry<T: DeserializeOwned>(&self, name: &[&str]) -> Option<String> {
        self.layers.iter().find_map(|(path, entry)| {
            let inside =
                path.iter().zip(name).all(|(part, name)| part == name).then(|| path.get(name.len()..))??;
            let (last, tables) = inside.split_last()?;
            let leaf = toml::Table::from_iter([(last.clone(), entry.value.clone())]);
            let table = tables.iter().rev().fold(leaf, |inner, name| {
                toml::Table::from_iter([(name.clone(), toml::Value::Table(inner))])
            });
            table.try_into::<T>().err().map(|_| format!("{}: `{}`", entry.origin.place, dotted(path)))
        })
    }

    /// Returns the table at a path with all values below it, if there are any.
    #[must_use]
    pub fn table(&self, name: &[&str]) -> Option<toml::Table> {
        let mut table = toml::Table::new();
        for (path, entry) in self.layers.iter() {
            let mut path = path.iter();
            if !name.iter().all(|part| path.next().is_some_and(|at| at == *part)) {
                continue;
            }
            let Some(last) = path.next_back() else { continue };
            let inner = path.try_fold(&mut table, |table, part| {
                table.entry(part).or_insert_with(|| toml::Table::new().into()).as_table_mut()
            });
            inner?.insert(last.clone(), entry.value.clone());
        }
        (!table.is_empty()).then_some(table)
    }

    /// Returns the entry at a path.
    #[must_use]
    pub fn at(&self, path: &[String]) -> Option<&Entry> {
        self.layers.at(path)
    }

    /// Iterates over all entries with their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&[String], &Entry)> {
        self.layers.iter()
    }

    /// Returns the origin of a dotted key.
    #[must_use]
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.layers.get(key).map(|entry| &entry.origin)
    }

    /// Returns the origin of the first value below a table.
    #[must_use]
    pub fn origin_below(&self, name: &[&str]) -> Option<&Origin> {
        let is_below =
            |path: &[String]| path.iter().map(String::as_str).take(name.len()).eq(name.iter().copied());
        self.layers.iter().find(|(path, _)| is_below(path)).map(|(_, entry)| &entry.origin)
    }

    /// Formats every setting as a line of TOML without secrets, optionally with its origin as a comment.
    #[must_use]
    pub fn lines(&self, with_origin: bool) -> Vec<String> {
        let line = |(key, entry): (&[String], &Entry)| {
            let value = if self.schema.is_secret(key) {
                "\"(set, not shown)\"".to_owned()
            } else {
                entry.value.to_string()
            };
            let name = dotted(key);
            if with_origin {
                format!("{name} = {value}  # {}", entry.origin)
            } else {
                format!("{name} = {value}")
            }
        };
        self.layers.iter().map(line).collect()
    }
}

impl fmt::Debug for MergedSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(key, entry): (&[String], &Entry)| {
            let value = match self.schema.is_secret(key) {
                true => "(not shown)".to_owned(),
                false => entry.value.to_string(),
            };
            (dotted(key), (value, entry.origin.to_string()))
        };
        f.debug_map().entries(self.layers.iter().map(shown)).finish()
    }
}

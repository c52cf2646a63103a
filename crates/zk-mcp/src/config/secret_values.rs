use std::collections::BTreeMap;
use std::fmt;

use secrecy::{ExposeSecret, SecretString};

/// Named values that are hidden from debug output and wiped from memory: environment variables of a program,
/// headers of a request. Many of them are keys.
///
/// ```
/// use zk_mcp::SecretValues;
///
/// let env = SecretValues::from_iter([("TOKEN".to_owned(), "sk-1".to_owned())]);
/// assert_eq!(env.get("TOKEN"), Some("sk-1"));
/// assert!(!format!("{env:?}").contains("sk-1"));
/// ```
#[derive(Clone, Default)]
pub struct SecretValues(BTreeMap<String, SecretString>);

impl SecretValues {
    /// Iterates over the names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the value of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(ExposeSecret::expose_secret)
    }

    /// Iterates over names and values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.expose_secret()))
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces each value by the result of `with`.
    pub(crate) fn replace(&mut self, with: impl Fn(&str) -> String) {
        self.0.values_mut().for_each(|value| *value = with(value.expose_secret()).into());
    }
}

impl FromIterator<(String, String)> for SecretValues {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(values: T) -> Self {
        Self(values.into_iter().map(|(name, value)| (name, value.into())).collect())
    }
}

impl PartialEq for SecretValues {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for SecretValues {}

impl fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.names().map(|name| (name, "(not shown)"))).finish()
    }
}

use std::fmt;

/// Single values of a layer, each with its key and the name of its flag or variable.
#[derive(Clone, Default)]
pub struct LayerValues(pub(crate) Vec<(String, String, toml::Value)>);

impl fmt::Debug for LayerValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values are omitted, since environment variables contain keys.
        f.debug_list().entries(self.0.iter().map(|(key, from, _)| (key, from))).finish()
    }
}

impl LayerValues {
    /// Sets a string, if there is one.
    pub fn text(&mut self, key: &str, from: &str, value: Option<String>) {
        self.put(key, from, value.map(toml::Value::String));
    }

    /// Sets a count, if there is one.
    pub fn count(&mut self, key: &str, from: &str, value: Option<u32>) {
        self.put(key, from, value.map(|count| toml::Value::Integer(count.into())));
    }

    /// Sets a flag, if there is one.
    pub fn flag(&mut self, key: &str, from: &str, value: Option<bool>) {
        self.put(key, from, value.map(toml::Value::Boolean));
    }

    /// Sets a number, if there is one.
    pub fn number(&mut self, key: &str, from: &str, value: Option<f64>) {
        self.put(key, from, value.map(toml::Value::Float));
    }

    /// Sets a list of texts, unless it is empty.
    pub fn texts(&mut self, key: &str, from: &str, values: Vec<String>) {
        let values = values.into_iter().map(toml::Value::String).collect::<Vec<_>>();
        self.put(key, from, (!values.is_empty()).then_some(toml::Value::Array(values)));
    }

    /// Sets a value of JSON.
    ///
    /// # Errors
    /// When it holds a null, which settings do not have, or a number that they cannot have.
    pub fn json(&mut self, key: &str, from: &str, value: &serde_json::Value) -> Result<(), String> {
        let value = toml::Value::try_from(value)
            .map_err(|error| format!("`{key}` cannot be set to {value}: {error}"))?;
        self.put(key, from, Some(value));
        Ok(())
    }

    fn put(&mut self, key: &str, from: &str, value: Option<toml::Value>) {
        self.0.extend(value.map(|value| (key.to_owned(), from.to_owned(), value)));
    }
}

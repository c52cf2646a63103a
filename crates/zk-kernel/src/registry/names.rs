use std::sync::Arc;

/// Map from names to values as a sorted list, since a registry has few items of each type. A `BTreeMap` would
/// compile to hundreds of functions for each item type, in every crate that has one.
pub(crate) struct Names<V>(Vec<(Arc<str>, V)>);

impl<V> Default for Names<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Names<V> {
    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| (**own).cmp(name))
    }

    pub(super) fn get(&self, name: &str) -> Option<&V> {
        self.0.get(self.find(name).ok()?).map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, (Arc<str>, V)> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, (Arc<str>, V)> {
        self.0.iter_mut()
    }

    pub(crate) fn into_entries(self) -> Vec<(Arc<str>, V)> {
        self.0
    }

    /// Changes the value under `name`, starting with the default if there is none.
    pub(super) fn update(&mut self, name: &str, change: impl FnOnce(&mut V))
    where
        V: Default,
    {
        match self.find(name) {
            Ok(at) => {
                if let Some((_, value)) = self.0.get_mut(at) {
                    change(value);
                }
            }
            Err(at) => {
                let mut value = V::default();
                change(&mut value);
                self.0.insert(at, (Arc::from(name), value));
            }
        }
    }

    pub(super) fn insert(&mut self, name: Arc<str>, value: V) {
        match self.find(&name) {
            Ok(at) => {
                if let Some((_, old)) = self.0.get_mut(at) {
                    *old = value;
                }
            }
            Err(at) => self.0.insert(at, (name, value)),
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Ok(at) = self.find(name) {
            self.0.remove(at);
        }
    }

    pub(super) fn retain(&mut self, stays: impl FnMut(&(Arc<str>, V)) -> bool) {
        self.0.retain(stays);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

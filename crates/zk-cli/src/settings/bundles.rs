//! Bundles: their hooks and servers count as those of settings do; the rest is read where it is used.

use std::path::Path;
use std::sync::Arc;

use zk_bundles::Loaded;
use zk_hooks::HookSet;

use super::Settings;
use crate::bundles;
use crate::env::Env;

impl Settings {
    /// Adds the settings of loaded bundles. A bundle with invalid hooks or servers is left out as a whole,
    /// since one of them may guard calls.
    pub(crate) fn add_bundles(&mut self, mut loaded: Loaded, project: &Path, env: &Env) {
        let mut used = Vec::new();
        for mut placed in std::mem::take(&mut loaded.bundles) {
            placed.read_options(&|name| env.text(name).map(str::to_owned));
            let hooks = bundles::hooks(&placed, project).map_err(|error| error.to_string());
            let (servers, wrong) = bundles::servers(&placed, project);
            let why = hooks.as_ref().err().cloned().or(wrong.first().map(ToString::to_string));
            if let Some(why) = why {
                loaded.problems.push(format!("the plugin `{}` is not used: {why}", placed.bundle.name()));
                continue;
            }
            // These warnings were shown when the bundle was added.
            self.hooks.extend(HookSet { warnings: Vec::new(), ..hooks.unwrap_or_default() });
            self.given_servers.extend(servers);
            used.push(placed);
        }
        loaded.bundles = used;
        self.bundles = Arc::new(loaded);
    }

    /// The bundles that are used.
    pub(crate) fn bundles(&self) -> &Loaded {
        &self.bundles
    }
}

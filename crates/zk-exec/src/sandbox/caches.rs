//! Places where package managers keep what they fetch.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::Environment;

/// Variables that move caches to the temporary directory of commands, for a command that connects.
const CACHES: [(&str, &str); 6] = [
    ("XDG_CACHE_HOME", "/tmp/.cache"),
    ("PIP_CACHE_DIR", "/tmp/.cache/pip"),
    ("YARN_CACHE_FOLDER", "/tmp/.cache/yarn"),
    ("YARN_GLOBAL_FOLDER", "/tmp/.cache/yarn-global"),
    ("npm_config_cache", "/tmp/.cache/npm"),
    ("npm_config_store_dir", "/tmp/.cache/pnpm"),
];

pub(super) fn variables() -> impl Iterator<Item = (&'static str, String)> {
    CACHES.into_iter().map(|(name, value)| (name, value.to_owned()))
}

/// Directories of packages that later commands build with, and the variables that name others where there are none.
pub(super) fn of_packages(home: Option<&Path>, mut environment: Environment) -> (Vec<PathBuf>, Environment) {
    let set = |name: &str| {
        let found = environment.vars().find(|(known, _)| *known == OsStr::new(name));
        found.map(|(_, value)| PathBuf::from(value))
    };
    let cargo = set("CARGO_HOME").or(home.map(|home| home.join(".cargo")));
    let go = set("GOPATH").or(home.map(|home| home.join("go")));
    let mut found = Vec::new();
    for (base, names, otherwise) in [
        (cargo, &["registry", "git"][..], ("CARGO_HOME", "/tmp/.cargo")),
        (go, &["pkg/mod"][..], ("GOMODCACHE", "/tmp/.go/mod")),
    ] {
        let all = base.iter().flat_map(|base| names.iter().map(|name| base.join(name)));
        let existing: Vec<PathBuf> = all.filter_map(|dir| dir.canonicalize().ok()).collect();
        if existing.is_empty() {
            environment = environment.grant(otherwise.0, otherwise.1);
        }
        found.extend(existing.into_iter().filter(|dir| dir.is_dir()));
    }
    (found, environment)
}

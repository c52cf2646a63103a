//! Caches of package managers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use zk_core::service::{HostFiles, HostRead};

use crate::environment::holds_no_secret;
use crate::{Environment, LocalHostFiles};

/// Largest settings file that is read, in bytes.
const MAX_SETTINGS_BYTES: usize = 64 << 10;

/// Environment variables that move caches to the temporary directory, for commands with network access.
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

/// Package directories that later builds use, and variables that name substitutes for missing ones.
pub(super) fn package_directories(
    home: Option<&Path>,
    mut environment: Environment,
) -> (Vec<PathBuf>, Environment) {
    let set = |name: &str| {
        let found = environment.vars().find(|(known, _)| *known == OsStr::new(name));
        found.map(|(_, value)| PathBuf::from(value))
    };
    let cargo = set("CARGO_HOME").or(home.map(|home| home.join(".cargo")));
    let go = set("GOPATH").or(home.map(|home| home.join("go")));
    let mut found = Vec::new();
    for (base, names, otherwise) in [
        (cargo, &["registry", "git"][..], Some(("CARGO_HOME", "/tmp/.cargo"))),
        // The checksums are next to the modules.
        (go, &["pkg"][..], Some(("GOPATH", "/tmp/.go"))),
        (home.map(Path::to_owned), &[".gem", ".local/share/gem", ".bundle"][..], None),
    ] {
        let all = base.iter().flat_map(|base| names.iter().map(|name| base.join(name)));
        let existing: Vec<PathBuf> = all.filter_map(|dir| dir.canonicalize().ok()).collect();
        if let Some((name, other)) = otherwise.filter(|_| existing.is_empty()) {
            environment = environment.grant(name, other);
        }
        found.extend(existing.into_iter().filter(|dir| dir.is_dir()));
    }
    (found, environment)
}

/// Variables by which npm learns the registries of the person's `.npmrc`, which the sandbox hides because of
/// its tokens.
///
/// A registry that the project's own `.npmrc` sets is left out.
pub(super) fn npm_registries(home: &Path, cwd: &Path) -> Vec<(String, String)> {
    let own = read_settings(&home.join(".npmrc")).unwrap_or_default();
    let above = cwd.ancestors().take_while(|dir| *dir != home);
    let project = above.filter_map(|dir| read_settings(&dir.join(".npmrc"))).next().unwrap_or_default();
    let of_project: Vec<_> = registries(&project).map(|(key, _)| key).collect();
    // Addresses with a password or a token stay hidden.
    let is_open = |(key, address): &(&str, &str)| holds_no_secret(address) && !of_project.contains(key);
    let open = registries(&own).filter(is_open);
    open.map(|(key, address)| (format!("npm_config_{key}"), address.to_owned())).collect()
}

fn registries(npmrc: &str) -> impl Iterator<Item = (&str, &str)> {
    let entries = npmrc.lines().filter_map(|line| line.split_once('='));
    let entries = entries.map(|(key, value)| (key.trim(), value.trim().trim_matches('"')));
    entries.filter(|(key, _)| *key == "registry" || key.ends_with(":registry"))
}

fn read_settings(path: &Path) -> Option<String> {
    let read = LocalHostFiles::new().read(path, &HostRead::whole(MAX_SETTINGS_BYTES)).ok()?;
    Some(String::from_utf8_lossy(&read.bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_of_the_person_are_named_to_npm_without_their_tokens() {
        let dir = tempfile::tempdir().unwrap();
        let (home, work) = (dir.path().join("home"), dir.path().join("work"));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::create_dir_all(work.join("a")).unwrap();
        let npmrc = "registry=https://npm.corp/\n//npm.corp/:_authToken=secret\n@team:registry = \"https://team.corp/\"\n\
                     @old:registry=https://me:secret@old.corp/\n@far:registry=https://far.corp/4fTq8vZ1kLm3Xw9RbN2c/\n";
        std::fs::write(home.join(".npmrc"), npmrc).unwrap();
        let named = || npm_registries(&home, &work.join("a"));
        let pair = |key: &str, address: &str| (key.to_owned(), address.to_owned());
        let team = pair("npm_config_@team:registry", "https://team.corp/");
        assert_eq!(named(), [pair("npm_config_registry", "https://npm.corp/"), team.clone()]);
        std::fs::write(work.join(".npmrc"), "registry=http://127.0.0.1:4873\n").unwrap();
        assert_eq!(named(), [team]);
    }
}

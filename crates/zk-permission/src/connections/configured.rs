//! Registries in the settings of package managers.

use std::path::{Path, PathBuf};

use super::{entries, hosts};
use crate::classifier::PathClassifier;
use crate::program::base_name;
use crate::repository::read;

/// Registry hosts in settings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Configured {
    pub(super) hosts: Vec<String>,
    /// Whether one of the registries replaces the default one.
    pub(super) replaces_usual: bool,
}

/// Sources of settings for one lookup.
struct Sources<'a> {
    cwd: &'a Path,
    here: &'a dyn PathClassifier,
    /// Whether project files count, which commands could have written.
    of_project: bool,
}

/// Registries in the settings of a package manager; the project's settings count only with `of_project`.
pub(super) fn of_manager(
    name: &str,
    args: &[String],
    cwd: &Path,
    here: &dyn PathClassifier,
    of_project: bool,
) -> Configured {
    let sources = Sources { cwd, here, of_project };
    let module = args.iter().map(|word| base_name(word)).find(|word| !word.starts_with('-'));
    let name = if name.starts_with("python") { module.unwrap_or(name) } else { name };
    let mut found = Configured::default();
    match name {
        "npm" | "pnpm" | "yarn" | "bun" => sources.add_npm(&mut found),
        "pip" | "pip3" | "uv" | "poetry" | "pdm" | "pipenv" => sources.add_pip(args, &mut found),
        "cargo" => sources.add_cargo(&mut found),
        "gem" | "bundle" => sources.add_gem(&mut found),
        "go" => found.add_variable(here.variable("GOPROXY"), true),
        _ => {}
    }
    found
}

impl Configured {
    fn add(&mut self, host: Option<String>, replaces_usual: bool) {
        if let Some(host) = host {
            self.hosts.push(host);
            self.replaces_usual |= replaces_usual;
        }
    }

    /// Adds the addresses in a variable, separated by blanks, commas or bars.
    fn add_variable(&mut self, value: Option<&str>, replaces_usual: bool) {
        for word in value.unwrap_or_default().split([' ', ',', '|']) {
            self.add(hosts::of_url(word), replaces_usual);
        }
    }
}

impl Sources<'_> {
    /// Content of the nearest file with one of these names, in the command's directory or its parents.
    fn read_nearest(&self, names: &[&str]) -> Option<String> {
        let home = self.here.home();
        let above = self.cwd.ancestors().take_while(|dir| Some(*dir) != home);
        let mut paths = above.flat_map(|dir| names.iter().map(move |name| dir.join(name)));
        paths.find_map(|path| read(&path)).filter(|_| self.of_project)
    }

    fn read_in_home(&self, name: &str) -> Option<String> {
        read(&self.here.home()?.join(name))
    }

    fn add_npm(&self, found: &mut Configured) {
        for name in ["npm_config_registry", "NPM_CONFIG_REGISTRY"] {
            found.add_variable(self.here.variable(name), true);
        }
        // `registry=` and `@scope:registry=`; yarn has other keys for the former.
        let files = [self.read_nearest(&[".npmrc"]), self.read_in_home(".npmrc")];
        for text in files.iter().flatten() {
            for entry in entries::of_text(text).iter().filter(|entry| entry.key.ends_with("registry")) {
                found.add(hosts::of_url(entry.value), entry.key == "registry");
            }
        }
        let files = [self.read_nearest(&[".yarnrc.yml", ".yarnrc"]), self.read_in_home(".yarnrc.yml")];
        for line in files.iter().flatten().flat_map(|text| text.lines()) {
            let key = line.trim_start();
            if key.starts_with("npmRegistryServer:") || key.starts_with("registry ") {
                found.add(hosts::of_url(line), true);
            }
        }
    }

    fn add_pip(&self, args: &[String], found: &mut Configured) {
        for name in ["PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"] {
            found.add_variable(self.here.variable(name), true);
        }
        for name in ["PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_EXTRA_INDEX_URL", "UV_INDEX"] {
            found.add_variable(self.here.variable(name), false);
        }
        let global = read(Path::new("/etc/pip.conf"));
        let files = [global, self.read_in_home(".pip/pip.conf"), self.read_in_home(".config/pip/pip.conf")];
        for text in files.iter().flatten() {
            for entry in entries::of_text(text) {
                let is_registry =
                    ["index-url", "extra-index-url", "find-links"].contains(&entry.key.as_str());
                let url = if is_registry { hosts::of_url(entry.value) } else { None };
                found.add(url, entry.key == "index-url");
            }
        }
        let flags = args
            .windows(2)
            .filter(|pair| matches!(pair, [flag, _] if flag == "-r" || flag == "--requirement"));
        let listed = flags.filter_map(|pair| pair.last()).filter(|_| self.of_project);
        for text in listed.filter_map(|name| read(&self.cwd.join(name))) {
            for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
                let replaces_usual = line.starts_with("-i") || line.starts_with("--index-url");
                line.split_ascii_whitespace().for_each(|word| found.add(hosts::of_url(word), replaces_usual));
            }
        }
    }

    fn add_cargo(&self, found: &mut Configured) {
        let mut texts = Vec::new();
        if self.of_project {
            let home = self.here.home();
            let above = self.cwd.ancestors().take_while(|dir| Some(*dir) != home);
            texts.extend(above.filter_map(|dir| cargo_settings(&dir.join(".cargo"))));
        }
        let own = self.here.variable("CARGO_HOME").map(PathBuf::from);
        texts.extend(
            own.or(self.here.home().map(|home| home.join(".cargo"))).and_then(|dir| cargo_settings(&dir)),
        );
        for text in &texts {
            for entry in entries::of_text(text) {
                let key = format!("{}.{}", entry.section, entry.key);
                let is_address =
                    ["index", "registry", "git"].contains(&key.rsplit('.').next().unwrap_or_default());
                if is_address && (key.starts_with("registries.") || key.starts_with("source.")) {
                    found.add(hosts::of_url(entry.value), false);
                }
                found.replaces_usual |= key == "source.crates-io.replace-with" || key == "registry.default";
            }
        }
    }

    fn add_gem(&self, found: &mut Configured) {
        let sources = [self.read_in_home(".gemrc"), self.read_nearest(&["Gemfile"])];
        for line in sources.iter().flatten().flat_map(|text| text.lines()).map(str::trim) {
            if line.starts_with("- ") || line.starts_with("source") {
                found.add(hosts::of_url(line), true);
            }
        }
    }
}

fn cargo_settings(dir: &Path) -> Option<String> {
    read(&dir.join("config.toml")).or_else(|| read(&dir.join("config")))
}

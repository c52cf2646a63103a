use std::path::{Path, PathBuf};

use crate::workspace::git::{ObjectSizes, Repository, Tracked, read_text};
use crate::workspace::rules::{Conversion, Rules};

/// Deepest nesting of settings files that include others.
const MAX_INCLUDES: usize = 10;

/// Git's settings and attributes beside those of a repository: of the person, and of the machine. They say of which
/// files git converts the line ends.
///
/// ```
/// use zk_undo::GitSettings;
///
/// let settings = GitSettings::of_person(Some("/home/me".into()), None);
/// assert_ne!(settings, GitSettings::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitSettings {
    home: Option<PathBuf>,
    configs: Vec<PathBuf>,
    attributes: Vec<PathBuf>,
}

impl GitSettings {
    /// Settings of the machine, and of the person with this home and this directory of settings, which is `.config` in
    /// the home unless given.
    #[must_use]
    pub fn of_person(home: Option<PathBuf>, config_home: Option<PathBuf>) -> Self {
        let config_home = config_home.or_else(|| Some(home.as_ref()?.join(".config")));
        let git = config_home.map(|dir| dir.join("git"));
        let of_git = |name: &str| git.as_ref().map(|dir| dir.join(name));
        let own = home.as_ref().map(|home| home.join(".gitconfig"));
        let configs = [Some("/etc/gitconfig".into()), of_git("config"), own];
        let attributes = [Some("/etc/gitattributes".into()), of_git("attributes")];
        Self {
            home,
            configs: configs.into_iter().flatten().collect(),
            attributes: attributes.into_iter().flatten().collect(),
        }
    }

    /// Conversions by these settings and those of a repository.
    pub(crate) fn conversions(&self, repository: &Repository) -> Conversions {
        let (attributes, sizes) = (self.attributes.clone(), repository.sizes());
        let mut found = Conversions { every_line_end: false, attributes, sizes };
        for config in self.configs.iter().chain([&repository.config_path()]) {
            self.add_config(config, 0, &mut found);
        }
        found
    }

    fn add_config(&self, path: &Path, depth: usize, found: &mut Conversions) {
        let Some(text) = read_text(path) else { return };
        let mut is_include = false;
        for line in text.lines() {
            let mut line = line.trim();
            if let Some((section, rest)) = line.strip_prefix('[').and_then(|line| line.rsplit_once(']')) {
                // A condition may hold, so that its file counts.
                is_include = section.to_ascii_lowercase().starts_with("include");
                line = rest.trim();
            }
            // A name without a value is true.
            let (name, value) = line.split_once('=').unwrap_or((line, "true"));
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "autocrlf" => {
                    let is_off = ["false", "no", "off", "0"].contains(&value.to_ascii_lowercase().as_str());
                    found.every_line_end |= !is_off;
                }
                "eol" => found.every_line_end |= value.eq_ignore_ascii_case("crlf"),
                "attributesfile" => found.attributes.extend(self.resolve(path, value)),
                "path" if is_include && depth < MAX_INCLUDES => {
                    if let Some(included) = self.resolve(path, value) {
                        self.add_config(&included, depth + 1, found);
                    }
                }
                _ => {}
            }
        }
    }

    /// Path that a settings file names, relative to itself or to the home.
    fn resolve(&self, config: &Path, named: &str) -> Option<PathBuf> {
        match named.strip_prefix("~/") {
            Some(named) => Some(self.home.as_ref()?.join(named)),
            None => Some(config.parent()?.join(named)),
        }
    }
}

/// Conversions of contents by settings.
#[derive(Debug, Default)]
pub(crate) struct Conversions {
    /// Whether git may convert the line ends of every file.
    pub(crate) every_line_end: bool,
    /// Files of attributes beside those of the repository.
    pub(crate) attributes: Vec<PathBuf>,
    sizes: ObjectSizes,
}

impl Conversions {
    /// Whether an unchanged tracked file has the bytes of its object.
    pub(crate) fn keep_bytes(&self, tracked: &Tracked<'_>, path: &Path, rules: &Rules) -> bool {
        let of_all = if self.every_line_end { Conversion::LineEnds } else { Conversion::None };
        match rules.conversion(path).max(of_all) {
            Conversion::None => true,
            Conversion::LineEnds => self.sizes.equals_file(tracked),
            Conversion::Any => false,
        }
    }
}

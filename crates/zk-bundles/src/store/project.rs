//! Bundles in directories of a project, named in the project's settings.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use zk_core::service::{HostFiles, make_private_dir, visible_line};

use super::{BundleStore, DIRECTORY_DIGITS, Loaded, StoreError, copies};
use crate::bundle::placed::PlacedBundle;
use crate::bundle::{Bundle, BundleError};
use crate::tree::digest::digest_of;
use crate::tree::{Tree, TreeError};

/// Bundle of a project, with the present files of its directory. No part of it is used before a person approved
/// the digest.
#[derive(Clone, Debug)]
pub struct ProjectBundle {
    /// Parts of the bundle.
    pub bundle: Bundle,
    tree: Tree,
    project: PathBuf,
}

/// Reason why a directory of a project is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum ProjectBundleError {
    /// The directory is not inside the project.
    #[error(
        "its directory has to be one inside the project, without links that lead out or control characters"
    )]
    Outside,
    /// The files cannot be used.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The files are no bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A hook or a server runs a file of the project that the digest of the bundle does not cover.
    #[error(
        "it would run files of the project that can change later (`{}`): a plugin of a project runs its own files, by \
         `${{CLAUDE_PLUGIN_ROOT}}`",
        visible_line(.0)
    )]
    RunsProjectFile(String),
}

impl ProjectBundle {
    /// Reads the bundle in a directory of a project, with all of its files. Blocks on the file system.
    ///
    /// # Errors
    /// [`ProjectBundleError`].
    pub fn read(project: &Path, dir: &str, files: &dyn HostFiles) -> Result<Self, ProjectBundleError> {
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let named = Path::new(dir);
        let is_named = !dir.contains(char::is_control)
            && named.components().all(is_plain)
            && named.components().any(|part| matches!(part, Component::Normal(_)));
        let real = project.canonicalize().and_then(|project| {
            let root: PathBuf = project.join(named).components().collect();
            Ok((root.canonicalize()?, root))
        });
        let root = real.ok().filter(|(real, root)| is_named && real == root).map(|(real, _)| real);
        let root = root.ok_or(ProjectBundleError::Outside)?;
        let tree = Tree::read_dir(&root, files)?;
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bundle = Bundle::read(&tree, &name)?;
        match find_project_file(&bundle, project) {
            Some(word) => Err(ProjectBundleError::RunsProjectFile(word)),
            None => Ok(Self { bundle, tree, project: project.to_path_buf() }),
        }
    }

    /// Size of all files in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.tree.total_bytes()
    }
}

/// Environment variables that contain the directory of the project.
const PROJECT_VARIABLES: [&str; 2] = ["CLAUDE_PROJECT_DIR", "PWD"];

/// First word in a hook or a server that names a file of the project outside of the bundle.
fn find_project_file(bundle: &Bundle, project: &Path) -> Option<String> {
    let mut texts = Vec::new();
    bundle.hooks.iter().for_each(|part| add_texts(&part.events, &mut texts));
    bundle.servers.iter().for_each(|server| add_texts(&server.definition, &mut texts));
    let is_separator = |c: char| c.is_whitespace() || "\"';|&()<>=`,:{}".contains(c);
    let words = texts.into_iter().flat_map(|text| text.split(is_separator));
    let is_file = |word: &str| {
        let is_path = Path::new(word).components().any(|part| matches!(part, Component::Normal(_)));
        is_path && !word.starts_with('/') && project.join(word).is_file()
    };
    let is_of_project = |word: &&str| PROJECT_VARIABLES.contains(word) || is_file(word);
    words.map(|word| word.trim_start_matches('$')).find(is_of_project).map(str::to_owned)
}

/// Adds all strings in a JSON value, such as the commands of hooks.
fn add_texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| add_texts(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| add_texts(field, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl BundleStore {
    /// Bundles of a project that a person approved, each in a private copy: what changes in the project later is not used.
    /// One whose name is among `used` is left out. Copies of the same project that are not among `found` are removed,
    /// unless another process uses some of them.
    #[must_use]
    pub fn load_of_project<'a>(
        &self,
        project: &Path,
        found: impl IntoIterator<Item = &'a ProjectBundle>,
        used: &Loaded,
    ) -> Loaded {
        let mut loaded = Loaded::default();
        let found: Vec<&ProjectBundle> = found.into_iter().collect();
        let dir = self.project_dir(project);
        if found.is_empty() && !dir.is_dir() {
            return loaded;
        }
        let kept = found.iter().map(|one| self.copy_dir(one)).collect();
        match copies::use_copies(&dir, &kept, &*self.state) {
            Ok(mark) => loaded.in_use.push(mark),
            Err(error) => {
                let problem = |one: &&ProjectBundle| {
                    format!("the plugin `{}` of the project is not used: {error}", one.bundle.name())
                };
                loaded.problems.extend(found.iter().map(problem));
                return loaded;
            }
        }
        for one in found {
            let name = one.bundle.name();
            let is_used = |placed: &PlacedBundle| placed.bundle.name() == name;
            let placed = if used.bundles.iter().chain(&loaded.bundles).any(is_used) {
                Err("another one has that name".to_owned())
            } else {
                self.place_copy(one).map_err(|error| error.to_string())
            };
            match placed {
                Ok(placed) => loaded.bundles.push(placed),
                Err(why) => {
                    loaded.problems.push(format!("the plugin `{name}` of the project is not used: {why}"));
                }
            }
        }
        loaded
    }

    /// Whether a loaded bundle is from a project.
    #[must_use]
    pub fn is_of_project(&self, placed: &PlacedBundle) -> bool {
        let dir = self.projects_dir();
        dir.canonicalize().is_ok_and(|dir| placed.root.starts_with(dir))
    }

    fn place_copy(&self, found: &ProjectBundle) -> Result<PlacedBundle, StoreError> {
        let own = self.project_dir(&found.project).join(found.bundle.name());
        let root = self.copy_dir(found);
        let is_kept =
            Tree::read_dir(&root, &*self.files).is_ok_and(|kept| kept.digest() == found.bundle.digest);
        if !is_kept {
            super::remove_dir(&root)?;
            found.tree.write_to(&root)?;
        }
        let io =
            |path: &Path, source| StoreError::Tree(TreeError::Write { path: path.to_path_buf(), source });
        let root = root.canonicalize().map_err(|error| io(&root, error))?;
        let data = own.join("data");
        make_private_dir(&data).map_err(|error| io(&data, error))?;
        let data = data.canonicalize().map_err(|error| io(&data, error))?;
        Ok(PlacedBundle { bundle: found.bundle.clone(), root, data, options: BTreeMap::new() })
    }

    /// Directory of the private copy of a bundle.
    fn copy_dir(&self, found: &ProjectBundle) -> PathBuf {
        let own = self.project_dir(&found.project).join(found.bundle.name());
        own.join("kept").join(short_digest(&found.bundle.digest))
    }

    fn project_dir(&self, project: &Path) -> PathBuf {
        self.projects_dir().join(short_digest(&digest_of(project.as_os_str().as_encoded_bytes())))
    }

    fn projects_dir(&self) -> PathBuf {
        self.dir.join("projects")
    }
}

/// First digits of a digest, which are the name of a directory.
fn short_digest(digest: &str) -> String {
    digest.chars().take(DIRECTORY_DIGITS).collect()
}

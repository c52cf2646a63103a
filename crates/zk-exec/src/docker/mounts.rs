use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::DockerOptions;
use crate::sandbox::{Denials, Network, Placeholder, Placeholders, Places, SandboxError, SandboxPolicy};

/// Mounts of this machine's files in a container: the workspace, with read-only mounts over the guarded paths
/// in it.
///
/// A mount point can be neither renamed nor removed, so a command cannot replace a guarded path. For a
/// guarded name that does not exist, an empty placeholder directory is made on the host, as for the sandbox.
#[derive(Debug)]
pub(super) struct Mounts {
    /// Mounts in the format of the engine's interface.
    pub(super) list: Vec<Value>,
    /// State of each mounted or missing path when the mounts were made.
    seen: Vec<(PathBuf, State)>,
    /// Rules that match error messages of commands with these mounts.
    pub(super) denials: Arc<Denials>,
}

/// Identity of a file (device, inode, kind), which a replacement changes; `None` if the file does not exist.
type State = Option<(u64, u64, bool)>;

impl Mounts {
    /// Computes the mounts of a new container and makes the placeholders that they need.
    pub(super) fn of(options: &DockerOptions) -> Result<(Self, Placeholders), SandboxError> {
        let mut policy = SandboxPolicy::new(&options.workspace);
        if let Some(home) = &options.home {
            policy = policy.home(home);
        }
        if let Some(project) = &options.project {
            policy = policy.project(project);
        }
        for path in &options.writable {
            policy = policy.writable(path);
        }
        for path in &options.hidden {
            policy = policy.hidden(path);
        }
        options.state.as_deref().into_iter().for_each(Placeholders::remove_left);
        let Places { writable, pins, read_only, hidden, placeholders, .. } = Places::of(&policy)?;
        let is_inside = |path: &&PathBuf| writable.iter().any(|root| path.starts_with(root));
        let directories: Vec<PathBuf> =
            placeholders.iter().map(Placeholder::path).map(Path::to_owned).collect();
        let placeholders = Placeholders::make(placeholders, options.state.as_deref());
        // The strictest guard of a path wins; a directory comes before its entries.
        let mut list: BTreeMap<&PathBuf, Value> = BTreeMap::new();
        list.extend(writable.iter().map(|path| (path, bind(path, path, false))));
        list.extend(pins.iter().filter(|path| is_plain(path)).map(|path| (path, bind(path, path, false))));
        list.extend(
            read_only.iter().filter(|path| is_plain(path)).map(|path| (path, bind(path, path, true))),
        );
        let hidden = hidden.iter().filter(is_inside);
        list.extend(hidden.clone().filter(|path| is_plain(path)).map(|path| (path, covering_mount(path))));
        let watched = pins.iter().chain(&read_only).chain(hidden.clone()).chain(&directories);
        let seen = watched.map(|path| (path.clone(), state(path))).collect();
        let denials = Denials {
            kept_free: Denials::start_files(directories.iter().map(PathBuf::as_path)),
            hidden: hidden.cloned().collect(),
            read_only: read_only.clone(),
            writable: writable.clone(),
            // All other paths are the image's, and writable as far as their modes allow.
            own: Vec::new(),
            network: if options.network { Network::All } else { Network::None },
        };
        let list = list.into_values().collect();
        Ok((Self { list, seen, denials: Arc::new(denials) }, placeholders))
    }

    /// Whether all mounted files are still the same. A program that replaces a file on the host, such as `git
    /// config`, removes the mount over it.
    pub(super) fn are_current(&self) -> bool {
        self.seen.iter().all(|(path, then)| state(path) == *then)
    }
}

fn bind(from: &Path, to: &Path, read_only: bool) -> Value {
    json!({ "Type": "bind", "Source": from, "Target": to, "ReadOnly": read_only })
}

/// Mount that covers a hidden path with an empty file or directory.
fn covering_mount(path: &Path) -> Value {
    if path.is_dir() {
        json!({ "Type": "tmpfs", "Target": path, "TmpfsOptions": { "SizeBytes": 4096, "Mode": 0 } })
    } else {
        bind(Path::new("/dev/null"), path, true)
    }
}

/// Whether a regular file or directory exists that can be mounted over itself.
fn is_plain(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() || found.is_dir())
}

fn state(path: &Path) -> State {
    let found = fs::symlink_metadata(path).ok()?;
    // A `.git` that is no longer an empty placeholder needs protection of its parts.
    let is_empty = path.file_name().is_some_and(|name| name == ".git")
        && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    Some((found.dev(), found.ino(), is_empty))
}

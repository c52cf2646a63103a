use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use zk_core::service::PathError;

/// Maximum number of symbolic links that one path may go through; the kernel's limit is the same.
const MAX_LINKS: u32 = 40;

/// Reason why a path cannot be resolved.
#[derive(Debug)]
pub(super) enum Stop {
    /// The path leaves the permitted area, or goes through a link of `/proc` to an open file.
    Forbidden,
    /// The path continues below a file.
    NotADirectory,
    /// Symbolic links lead in a circle.
    Loop,
    /// The system failed to look up the path.
    Io(io::Error),
}

/// Absolute, unresolved path for a path as the model wrote it.
pub(super) fn target(cwd: &Path, written: &str, home: Option<&Path>) -> Result<PathBuf, PathError> {
    let invalid =
        |why: &'static str| PathError::Invalid { path: written.escape_debug().to_string(), why: why.into() };
    let path = match written.strip_prefix('@') {
        // `@src/main.rs` is a mention; `@types` may be the name of a directory.
        Some(rest) if !rest.is_empty() && cwd.join(written).symlink_metadata().is_err() => rest,
        _ => written,
    };
    if path.is_empty() {
        return Err(invalid("it is empty; use `.` for the working directory"));
    }
    if path.contains('\0') {
        return Err(invalid("it contains a NUL character"));
    }
    let below_home = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match (below_home, home) {
        (Some(rest), Some(home)) => Ok(home.join(rest.trim_start_matches('/'))),
        (Some(_), None) => Err(invalid("`~` stands for nothing here; write the path out")),
        (None, _) => Ok(cwd.join(path)),
    }
}

/// Resolves links, `.` and `..` of `path`, each `..` to the physical parent. Missing components are kept as
/// they are written.
///
/// Outside the paths that `on_the_way` allows, all results are indistinguishable: a missing name, a file in
/// place of a directory, a forbidden name and a dangling link.
pub(super) fn canonical(path: &Path, on_the_way: impl Fn(&Path) -> bool) -> Result<PathBuf, Stop> {
    let mut done = PathBuf::from("/");
    let mut todo: VecDeque<OsString> = VecDeque::new();
    push_front(&mut todo, path);
    let mut links = 0;
    while let Some(name) = todo.pop_front() {
        if name == ".." {
            // A look-up from here on would reveal which files exist there.
            if !on_the_way(&done) {
                return Err(Stop::Forbidden);
            }
            done.pop();
            continue;
        }
        let next = done.join(&name);
        let kind = match next.symlink_metadata() {
            Ok(found) => found.file_type(),
            Err(_) if !on_the_way(&next) => return Err(Stop::Forbidden),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                done = next;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(Stop::NotADirectory),
            Err(error) => return Err(Stop::Io(error)),
        };
        if !kind.is_symlink() {
            if !kind.is_dir() && !todo.is_empty() {
                return Err(if on_the_way(&next) { Stop::NotADirectory } else { Stop::Forbidden });
            }
            done = next;
            continue;
        }
        if done.starts_with("/proc") {
            return Err(Stop::Forbidden);
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(if on_the_way(&next) { Stop::Loop } else { Stop::Forbidden });
        }
        let leads_to = next.read_link().map_err(Stop::Io)?;
        if leads_to.is_absolute() {
            done = PathBuf::from("/");
        }
        push_front(&mut todo, &leads_to);
    }
    Ok(done)
}

/// Absolute path of `written` if it needs no look at the file system: without `@`, `~` and `..`.
#[cfg(target_os = "linux")]
pub(super) fn plain_target(cwd: &Path, written: &str) -> Option<PathBuf> {
    if written.is_empty() || written.starts_with(['@', '~']) || written.contains('\0') {
        return None;
    }
    let joined = cwd.join(written);
    let mut path = PathBuf::with_capacity(joined.as_os_str().len());
    for part in joined.components() {
        match part {
            Component::RootDir | Component::Normal(_) => path.push(part),
            Component::CurDir => {}
            Component::Prefix(_) | Component::ParentDir => return None,
        }
    }
    path.is_absolute().then_some(path)
}

fn push_front(todo: &mut VecDeque<OsString>, path: &Path) {
    for part in path.components().rev() {
        match part {
            Component::Normal(name) => todo.push_front(name.to_owned()),
            Component::ParentDir => todo.push_front("..".into()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
}

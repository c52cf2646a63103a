use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_core::kernel::Cx;
use zk_core::model::{ToolError, ToolErrorKind};
use zk_core::service::{Exec, Files, OutsideFiles, PathError, Resolved};

use crate::tool_names::ToolNames;

/// File service of the bus.
pub(crate) fn files(cx: &Cx) -> Result<Arc<dyn Files>, ToolError> {
    cx.service::<dyn Files>().ok_or_else(|| {
        ToolError::failed("this agent has no file service, so it cannot reach files; its host must serve one")
    })
}

/// Resolves a path, and finds the file service for it. A path outside of the workspace by name is read if the
/// host decides about each such call; a file swapped for a link is not followed there.
pub(crate) fn find_readable(
    cx: &Cx,
    files: Arc<dyn Files>,
    cwd: &Path,
    path: &str,
) -> Result<(Arc<dyn Files>, Resolved), PathError> {
    let refused = match files.resolve(cwd, path) {
        Ok(at) => return Ok((files, at)),
        Err(error) => error,
    };
    let (PathError::Outside { .. }, Some(outside)) = (&refused, cx.service::<OutsideFiles>()) else {
        return Err(refused);
    };
    let outside = outside.0.clone();
    let at = outside.resolve(cwd, path)?;
    let named = named_place(cwd, path);
    if files.roots().iter().any(|root| named.starts_with(root)) {
        return Err(refused);
    }
    if at.path != named {
        let (path, why) = (path.to_owned(), format!("it leads to `{}`: ask for that", at.path.display()));
        return Err(PathError::Invalid { path, why: why.into() });
    }
    Ok((outside, at))
}

/// Place of a path as the judge of calls sees it, without the file system: exactly the judged path is read.
fn named_place(cwd: &Path, path: &str) -> PathBuf {
    let mut named = PathBuf::new();
    for part in cwd.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = named.pop(),
            part => named.push(part),
        }
    }
    named
}

/// Service that runs commands.
pub(crate) fn exec(cx: &Cx) -> Result<Arc<dyn Exec>, ToolError> {
    cx.service::<dyn Exec>().ok_or_else(|| {
        ToolError::failed("this agent has nothing that runs commands; its host must serve one")
    })
}

/// Runs blocking file work on another thread. If the run is stopped, this returns at once; the work notices
/// the token and ends by itself.
pub(crate) async fn blocking<T: Send + 'static>(
    cx: &Cx,
    work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let stop = cx.stop_token().clone();
    if stop.is_cancelled() {
        return Err(stopped());
    }
    let token = stop.clone();
    let mut work = tokio::task::spawn_blocking(move || work(&token));
    tokio::select! {
        biased;
        done = &mut work => done.unwrap_or_else(|error| Err(ToolError::failed(format!("the tool broke: {error}")))),
        () = stop.cancelled() => {
            // Only effective if the work has not begun.
            work.abort();
            Err(stopped())
        }
    }
}

/// Error of a cancelled call.
pub(crate) fn stopped() -> ToolError {
    ToolError::new(ToolErrorKind::Aborted, "the run was stopped before this call was finished")
}

/// Returns an error if the run is stopped.
pub(crate) fn check_not_stopped(stop: &CancellationToken) -> Result<(), ToolError> {
    if stop.is_cancelled() { Err(stopped()) } else { Ok(()) }
}

/// Converts a path error to a message for the model.
pub(crate) fn path_error(error: &PathError, tools: &ToolNames) -> ToolError {
    let kind = match error {
        PathError::Outside { .. } | PathError::Protected { .. } => ToolErrorKind::Denied,
        PathError::Missing { .. } => ToolErrorKind::NotFound,
        PathError::Kind { .. } | PathError::Invalid { .. } | PathError::Pattern { .. } => {
            ToolErrorKind::InvalidArgs
        }
        PathError::Io { .. } => ToolErrorKind::Failed,
    };
    let next = match error {
        PathError::Missing { .. } => {
            let named: Vec<String> =
                ["glob", "list_files"].iter().filter_map(|name| tools.get(name)).collect();
            match named.as_slice() {
                [] => String::new(),
                [one] => format!("; {one} shows what is there"),
                both => format!("; {} show what is there", both.join(" and ")),
            }
        }
        PathError::Kind { what, .. } if what == "a directory" => {
            tools.advise("list_files", |list| format!("; {list} shows what is in it"))
        }
        PathError::Protected { .. } => "; ask the user for what you need of it".to_owned(),
        PathError::Invalid { .. } => "; give the path of a file in the working directory".to_owned(),
        PathError::Io { source, .. } => next_step(source).to_owned(),
        PathError::Kind { .. } | PathError::Outside { .. } | PathError::Pattern { .. } => String::new(),
    };
    ToolError::new(kind, format!("{error}{next}"))
}

/// Converts an I/O error on `path` to a message for the model.
pub(crate) fn io_error(doing: &str, path: &str, error: &std::io::Error) -> ToolError {
    ToolError::failed(format!("cannot {doing} `{path}`: {error}{}", next_step(error)))
}

/// Advice for a refused read or write.
fn next_step(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => "; use another file, or ask the user to allow it",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; ask the user to make room on the disk",
        ErrorKind::ReadOnlyFilesystem => "; write elsewhere, nothing can be written there",
        _ => "; try again, and tell the user if it stays so",
    }
}

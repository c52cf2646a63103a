use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_core::kernel::Cx;
use zk_core::model::{ToolError, ToolErrorKind};
use zk_core::service::{Exec, Files, PathError};

/// The path service.
pub(crate) fn files(cx: &Cx) -> Result<Arc<dyn Files>, ToolError> {
    cx.service::<dyn Files>().ok_or_else(|| {
        ToolError::failed("this agent has no file service, so it cannot reach files; its host must serve one")
    })
}

/// What runs commands.
pub(crate) fn exec(cx: &Cx) -> Result<Arc<dyn Exec>, ToolError> {
    cx.service::<dyn Exec>().ok_or_else(|| {
        ToolError::failed("this agent has nothing that runs commands; its host must serve one")
    })
}

/// Does file work on a thread where it may block. A stopped run has its answer at once; the work is told by
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
            // Only helps if it has not begun.
            work.abort();
            Err(stopped())
        }
    }
}

/// The error of a call that ended early.
pub(crate) fn stopped() -> ToolError {
    ToolError::new(ToolErrorKind::Aborted, "the run was stopped before this call was finished")
}

/// Ends work early when the run is to stop.
pub(crate) fn go_on(stop: &CancellationToken) -> Result<(), ToolError> {
    if stop.is_cancelled() { Err(stopped()) } else { Ok(()) }
}

/// A path error as the model is told it.
pub(crate) fn path_error(error: &PathError) -> ToolError {
    let kind = match error {
        PathError::Outside { .. } | PathError::Protected { .. } => ToolErrorKind::Denied,
        PathError::Missing { .. } => ToolErrorKind::NotFound,
        PathError::Kind { .. } | PathError::Invalid { .. } | PathError::Pattern { .. } => {
            ToolErrorKind::InvalidArgs
        }
        PathError::Io { .. } => ToolErrorKind::Failed,
    };
    let next = match error {
        PathError::Missing { .. } => "; glob and list_files show what is there",
        PathError::Kind { what, .. } if what == "a directory" => "; list_files shows what is in it",
        PathError::Kind { .. }
        | PathError::Outside { .. }
        | PathError::Protected { .. }
        | PathError::Invalid { .. }
        | PathError::Pattern { .. }
        | PathError::Io { .. } => "",
    };
    ToolError::new(kind, format!("{error}{next}"))
}

/// An input or output error on `path`.
pub(crate) fn io_error(doing: &str, path: &str, error: &std::io::Error) -> ToolError {
    ToolError::failed(format!("cannot {doing} `{path}`: {error}"))
}

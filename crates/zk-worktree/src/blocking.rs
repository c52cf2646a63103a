use crate::WorktreeError;

/// Runs a task that waits for the file system on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    task: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WorktreeError> {
    let done = tokio::task::spawn_blocking(task).await;
    done.map_err(|error| WorktreeError::io("finish", "the task of a copy", error))
}

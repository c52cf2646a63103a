use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use zk_core::model::{Display, Effects, UnifiedDiff};
use zk_core::service::{Files, PathError};

use super::asking::AskedCall;
use super::refusal::{Refusal, parse_params as read_params};
use super::session::{AcpSession, Place};

/// Maximum size of a file that an agent reads or writes, in bytes.
const MAX_FILE_BYTES: usize = 8 << 20;

#[derive(Deserialize)]
struct ReadParams {
    path: PathBuf,
    line: Option<usize>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
struct WriteParams {
    path: PathBuf,
    content: String,
}

/// Reads a file for the agent, through the gates and the file service of the run.
pub(crate) async fn read(agent: &str, session: &AcpSession, params: Value) -> Result<Value, Refusal> {
    let ReadParams { path, line, limit } = read_params(params)?;
    let (place, files) = current_place(session)?;
    let call = AskedCall::new("read_file".to_owned(), Effects::reads([path.clone()]), None);
    let args = json!({ "agent": agent, "path": path });
    call.approve(args, &place).await.map_err(|error| Refusal::failed(error.message))?;
    let text = blocking(move || read_contents(&*files, &place.cwd, &path)).await?;
    let from = line.unwrap_or(1).saturating_sub(1);
    let content: String = match (line, limit) {
        (None, None) => text,
        (_, limit) => text.split_inclusive('\n').skip(from).take(limit.unwrap_or(usize::MAX)).collect(),
    };
    Ok(json!({ "content": content }))
}

/// Writes a file for the agent after the gates of the run approved the diff.
pub(crate) async fn write(agent: &str, session: &AcpSession, params: Value) -> Result<Value, Refusal> {
    let WriteParams { path, content } = read_params(params)?;
    if content.len() > MAX_FILE_BYTES {
        return Err(Refusal::invalid(format!("zk writes files of at most {} MB", MAX_FILE_BYTES >> 20)));
    }
    let (place, files) = current_place(session)?;
    let (reading, cwd, at) = (files.clone(), place.cwd.clone(), path.clone());
    let before = blocking(move || match read_contents(&*reading, &cwd, &at) {
        Err(PathError::Missing { .. }) => Ok(None),
        other => other.map(Some),
    })
    .await?;
    let shown = path.display().to_string();
    let diff = UnifiedDiff::new(before.as_deref().unwrap_or_default(), &content);
    let diff = diff.named(&shown, &shown).to_string();
    let preview = Display::Diff { path: shown, diff };
    let tool = if before.is_some() { "edit" } else { "write_file" };
    let call = AskedCall::new(tool.to_owned(), Effects::writes([path.clone()]), Some(preview));
    call.approve(json!({ "agent": agent, "path": path, "content": content }), &place)
        .await
        .map_err(|error| Refusal::failed(error.message))?;
    blocking(move || {
        // The approved diff applies only to these bytes.
        let now = match read_contents(&*files, &place.cwd, &path) {
            Err(PathError::Missing { .. }) => None,
            other => Some(other?),
        };
        if now != before {
            let (path, why) = (path.display().to_string(), "it changed meanwhile; read it again".into());
            return Err(PathError::Invalid { path, why });
        }
        let at = files.resolve(&place.cwd, &path.to_string_lossy())?;
        files.write(&at, content.as_bytes()).map(|_| ())
    })
    .await?;
    Ok(Value::Null)
}

fn current_place(session: &AcpSession) -> Result<(Place, Arc<dyn Files>), Refusal> {
    let place = session.active_place().ok_or_else(|| Refusal::failed("there is no prompt to do this for"))?;
    let files = place.cx.service::<dyn Files>();
    Ok((place, files.ok_or_else(|| Refusal::failed("zk has no files here"))?))
}

fn read_contents(files: &dyn Files, cwd: &Path, path: &Path) -> Result<String, PathError> {
    let at = files.resolve(cwd, &path.to_string_lossy())?;
    let mut bytes = Vec::new();
    let mut reader = files.open(&at, Some(0..MAX_FILE_BYTES as u64 + 1))?;
    let invalid = |why: String| PathError::Invalid { path: at.shown.clone(), why: why.into() };
    std::io::Read::read_to_end(&mut reader, &mut bytes).map_err(|error| invalid(error.to_string()))?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(invalid(format!("it has more than {} MB", MAX_FILE_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| invalid("it is no text".to_owned()))
}

/// Runs file operations on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PathError> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Refusal::failed(error.to_string()))?
        .map_err(|error| Refusal::failed(error.to_string()))
}

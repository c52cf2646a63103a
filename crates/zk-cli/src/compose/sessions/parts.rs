use std::sync::Arc;

use zk_core::kernel::{BoxError, Plugin, plugin_fn};
use zk_core::service::{Blobs, Files};
use zk_exec::LocalStateFiles;
use zk_replay::ReplayLog;
use zk_session::{FileBlobs, TitlePlugin};
use zk_tools::OutputHandles;

use super::Session;
use crate::app::AppContext;
use crate::exit::{Failure, Outcome};
use crate::{commands, compose, place};

/// Returns the plugins that belong to one session: its large results, its blobs and its recorder.
pub(crate) fn session_parts(app: &AppContext, session: &Session) -> Outcome<Vec<Arc<dyn Plugin>>> {
    let mut parts: Vec<Arc<dyn Plugin>> = Vec::new();
    if let Some(id) = session.open.as_ref().map(|open| open.id().clone()) {
        // Hooks may need the id before the first event that contains it.
        parts.push(Arc::new(plugin_fn("session-id", move |scope| {
            scope.provide_service(Arc::new(id.clone()));
            Ok::<(), BoxError>(())
        })));
    }
    if let Some(dir) = &session.outputs {
        // The journal has files that the model may not read.
        let files = compose::files(&app.work, &app.settings)?.hidden(super::undo::dir(dir));
        let files = files.read_only(dir).map_err(Failure::failed)?;
        // Only files of another machine are reached through a connection.
        let files: Arc<dyn Files> = match app.settings.context().is_on_another_machine() {
            true => place::target(app)?.with_outputs(files, dir),
            false => Arc::new(files),
        };
        let blobs = Arc::new(FileBlobs::new(dir.join("blobs"), Arc::new(LocalStateFiles::default())));
        parts.push(Arc::new(plugin_fn("session-files", move |scope| {
            scope.provide_service::<dyn Files>(files.clone());
            scope.provide_service::<dyn Blobs>(blobs.clone());
            Ok::<(), BoxError>(())
        })));
        parts.push(Arc::new(app.settings.results.spill(dir)));
        parts.push(Arc::new(OutputHandles));
        parts.extend(super::undo::plugin(app, dir).map(|plugin| Arc::new(plugin) as Arc<dyn Plugin>));
    }
    if let (Some(open), true) = (&session.open, session.loaded.messages.is_empty())
        && app.settings.parts.title.is_some()
    {
        let store = super::store(&app.work.machine)?;
        parts.push(Arc::new(TitlePlugin::new(Arc::new(store), open.id().clone())));
    }
    if let Some(recorder) = &session.recorder {
        parts.push(Arc::new(recorder.clone()));
        parts.push(Arc::new(ReplayLog::new()));
        parts.extend(commands::bug_command(app, session));
    }
    Ok(parts)
}

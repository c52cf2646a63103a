use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::service::{NewSession, OpenSession, SessionFilter, SessionInfo, SessionStore, StoreError};
use zk_session::{Loaded, SqliteStore, latest, load_history, open_matching};

use crate::app::AppContext;
use crate::args::Resume;
use crate::exit::{Failure, Outcome};
use crate::term::print_stderr;

/// The session of a run: what it is written into, and what it goes on from.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) open: Option<Arc<dyn OpenSession>>,
    pub(crate) loaded: Loaded,
    pub(crate) resumed: bool,
    /// Where its large results go; a directory that exists.
    pub(crate) outputs: Option<PathBuf>,
}

impl Session {
    fn of(app: &AppContext, open: Arc<dyn OpenSession>) -> Self {
        // Without it large results stay in the history, cut by each tool's own limit.
        let outputs = app.dirs.outputs(open.id()).filter(|dir| make_private(dir).is_ok());
        Self { open: Some(open), outputs, ..Self::default() }
    }

    /// Lets go of the session after everything is written.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        if let Some(outputs) = &self.outputs {
            // It stays when there is something in it.
            let _ = std::fs::remove_dir(outputs);
        }
        match &self.open {
            Some(open) => open.close().await,
            None => Ok(()),
        }
    }
}

/// The store of this user.
pub(crate) fn store(app: &AppContext) -> Outcome<SqliteStore> {
    app.dirs.sessions().map(SqliteStore::new).ok_or_else(|| {
        Failure::usage("there is no place for sessions: set HOME or ZK_HOME, or use --no-session")
    })
}

/// Opens the session asked for, or a new one. A place that cannot be written costs the session, not the run,
/// unless a session was asked for.
pub(crate) async fn begin(app: &AppContext, resume: Option<&Resume>) -> Outcome<Session> {
    let refused = |error: StoreError| Failure::failed(error);
    match resume {
        None if !app.settings.flag("sessions") => Ok(Session::default()),
        None => {
            let created = match store(app).map_err(|failure| failure.message).and_then(writable(app)) {
                Ok(store) => {
                    let new = NewSession { id: None, cwd: app.cwd.clone(), parent: None };
                    store.create(new).await.map_err(|error| error.to_string())
                }
                Err(why) => Err(why),
            };
            match created {
                Ok(open) => Ok(Session::of(app, open)),
                Err(why) => {
                    print_stderr(&format!(
                        "zk: this conversation is not kept: {why} (--no-session says so on purpose)"
                    ));
                    Ok(Session::default())
                }
            }
        }
        Some(Resume::Latest) => {
            let store = store(app)?;
            let newest = latest(&store, &app.cwd).await.map_err(refused)?;
            warn_of_damage(app, &store, newest.as_ref()).await.map_err(refused)?;
            let newest = newest.ok_or_else(|| {
                Failure::usage(format!(
                    "there is no readable session of {} to continue; `zk sessions list --all` lists those of other \
                     directories",
                    app.cwd.display()
                ))
            })?;
            reopen(app, store.open(&newest.id).await.map_err(refused)?).await
        }
        Some(Resume::Id(id)) => {
            let store = store(app)?;
            let open = open_matching(&store, id).await.map_err(|error| match error {
                StoreError::NotFound { .. } => Failure::usage(error.to_string()),
                StoreError::InUse { .. }
                | StoreError::Damaged { .. }
                | StoreError::TooNew { .. }
                | StoreError::Io { .. }
                | StoreError::Failed(_) => refused(error),
            })?;
            reopen(app, open).await
        }
    }
}

/// Whoever asks for the last conversation and gets an older one because the last is damaged hears of it.
async fn warn_of_damage(
    app: &AppContext,
    store: &SqliteStore,
    taken: Option<&SessionInfo>,
) -> Result<(), StoreError> {
    let newest = SessionFilter { cwd: Some(app.cwd.clone()), limit: Some(1) };
    for SessionInfo { id, damaged, .. } in store.list(&newest).await? {
        let Some(why) = damaged else { continue };
        let instead = taken.map(|info| format!("; going on with {}", info.id)).unwrap_or_default();
        print_stderr(&format!(
            "zk: warning: the newest session {id} is damaged ({why}); `zk --resume {id}` tries to read \
             what is left of it{instead}"
        ));
    }
    Ok(())
}

async fn reopen(app: &AppContext, open: Arc<dyn OpenSession>) -> Outcome<Session> {
    for notice in open.notices() {
        print_stderr(&format!("zk: session {}: {notice}", open.id()));
    }
    let loaded = load_history(&open.entries().await.map_err(Failure::failed)?);
    Ok(Session { loaded, resumed: true, ..Session::of(app, open) })
}

/// Makes the store's directory and asks whether it can be written: a read-only home is found before the first
/// request, not when its answer cannot be stored.
fn writable(app: &AppContext) -> impl FnOnce(SqliteStore) -> Result<SqliteStore, String> {
    let root = app.dirs.sessions().unwrap_or_default();
    move |store| {
        make_private(&root)
            .and_then(|()| {
                rustix::fs::access(&root, rustix::fs::Access::WRITE_OK).map_err(std::io::Error::from)
            })
            .map_err(|error| format!("cannot write to {}: {error}", root.display()))?;
        Ok(store)
    }
}

/// Makes a directory that only its owner can look into.
pub(crate) fn make_private(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

use std::net::SocketAddr;
use std::path::Path;

use tokio::signal::unix::{SignalKind, signal};
use zk_core::service::StateFiles;
use zk_exec::LocalStateFiles;
use zk_serve::LoopbackListener;
use zk_serve::sessions::{SessionServer, new_token};
use zk_tui::term::print_stderr;

use crate::app::{AppContext, runtime};
use crate::exit::{Exit, Failure, Outcome};
use crate::session_stores::TOKEN_FILE;
use crate::sessions;

/// Size limit of a token file, in bytes.
const MAX_TOKEN_FILE_BYTES: usize = 4096;

/// Serves the sessions of this user to other zk, until a signal ends it.
pub(crate) fn serve_sessions(
    app: &AppContext,
    address: SocketAddr,
    token_file: Option<&Path>,
) -> Outcome<Exit> {
    let machine = &app.work.machine;
    let no_place =
        || Failure::usage("there is no place for the token of clients: name one with --token-file");
    let path = match token_file {
        Some(path) => app.work.cwd.join(path),
        None => machine.dirs.access().ok_or_else(no_place)?.join(TOKEN_FILE),
    };
    let files = LocalStateFiles::new(machine.host_files.clone());
    let token = match files.read(&path, MAX_TOKEN_FILE_BYTES).map_err(Failure::failed)? {
        Some(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        None => {
            let token = new_token().map_err(Failure::failed)?;
            files.replace(&path, token.as_bytes()).map_err(Failure::failed)?;
            token
        }
    };
    if token.is_empty() {
        return Err(Failure::usage(format!(
            "{} is empty: remove it, and a new token is made",
            path.display()
        )));
    }
    machine.redactor.learn(&token);
    let server = SessionServer::new(sessions::store(machine)?.into_inner(), token);
    runtime()?.block_on(async {
        let cannot = |error| Failure::failed(format!("cannot listen at {address}: {error}"));
        let listener = LoopbackListener::bind(address).await.map_err(cannot)?;
        print_stderr(&format!(
            "zk: sessions at {}, with the token in {}; Ctrl-C ends the server",
            listener.url(),
            path.display()
        ));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        let ended = tokio::select! {
            done = server.serve(&listener) => done.map(|()| Exit::Done).map_err(Failure::failed),
            _ = interrupt.recv() => Ok(Exit::Interrupted),
            _ = terminate.recv() => Ok(Exit::Terminated),
        };
        server.close().await;
        ended
    })
}

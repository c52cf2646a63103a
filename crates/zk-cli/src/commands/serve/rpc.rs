use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use zk_exec::LocalStateFiles;
use zk_serve::rpc::{RpcAccessFile, RpcOptions, RpcServer, RpcSocket, RpcTokens, RpcWebSocket};
use zk_tui::term::print_stderr;

use super::exec_server::stdio_stream_until_written;
use crate::app::{AppContext, Machine, runtime};
use crate::exit::{Exit, Failure, Outcome};
use crate::mode::Launcher;

/// Longest time for the last output to be written to a slow program.
const WRITE_LIMIT: Duration = Duration::from_secs(1);

/// Serves programs that drive zk: one at standard input and output until they end, or any number that
/// connect, until a signal.
pub(crate) fn rpc(app: &AppContext, socket: Option<&Path>, websocket: Option<SocketAddr>) -> Outcome<Exit> {
    let server = server(app)?;
    if socket.is_some() || websocket.is_some() {
        return runtime()?.block_on(until_signal(&server, listen(app, &server, socket, websocket)));
    }
    let (exit, written) = runtime()?.block_on(async {
        let (pipes, written) = stdio_stream_until_written().map_err(Failure::failed)?;
        let serving = async {
            let (from, to) = pipes.into_split();
            server.serve_parent(from, to).await;
            Ok(())
        };
        Ok::<_, Failure>((until_signal(&server, serving).await?, written))
    })?;
    // After the limit the program is considered gone.
    let _ = written.recv_timeout(WRITE_LIMIT);
    Ok(exit)
}

/// Creates a server that opens conversations with this program's settings and plugins.
pub(super) fn server(app: &AppContext) -> Outcome<Arc<RpcServer>> {
    Ok(RpcServer::new(RpcOptions {
        launcher: Arc::new(Launcher::new(app.clone())),
        redactor: app.work.machine.redactor.clone(),
        tokens: RpcTokens::generate().map_err(Failure::failed)?,
        cwd: app.work.cwd.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }))
}

/// Serves until `serving` ends or a signal comes, and then closes all conversations.
pub(super) async fn until_signal(
    server: &RpcServer,
    serving: impl Future<Output = Outcome<()>>,
) -> Outcome<Exit> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
    let ended = tokio::select! {
        done = serving => done.map(|()| Exit::Done),
        _ = interrupt.recv() => Ok(Exit::Interrupted),
        _ = terminate.recv() => Ok(Exit::Terminated),
    };
    server.close().await;
    ended
}

async fn listen(
    app: &AppContext,
    server: &Arc<RpcServer>,
    socket: Option<&Path>,
    websocket: Option<SocketAddr>,
) -> Outcome<()> {
    let cannot =
        |at: String| move |error: io::Error| Failure::failed(format!("cannot listen at {at}: {error}"));
    let socket = match socket {
        Some(path) => Some(RpcSocket::bind(path).await.map_err(cannot(path.display().to_string()))?),
        None => None,
    };
    let websocket = match websocket {
        Some(address) => Some(RpcWebSocket::bind(address).await.map_err(cannot(address.to_string()))?),
        None => None,
    };
    let (path, url) = (socket.as_ref().map(RpcSocket::path), websocket.as_ref().map(RpcWebSocket::url));
    let dir =
        app.work.machine.dirs.access().ok_or_else(|| {
            Failure::usage("there is no place for the token of clients: set HOME or ZK_HOME")
        })?;
    let access = server.tell_access(&LocalStateFiles::default(), &dir, path, url.as_deref());
    let access: RpcAccessFile = access.map_err(Failure::failed)?;
    for at in path.map(|path| path.display().to_string()).into_iter().chain(url) {
        print_stderr(&format!("zk: rpc at {at}"));
    }
    print_stderr(&format!("zk: tokens in {}", access.path().display()));
    let at_socket = async {
        match &socket {
            Some(socket) => server.serve_socket(socket).await,
            None => std::future::pending().await,
        }
    };
    let at_websocket = async {
        match &websocket {
            Some(websocket) => server.serve_websocket(websocket).await,
            None => std::future::pending().await,
        }
    };
    let served = tokio::select! {
        served = at_socket => served,
        served = at_websocket => served,
    };
    served.map_err(Failure::failed)
}

/// Prints the JSON Schema of the messages.
pub(crate) fn rpc_schema(machine: &Machine) -> Outcome<Exit> {
    let schema = serde_json::to_string_pretty(&zk_serve::rpc::rpc_schema()).map_err(Failure::failed)?;
    super::print_text(machine, &schema)
}

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, mpsc};

use tokio::signal::unix::{SignalKind, signal};
use zk_core::service::Files;
use zk_exec::{
    BoundedExec, ContextName, Environment, ExecServer, LocalExec, SocketDir, serve_tunnel, socket_path,
};
use zk_tui::term::print_stderr;

use crate::app::{AppContext, Machine, runtime};
use crate::exit::{Exit, Failure, Outcome};
use crate::{compose, sandbox};

/// Serves the commands and files of this directory: at a socket until a signal ends it, or at standard input
/// and output until they end.
pub(crate) fn exec_server(app: &AppContext, listen: Option<&str>) -> Outcome<Exit> {
    let socket = listen.map(socket_path).transpose().map_err(|error| Failure::usage(error.to_string()))?;
    let environment = Environment::filtered(app.work.machine.env.without_secrets());
    let served = match app.settings.context() {
        ContextName::Process => {
            LocalExec::Process(Arc::new(compose::process_exec(&app.settings, environment)))
        }
        ContextName::Sandbox => {
            LocalExec::Sandbox(Arc::new(sandbox::start(&app.work, &app.settings, environment)?))
        }
        ContextName::Docker(_) | ContextName::Remote(_) | ContextName::Ssh(_) => {
            return Err(Failure::usage(
                "an exec-server runs commands itself: use --run-in process or sandbox",
            ));
        }
    };
    let files = Arc::new(compose::files(&app.work, &app.settings)?);
    runtime()?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        let serving = async {
            match &socket {
                Some(socket) => {
                    let server = bind(socket)?;
                    print_stderr(&format!("zk: serving {} at {}", app.work.cwd.display(), socket.display()));
                    server.serve(served.bounded(), files).await.map_err(Failure::failed)
                }
                None => serve_stdio(&app.work.machine, served.bounded(), files).await,
            }
        };
        let ended = tokio::select! {
            done = serving => done.map(|()| Exit::Done),
            _ = interrupt.recv() => Ok(Exit::Interrupted),
            _ = terminate.recv() => Ok(Exit::Terminated),
        };
        served.close().await;
        ended
    })
}

fn bind(socket: &Path) -> Outcome<ExecServer> {
    ExecServer::bind(socket)
        .map_err(|error| Failure::failed(format!("cannot listen at {}: {error}", socket.display())))
}

/// Serves the program at the other end of standard input and output.
async fn serve_stdio(machine: &Machine, exec: Arc<dyn BoundedExec>, files: Arc<dyn Files>) -> Outcome<()> {
    let dir = SocketDir::make(&machine.env.runtime_dir()).map_err(Failure::failed)?;
    let socket = dir.socket();
    let server = bind(&socket)?;
    let (from, to) = stdio_stream().map_err(Failure::failed)?.into_split();
    tokio::select! {
        done = server.serve(exec, files) => done.map_err(Failure::failed),
        done = serve_tunnel(&socket, from, to) => done.map_err(Failure::failed),
    }
}

/// Returns standard input and output as one stream. Separate threads copy them, so that a blocked read does
/// not delay the program's end.
pub(crate) fn stdio_stream() -> io::Result<tokio::net::UnixStream> {
    Ok(stdio_stream_until_written()?.0)
}

/// Returns standard input and output as one stream, and a receiver that ends once everything is written.
pub(super) fn stdio_stream_until_written() -> io::Result<(tokio::net::UnixStream, mpsc::Receiver<()>)> {
    let (own, other) = UnixStream::pair()?;
    let (input, output) =
        (rustix::io::dup(rustix::stdio::stdin())?, rustix::io::dup(rustix::stdio::stdout())?);
    let typed = other.try_clone()?;
    std::thread::spawn(move || {
        let _ = copy(File::from(input), &typed);
        let _ = typed.shutdown(Shutdown::Write);
    });
    let (writing, written) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = copy(other, File::from(output));
        drop(writing);
    });
    own.set_nonblocking(true)?;
    Ok((tokio::net::UnixStream::from_std(own)?, written))
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(length) => to.write_all(bytes.get(..length).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

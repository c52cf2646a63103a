use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use zk_core::service::Exec;
use zk_exec::{Environment, ExecServer, ProcessExec, SandboxExec};

use crate::app::{AppContext, runtime};
use crate::exit::{Exit, Failure, Outcome};
use crate::place::{self, ContextName};
use crate::term::print_stderr;
use crate::{compose, sandbox};

/// Serves the commands and files of this directory until a signal ends it.
pub(crate) fn exec_server(app: &AppContext, listen: &str) -> Outcome<Exit> {
    let socket = place::socket(listen).map_err(Failure::usage)?;
    let environment = Environment::filtered(app.env.all().clone());
    let served = match ContextName::of(app) {
        ContextName::Process => Served::Process(Arc::new(compose::process(app, environment))),
        ContextName::Sandbox => Served::Sandbox(Arc::new(sandbox::start(app, environment)?)),
        ContextName::Docker(_) | ContextName::Remote(_) => {
            return Err(Failure::usage(
                "an exec-server runs commands itself: use --context process or sandbox",
            ));
        }
    };
    let files = Arc::new(compose::files(app)?);
    runtime()?.block_on(async {
        let server = ExecServer::bind(&socket)
            .map_err(|error| Failure::failed(format!("cannot listen at {}: {error}", socket.display())))?;
        print_stderr(&format!("zk: serving {} at {}", app.cwd.display(), socket.display()));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        let ended = tokio::select! {
            failed = server.serve(served.exec(), files) => failed.map(|()| Exit::Done).map_err(Failure::failed),
            _ = interrupt.recv() => Ok(Exit::Interrupted),
            _ = terminate.recv() => Ok(Exit::Terminated),
        };
        drop(server);
        served.close().await;
        ended
    })
}

/// What runs the commands here.
enum Served {
    Process(Arc<ProcessExec>),
    Sandbox(Arc<SandboxExec>),
}

impl Served {
    fn exec(&self) -> Arc<dyn Exec> {
        match self {
            Self::Process(exec) => exec.clone(),
            Self::Sandbox(exec) => exec.clone(),
        }
    }

    async fn close(&self) {
        match self {
            Self::Process(exec) => exec.close().await,
            Self::Sandbox(exec) => exec.close().await,
        }
    }
}

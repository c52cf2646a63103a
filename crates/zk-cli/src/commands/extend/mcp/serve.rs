//! `zk mcp serve`: zk's tools, and zk itself, for other programs.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use zk_mcp::{McpServer, ServeToken};
use zk_tui::term::print_stderr;

use super::run_tool::RUN;
use super::served_tools::ProgramTools;
use crate::app::{AppContext, Workplace, runtime};
use crate::commands::serve::stdio_stream;
use crate::exit::{Exit, Failure, Outcome};

/// Environment variable with the token that clients must send.
const TOKEN: &str = "ZK_MCP_TOKEN";

/// Serves one client at standard input and output, or at `http` every local client with the token.
pub(super) fn serve(app: &AppContext, http: Option<SocketAddr>) -> Outcome<Exit> {
    app.work.machine.notices.route_to(|text| print_stderr(&format!("zk: {text}")));
    runtime()?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        let tools = Arc::new(ProgramTools::new(app).await?);
        let server = McpServer::new(tools.clone()).instructions(format!(
            "zk, a coding agent, in {}. Its tools work there under its permission mode; what would ask a person is \
             refused. `{RUN}` has zk itself work on a task and gives its answer.",
            app.work.cwd.display()
        ));
        let stop = CancellationToken::new();
        let serving = async {
            match http {
                None => {
                    let (input, output) = stdio_stream().map_err(Failure::failed)?.into_split();
                    server.streams(input, output, stop.clone()).await.map_err(Failure::failed)
                }
                Some(address) => listen(&app.work, &server, address, stop.clone()).await,
            }
        };
        let mut serving = std::pin::pin!(serving);
        let (exit, ended) = tokio::select! {
            done = &mut serving => (Exit::Done, Some(done)),
            _ = interrupt.recv() => (Exit::Interrupted, None),
            _ = terminate.recv() => (Exit::Terminated, None),
        };
        stop.cancel();
        let ended = match ended {
            Some(ended) => ended,
            None => serving.await,
        };
        tools.bus.close().await;
        ended.map(|()| exit)
    })
}

async fn listen(
    work: &Workplace,
    server: &McpServer,
    address: SocketAddr,
    stop: CancellationToken,
) -> Outcome<()> {
    if !address.ip().is_loopback() {
        return Err(Failure::usage(format!("--http {address}: only 127.0.0.1 and [::1] are served")));
    }
    let token = match work.machine.env.text(TOKEN) {
        Some(token) => ServeToken::given(token)
            .map_err(|error| Failure::usage(format!("{TOKEN} cannot be used: {error}")))?,
        None => ServeToken::generate().map_err(Failure::failed)?,
    };
    let cannot = |error: std::io::Error| Failure::failed(format!("cannot listen at {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let bound = listener.local_addr().map_err(cannot)?;
    print_stderr(&format!("zk: serving {} at http://{bound}/mcp", work.cwd.display()));
    if work.machine.env.text(TOKEN).is_none() {
        // Printed without redaction, since the person needs the token.
        print_stderr(&format!("zk: clients send: Authorization: Bearer {}", token.reveal()));
    }
    server.http(listener, token, stop).await.map_err(Failure::failed)
}

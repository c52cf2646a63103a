//! `zk mcp serve`: zk's tools, and zk itself, for other programs.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::Bus;
use zk_core::model::{Concurrency, ToolError, ToolOutput};
use zk_core::service::{Tool, ToolCx};
use zk_mcp::{McpServer, ServeToken, ServedCall, ServedTool, ServedTools};
use zk_tui::term::print_stderr;

use super::run_tool::{RUN, RunTool};
use crate::app::{AppContext, runtime};
use crate::commands::exec_server::pipes;
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Failure, Outcome};
use crate::place::ExecutionTarget;
use crate::sessions::Session;

/// The variable with the token that clients have to know.
const TOKEN: &str = "ZK_MCP_TOKEN";
/// Tools that mean something only in the middle of a run.
const OF_RUNS: [&str; 4] = ["conversation_recall", "todo_read", "todo_write", "tool_search"];

/// Serves one client at standard input and output, or every client of this machine with the token at `http`.
pub(super) fn serve(app: &AppContext, http: Option<SocketAddr>) -> Outcome<Exit> {
    app.notices.route_to(|text| print_stderr(&format!("zk: {text}")));
    runtime()?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        let tools = Arc::new(ProgramTools::new(app).await?);
        let server = McpServer::new(tools.clone()).instructions(format!(
            "zk, a coding agent, in {}. Its tools work there under its permission mode; what would ask a person is \
             refused. `{RUN}` has zk itself work on a task and gives its answer.",
            app.cwd.display()
        ));
        let stop = CancellationToken::new();
        let serving = async {
            match http {
                None => {
                    let (input, output) = pipes().map_err(Failure::failed)?.into_split();
                    server.streams(input, output, stop.clone()).await.map_err(Failure::failed)
                }
                Some(address) => listen(app, &server, address, stop.clone()).await,
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
    app: &AppContext,
    server: &McpServer,
    address: SocketAddr,
    stop: CancellationToken,
) -> Outcome<()> {
    if !address.ip().is_loopback() {
        return Err(Failure::usage(format!("--http {address}: only 127.0.0.1 and [::1] are served")));
    }
    let token = match app.env.text(TOKEN) {
        Some(token) => ServeToken::given(token)
            .map_err(|error| Failure::usage(format!("{TOKEN} cannot be used: {error}")))?,
        None => ServeToken::generate().map_err(Failure::failed)?,
    };
    let cannot = |error: std::io::Error| Failure::failed(format!("cannot listen at {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let bound = listener.local_addr().map_err(cannot)?;
    print_stderr(&format!("zk: serving {} at http://{bound}/mcp", app.cwd.display()));
    if app.env.text(TOKEN).is_none() {
        // Written past what keeps keys out of the output: whoever started this has to know it.
        print_stderr(&format!("zk: clients send: Authorization: Bearer {}", token.reveal()));
    }
    server.http(listener, token, stop).await.map_err(Failure::failed)
}

/// The tools of a bus without a person, and a tool for runs.
struct ProgramTools {
    app: AppContext,
    bus: Bus,
    run: Arc<RunTool>,
    /// Held by a call that has to run alone.
    order: RwLock<()>,
}

impl ProgramTools {
    async fn new(app: &AppContext) -> Outcome<Self> {
        let mut own = app.clone();
        // Tools of other servers are theirs to serve.
        own.settings.leave_out_mcp_servers();
        let bus = compose::bus(&own, &Session::default(), HostOptions::unattended(app)).await?;
        Ok(Self { app: app.clone(), bus, run: Arc::new(RunTool::new(app)), order: RwLock::default() })
    }

    /// A call through everything that a call of a model goes through.
    async fn carry_out(&self, tool: Arc<dyn Tool>, call: ServedCall) -> Result<ToolOutput, ToolError> {
        let ServedCall { args, progress, stop, .. } = call;
        let cx = ToolCx {
            progress,
            ..ToolCx::new(self.bus.cx().with_stop(stop), ExecutionTarget::cwd(&self.app, &self.bus))
        };
        cx.run(tool, args).await?.into_output()
    }
}

/// Keeps the content alone: the display for a person and a tool's own data stay here.
fn content_only(output: ToolOutput) -> ToolOutput {
    ToolOutput { content: output.content, display: None, details: None }
}

#[async_trait]
impl ServedTools for ProgramTools {
    fn list(&self) -> Vec<ServedTool> {
        let place = ToolCx::new(self.bus.cx(), &self.app.cwd).place();
        let nothing = json!({});
        let own = self.bus.items::<dyn Tool>().into_iter();
        let own = own.filter(|tool| !OF_RUNS.contains(&&*tool.name)).map(|tool| ServedTool {
            spec: tool.value.spec().clone(),
            is_read_only: tool.value.effects(&nothing, &place).is_read_only(),
            output_schema: None,
        });
        let mut tools: Vec<ServedTool> = own.chain([self.run.served()]).collect();
        tools.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        tools
    }

    async fn call(&self, call: ServedCall) -> Result<ToolOutput, ToolError> {
        if call.name == RUN {
            // Without the order of the others: it has a bus of its own, and may take long.
            let output = self.carry_out(self.run.clone(), call).await?;
            return Ok(ToolOutput { display: None, ..output });
        }
        let tool = self.bus.item::<dyn Tool>(&call.name);
        let tool = tool.ok_or_else(|| ToolError::failed(format!("there is no tool {}", call.name)))?;
        match tool.concurrency(&call.args) {
            Concurrency::Shared => {
                let _shared = self.order.read().await;
                self.carry_out(tool, call).await.map(content_only)
            }
            Concurrency::Exclusive | Concurrency::Resources(_) => {
                let _alone = self.order.write().await;
                self.carry_out(tool, call).await.map(content_only)
            }
        }
    }
}

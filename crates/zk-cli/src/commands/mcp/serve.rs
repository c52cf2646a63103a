//! `zk mcp serve`: zk's tools, and zk itself, for other programs.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;
use zk_agent::RunOptions;
use zk_core::events::ToolBefore;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Concurrency, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Progress, Tool, ToolCx};
use zk_mcp::{McpServer, ServeToken, ServedCall, ServedTool, ServedTools};
use zk_view::ViewDriver;

use crate::app::{AppContext, runtime};
use crate::args::Resume;
use crate::commands::exec_server::pipes;
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Failure, Outcome};
use crate::place::Place;
use crate::sessions::{self, Session};
use crate::term::print_stderr;

/// The tool that has zk work on a prompt.
const RUN: &str = "run";
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
        let tools = Arc::new(ProgramTools::new(app)?);
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
    /// Held by a call that has to run alone.
    order: RwLock<()>,
}

impl ProgramTools {
    fn new(app: &AppContext) -> Outcome<Self> {
        let mut own = app.clone();
        // What other servers offer is theirs to serve.
        own.settings.leave_out_mcp_servers();
        let bus = compose::bus(&own, &Session::default(), host(app))?;
        Ok(Self { app: app.clone(), bus, order: RwLock::default() })
    }

    /// A call through everything that a call of a model goes through.
    async fn carry_out(&self, tool: Arc<dyn Tool>, call: ServedCall) -> Result<ToolOutput, ToolError> {
        let ServedCall { args, progress, stop, .. } = call;
        let cx = ToolCx {
            progress,
            ..ToolCx::new(self.bus.cx().with_stop(stop), Place::cwd(&self.app, &self.bus))
        };
        let output = cx.run(tool, args).await?.into_output();
        // What is shown to a person and a tool's own data stay here.
        output.map(|output| ToolOutput { content: output.content, display: None, details: None })
    }
}

/// Nobody is there to be asked.
fn host(app: &AppContext) -> HostOptions {
    let allow_all = app.settings.flag("permissions.allow_all");
    HostOptions { ui: None, questions: None, allow_all, view: ViewDriver::new() }
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
        let mut tools: Vec<ServedTool> = own.chain([run_tool()]).collect();
        tools.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        tools
    }

    async fn call(&self, call: ServedCall) -> Result<ToolOutput, ToolError> {
        if call.name == RUN {
            return run(&self.app, call).await;
        }
        let tool = self.bus.item::<dyn Tool>(&call.name);
        let tool = tool.ok_or_else(|| ToolError::failed(format!("there is no tool {}", call.name)))?;
        match tool.concurrency(&call.args) {
            Concurrency::Shared => {
                let _shared = self.order.read().await;
                self.carry_out(tool, call).await
            }
            Concurrency::Exclusive | Concurrency::Resources(_) => {
                let _alone = self.order.write().await;
                self.carry_out(tool, call).await
            }
        }
    }
}

fn run_tool() -> ServedTool {
    let schema = json!({
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "description": "What to do, with everything zk has to know for it"},
            "session": {"type": "string", "description": "The session of an earlier answer, to go on with it"},
        },
        "required": ["prompt"],
    });
    let output = json!({
        "type": "object",
        "properties": {
            "answer": {"type": "string"},
            "session": {"type": "string", "description": "Goes on with this conversation"},
        },
        "required": ["answer"],
    });
    let about = "Has zk, a coding agent, work on a task in the project, and gives its answer.";
    ServedTool {
        spec: Arc::new(ToolSpec::clone(&ToolSpec::new(RUN, about, schema))),
        is_read_only: false,
        output_schema: Some(output),
    }
}

/// One run as `zk -p` has it, with a session and a bus of its own.
async fn run(app: &AppContext, call: ServedCall) -> Result<ToolOutput, ToolError> {
    let text =
        |name: &str| call.args.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let Some(prompt) = text("prompt") else { return Err(ToolError::failed("`prompt` is required")) };
    let resume = text("session").map(|id| Resume::Id(id.to_owned()));
    let failed = |failure: Failure| ToolError::failed(failure.message);
    let session = sessions::begin(app, resume.as_ref()).await.map_err(failed)?;
    let id = session.open.as_ref().map(|open| open.id().to_string());
    let ran = drive(app, &session, prompt, &call.progress, &call.stop).await;
    let closed = session.close().await;
    let answer = ran?;
    closed.map_err(|error| ToolError::failed(format!("session not saved: {error}")))?;
    let mut details = json!({ "answer": answer });
    if let (Some(id), Value::Object(details)) = (id, &mut details) {
        details.insert("session".to_owned(), id.into());
    }
    Ok(ToolOutput { details: Some(details), ..ToolOutput::text(answer) })
}

async fn drive(
    app: &AppContext,
    session: &Session,
    prompt: &str,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<String, ToolError> {
    let failed = |failure: Failure| ToolError::failed(failure.message);
    let endpoint = app.endpoint().await.map_err(failed)?;
    let provider = compose::provider(app, &endpoint).await.map_err(failed)?;
    let bus = compose::bus(app, session, host(app)).map_err(failed)?;
    let shown = progress.clone();
    bus.scope("served-run").on_sync(move |event: &ToolBefore, _: &Cx| shown.show(&event.summary));
    let outcome = async {
        let model = compose::model(app, &*provider, session).await.map_err(failed)?;
        let agent = compose::agent(app, &bus, provider, model, session).map_err(failed)?;
        let run =
            agent.run(RunOptions::from(prompt)).map_err(|error| ToolError::failed(error.to_string()))?;
        let handle = run.handle();
        let mut wait = std::pin::pin!(run.wait());
        let outcome = tokio::select! {
            outcome = &mut wait => outcome,
            () = stop.cancelled() => {
                handle.abort_because("the client gave it up");
                wait.await
            }
        };
        agent.close().await;
        outcome.result.map_err(|error| ToolError::failed(app.redactor.redact(&error.to_string())))?;
        Ok(app.redactor.redact(&outcome.text).into_owned())
    }
    .await;
    bus.close().await;
    outcome
}

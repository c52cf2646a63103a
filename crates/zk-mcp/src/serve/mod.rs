//! zk as a server: offers its tools to other programs.

mod handler;
mod http;

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use rmcp::service::serve_server_with_ct;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use zk_core::model::{ToolError, ToolOutput, ToolSpec};
use zk_core::service::Progress;

use handler::Handler;
pub use http::ServeToken;

/// Tools that an [`McpServer`] offers, and their execution.
#[async_trait]
pub trait ServedTools: Send + Sync {
    /// Tools, in a stable order.
    fn list(&self) -> Vec<ServedTool>;

    /// Runs a call of an offered tool under the host's policy; no person can be asked.
    ///
    /// # Errors
    /// [`ToolError`], which is sent as a failed result.
    async fn call(&self, call: ServedCall) -> Result<ToolOutput, ToolError>;
}

/// A tool offered to clients.
#[derive(Clone, Debug)]
pub struct ServedTool {
    /// Name, description and schema of the arguments.
    pub spec: Arc<ToolSpec>,
    /// Whether no call of the tool has side effects, as a hint for clients.
    pub is_read_only: bool,
    /// JSON Schema of [`ToolOutput::details`], for a tool with structured results.
    pub output_schema: Option<Value>,
}

/// A call of an offered tool.
#[derive(Clone, Debug)]
pub struct ServedCall {
    /// Name of the tool.
    pub name: String,
    /// Arguments as sent by the client: an object, not validated against the schema.
    pub args: Value,
    /// Receives output while the call runs.
    pub progress: Progress,
    /// Cancelled when the client cancels the call or disconnects.
    pub stop: CancellationToken,
}

/// A Model Context Protocol server, in all revisions, for one set of tools.
///
/// ```no_run
/// # async fn serve(tools: std::sync::Arc<dyn zk_mcp::ServedTools>) -> std::io::Result<()> {
/// use tokio_util::sync::CancellationToken;
/// use zk_mcp::{McpServer, ServeToken};
///
/// let server = McpServer::new(tools).instructions("Tools for the project in /srv/app.");
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// server.http(listener, ServeToken::generate()?, CancellationToken::new()).await
/// # }
/// ```
#[derive(Clone)]
pub struct McpServer {
    tools: Arc<dyn ServedTools>,
    instructions: Option<String>,
}

impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpServer").finish_non_exhaustive()
    }
}

impl McpServer {
    /// Creates a server for `tools`.
    pub fn new(tools: Arc<dyn ServedTools>) -> Self {
        Self { tools, instructions: None }
    }

    /// Sets the usage instructions for clients.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Serves one client over a pair of streams, until its input ends or `stop` is cancelled. Running calls
    /// are cancelled then.
    ///
    /// # Errors
    /// The transport's message, when client and server cannot agree on a revision.
    pub async fn streams(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        stop: CancellationToken,
    ) -> io::Result<()> {
        serve_streams(self.handler(), Box::new(input), Box::new(output), stop).await
    }

    fn handler(&self) -> Handler {
        Handler { tools: self.tools.clone(), instructions: self.instructions.clone() }
    }
}

/// A boxed future, so that it is compiled in this crate instead of in each crate that awaits it.
fn serve_streams(
    handler: Handler,
    input: Box<dyn AsyncRead + Send + Unpin>,
    output: Box<dyn AsyncWrite + Send + Unpin>,
    stop: CancellationToken,
) -> BoxFuture<'static, io::Result<()>> {
    let starting: BoxFuture<'static, _> =
        Box::pin(serve_server_with_ct(handler, (input, output), stop.clone()));
    Box::pin(async move {
        let served = starting.await;
        let service = match served {
            Ok(service) => service,
            // The client disconnected, or the host is ending.
            Err(_) if stop.is_cancelled() => return Ok(()),
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(io::Error::other(error.to_string())),
        };
        service.waiting().await.map(|_| ()).map_err(io::Error::other)
    })
}

//! Transport to a program: messages as lines on its standard input and output.

mod frame;
mod pump;

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;
use zk_core::service::{Exec, ExecError, ExecRequest, Input};

use crate::config::secret_values::SecretValues;
use crate::config::server_transport::ServerTransport;
use pump::{Order, Pump};

/// Maximum number of messages that wait for their reader.
const MAX_WAITING_MESSAGES: usize = 32;
/// Maximum kept size of the program's standard error, in bytes.
const MAX_SAID_BYTES: usize = 8 << 10;

/// Receiver of the program's standard error, for a log.
pub(crate) type LogSink = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// End of a program's standard error.
#[derive(Clone, Default)]
pub(crate) struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    fn append(&self, bytes: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(bytes);
        let above = said.len().saturating_sub(MAX_SAID_BYTES);
        said.drain(..above);
    }

    /// Joins the last lines into one, without control characters, of at most `limit` characters.
    pub(crate) fn tail(&self, limit: usize) -> String {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&said);
        let line: Vec<&str> = text.split_whitespace().collect();
        let line: String = line.join(" ").chars().filter(|c| !c.is_control()).collect();
        let skip = line.chars().count().saturating_sub(limit);
        line.chars().skip(skip).collect()
    }
}

/// A message could not be sent to the program.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Gone(String);

/// Connection to a program. Dropping it ends the program.
pub(crate) struct StdioTransport {
    orders: mpsc::Sender<Order>,
    messages: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    over: Option<oneshot::Receiver<()>>,
    fault: Arc<Mutex<Option<String>>>,
}

impl StdioTransport {
    /// Starts the program of a server in `cwd`, or in the directory of its settings.
    pub(crate) async fn start(
        exec: &dyn Exec,
        server: &ServerTransport,
        project: &Path,
        said: Said,
        log: Option<LogSink>,
        pumps: &TaskTracker,
    ) -> Result<Self, ExecError> {
        let process = exec.spawn(exec_request(server, project)).await?;
        let (orders, inbox) = mpsc::channel(MAX_WAITING_MESSAGES);
        let (outbox, messages) = mpsc::channel(MAX_WAITING_MESSAGES);
        let (done, over) = oneshot::channel();
        let fault = Arc::new(Mutex::new(None));
        let pump = Pump::new(process, outbox, said, log, fault.clone());
        pumps.spawn(async move {
            pump.run(inbox).await;
            let _ = done.send(());
        });
        Ok(Self { orders, messages, over: Some(over), fault })
    }

    /// Returns the cell with the cause of the connection's end, filled if the program caused it.
    pub(crate) fn fault(&self) -> Arc<Mutex<Option<String>>> {
        self.fault.clone()
    }
}

fn exec_request(server: &ServerTransport, project: &Path) -> ExecRequest {
    let (command, args, env, cwd) = match server {
        ServerTransport::Stdio { command, args, env, cwd } => {
            (command.as_str(), &args[..], Some(env), cwd.as_deref())
        }
        ServerTransport::Http { .. } => ("", &[][..], None, None),
    };
    let cwd = cwd.map_or(project.to_path_buf(), |cwd| project.join(cwd));
    let mut request = ExecRequest { input: Input::Piped, ..ExecRequest::new(command, cwd) };
    request.args = args.iter().map(OsString::from).collect();
    for name in ["CLAUDE_PROJECT_DIR", "ZK_PROJECT_DIR"] {
        request.env.insert(name.into(), project.into());
    }
    let env = env.into_iter().flat_map(SecretValues::iter);
    request.env.extend(env.map(|(name, value)| (name.into(), value.into())));
    request
}

impl Transport<RoleClient> for StdioTransport {
    type Error = Gone;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (orders, fault) = (self.orders.clone(), self.fault.clone());
        async move {
            let mut line = serde_json::to_vec(&item).map_err(|error| Gone(error.to_string()))?;
            line.push(b'\n');
            let (written, wrote) = oneshot::channel();
            let gone = || {
                let fault = fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Gone(fault.unwrap_or_else(|| "its program has ended".to_owned()))
            };
            orders.send(Order::Write { line, written }).await.map_err(|_| gone())?;
            wrote.await.map_err(|_| gone())?.map_err(Gone)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // Messages that the program still sends have no reader, and must not keep it from ending.
        self.messages.close();
        let _ = self.orders.send(Order::End).await;
        if let Some(over) = self.over.take() {
            let _ = over.await;
        }
        Ok(())
    }
}

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use zk_chat::ConversationLauncher;

use super::requests::Agent;
use super::wire::{Peer, RpcError};
use crate::{LineError, LineReader, LineWriter};

/// Longest time for sessions to end once the editor is gone.
const CLOSE_LIMIT: Duration = Duration::from_millis(3500);

/// Choices for [`serve_acp`].
#[derive(Clone, Debug, Default)]
pub struct AcpOptions {
    /// Version of the program, as the editor shows it.
    pub version: String,
    /// Signal that ends the server as the end of the input does.
    pub stop: CancellationToken,
}

/// Serves an editor until its input ends; then every session is closed and stored. Only messages of the
/// protocol are written to the output.
pub async fn serve_acp(
    launcher: Arc<dyn ConversationLauncher>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    options: AcpOptions,
) {
    let AcpOptions { version, stop } = options;
    let writer = LineWriter::new(output);
    let peer = Arc::new(Peer::new(writer.clone()));
    let agent = Arc::new(Agent::new(launcher, peer.clone(), version));
    let mut lines = LineReader::new(input);
    loop {
        let line = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = writer.gone() => break,
            line = lines.next() => line,
        };
        match line {
            Ok(Some(line)) => handle_line(&agent, &peer, &line),
            Ok(None) | Err(LineError::Failed(_)) => break,
            Err(error @ (LineError::TooLong { .. } | LineError::NotUtf8)) => {
                peer.respond(&Value::Null, Err(RpcError::new(RpcError::PARSE, error.to_string())));
            }
        }
    }
    peer.close();
    // A session that cannot end in time ends with the process.
    let _ = timeout(CLOSE_LIMIT, agent.close()).await;
    writer.close().await;
}

fn handle_line(agent: &Arc<Agent>, peer: &Peer, line: &str) {
    let refuse = |code, why: &str| peer.respond(&Value::Null, Err(RpcError::new(code, why)));
    let mut message: Value = match serde_json::from_str(line) {
        Ok(message) => message,
        Err(error) => return refuse(RpcError::PARSE, &format!("a line is no JSON: {error}")),
    };
    let Some(fields) = message.as_object_mut() else {
        return refuse(RpcError::REQUEST, "a line is no message: batches are not part of this protocol");
    };
    let params = fields.remove("params").unwrap_or(Value::Null);
    let id = fields.get("id").cloned();
    match (fields.get("method"), id) {
        (Some(Value::String(method)), None) => agent.handle_notification(method, &params),
        (Some(Value::String(method)), Some(id)) if id.is_number() || id.is_string() => {
            agent.handle_request(method, id, params);
        }
        (None, Some(_)) if fields.contains_key("result") || fields.contains_key("error") => {
            peer.accept_answer(&message);
        }
        _ => refuse(RpcError::REQUEST, "a line is neither a request, a notification nor an answer"),
    }
}

//! The protocol by which an Agent SDK record_prompt_to the program that it starts.

mod args;
mod channel;
mod controls;
mod hooks;
mod host;
mod names;
mod opening;
mod output;
mod permission;
mod provider;
mod result;
mod tools;
mod transcript;
mod turns;
mod wire;

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc};
use zk_chat::ConversationLauncher;

pub use args::SdkArgs;
pub use host::{NoticeSink, SdkOptions};

use crate::{LineError, LineReader, LineWriter};
use channel::Channel;
use host::Host;
use result::{Counted, Ended};
use turns::Prompt;

/// Reason why a host cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum SdkError {
    /// A line that is not part of the protocol.
    #[error("cannot read a line of the SDK host: {0}")]
    Malformed(String),
    /// Input that cannot be read.
    #[error("the input of the SDK host: {0}")]
    Input(#[from] LineError),
}

/// Serves an Agent SDK until its input ends and everything is answered. Returns whether the last prompt
/// succeeded.
///
/// # Errors
/// [`SdkError`] for input that is none of the protocol.
pub async fn serve_agent_sdk(
    launcher: Arc<dyn ConversationLauncher>,
    options: SdkOptions,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<bool, SdkError> {
    let route_notices = options.route_notices.clone();
    let channel = Channel::new(LineWriter::new(output), options.redactor.clone());
    let host = Arc::new(Host::new(launcher, options, channel));
    let notices = Arc::downgrade(&host);
    route_notices(Arc::new(move |text| {
        if let Some(host) = notices.upgrade() {
            host.warn_host(text);
        }
    }));
    let (prompts, receiver) = mpsc::unbounded_channel();
    let turns = tokio::spawn(turns::serve_prompts(host.clone(), receiver));
    let mut serving = Serving { host: host.clone(), prompts, began: false, failed: Arc::default() };
    let failed = serving.failed.clone();
    let mut lines = LineReader::new(input);
    let read = loop {
        let line = tokio::select! {
            line = lines.next() => line,
            () = failed.notified() => {
                turns.abort();
                host.channel.finish().await;
                return Ok(false);
            }
        };
        match line {
            Ok(Some(line)) => {
                if let Err(error) = serving.handle_line(&line) {
                    break Err(error);
                }
            }
            Ok(None) | Err(LineError::Failed(_)) => break Ok(()),
            Err(error) => break Err(error.into()),
        }
    };
    host.channel.close_answers();
    let began = serving.began;
    drop(serving);
    let ended = async {
        if !began {
            return true;
        }
        // A failed start is reported, also to a host that closed its input meanwhile.
        host.conversation().await;
        turns.await.unwrap_or(false)
    };
    let went_well = tokio::select! {
        went_well = ended => went_well,
        () = failed.notified() => false,
    };
    host.close().await;
    host.set_conversation(None);
    host.channel.finish().await;
    read.map(|()| went_well)
}

/// Reader of the host's lines. It opens the conversation and passes on prompts, requests and answers.
struct Serving {
    host: Arc<Host>,
    prompts: mpsc::UnboundedSender<Prompt>,
    /// Whether a conversation is being opened.
    began: bool,
    failed: Arc<Notify>,
}

impl Serving {
    fn handle_line(&mut self, line: &str) -> Result<(), SdkError> {
        let line: Value =
            serde_json::from_str(line).map_err(|error| SdkError::Malformed(error.to_string()))?;
        match line.get("type").and_then(Value::as_str) {
            Some("user") => {
                let no_prompt = || SdkError::Malformed("a user line needs a message of role user".to_owned());
                let prompt = Prompt::read(&line).ok_or_else(no_prompt)?;
                self.begin_opening(None, Value::Null);
                // The task of the turns ends only after this sender.
                let _ = self.prompts.send(prompt);
            }
            Some("control_request") => {
                let id = line.get("request_id").and_then(Value::as_str).unwrap_or_default().to_owned();
                let request = line.get("request").cloned().unwrap_or_default();
                if request.get("subtype").is_some_and(|subtype| subtype == "initialize") && !self.began {
                    self.begin_opening(Some(id), request);
                } else {
                    self.begin_opening(None, Value::Null);
                    let host = self.host.clone();
                    tokio::spawn(async move { host.control(&id, &request).await });
                }
            }
            Some("control_response") => {
                if let Some(response) = line.get("response") {
                    self.host.channel.accept_answer(response);
                }
            }
            // Lines of types that only later hosts send.
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Opens the conversation, once.
    fn begin_opening(&mut self, id: Option<String>, first: Value) {
        if std::mem::replace(&mut self.began, true) {
            return;
        }
        *self.host.first.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = first;
        let (host, failed) = (self.host.clone(), self.failed.clone());
        tokio::spawn(async move {
            match host.open().await {
                Ok(()) => {
                    if let Some(id) = id {
                        host.channel.answer(&id, Ok(host.initialize_reply().await));
                    }
                }
                Err(why) => {
                    host.send_result(
                        &Ended::failed(why),
                        Counted { stop: json!(null), ..Counted::default() },
                        std::time::Instant::now(),
                    );
                    failed.notify_one();
                }
            }
        });
    }
}

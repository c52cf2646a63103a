use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zk_chat::HostedOutcome;
use zk_view::Intent;

use crate::rpc::client::Client;
use crate::rpc::message::RpcError;
use crate::rpc::wire::attach::{Nothing, Role};
use crate::rpc::wire::conversation::{
    AnswerParams, CommandParams, CommandResult, ConversationParams, Queue, QueuedText, SteerParams,
    SubmitParams, UnqueueParams,
};

/// Commands that widen what runs without asking or what is reached, or touch keys, once they have arguments.
const COMMANDS_OF_APPROVERS: [&str; 7] =
    ["add-dir", "config", "login", "logout", "mcp", "permissions", "provider"];

pub(super) async fn submit(client: &Arc<Client>, params: SubmitParams) -> Result<Nothing, RpcError> {
    let shared = client.server.conversation(&params.conversation)?;
    let hosted = shared.hosted()?;
    let mut text = params.text;
    for image in &params.images {
        let bytes = STANDARD.decode(image).map_err(|error| RpcError::field("images", error))?;
        let mark = hosted.attach_image(&bytes).map_err(|why| RpcError::field("images", why))?;
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&mark);
    }
    if text.trim().is_empty() {
        return Err(RpcError::field("text", "a prompt is not empty"));
    }
    client.drives(&params.conversation);
    shared.intent(&Intent::Submit { text })?;
    Ok(Nothing {})
}

pub(super) async fn steer(client: &Arc<Client>, params: SteerParams) -> Result<Nothing, RpcError> {
    let shared = client.server.conversation(&params.conversation)?;
    if params.text.trim().is_empty() {
        return Err(RpcError::field("text", "a text is not empty"));
    }
    client.drives(&params.conversation);
    shared.intent(&Intent::Steer { text: params.text })?;
    Ok(Nothing {})
}

pub(super) async fn queue(client: &Arc<Client>, params: ConversationParams) -> Result<Queue, RpcError> {
    let hosted = client.server.conversation(&params.conversation)?.hosted()?.clone();
    let queued = hosted.view().view().queue.into_iter();
    let queued = queued.map(|text| QueuedText { id: text.id, steers: text.steers, text: text.text });
    Ok(Queue { queued: queued.collect() })
}

pub(super) async fn unqueue(client: &Arc<Client>, params: UnqueueParams) -> Result<Nothing, RpcError> {
    let shared = client.server.conversation(&params.conversation)?;
    let queue = shared.hosted()?.view().view().queue;
    if !queue.iter().any(|text| text.id == params.id) {
        return Err(RpcError::field("id", "no text of that number waits"));
    }
    shared.intent(&Intent::Unqueue { id: params.id })?;
    Ok(Nothing {})
}

pub(super) async fn stop(client: &Arc<Client>, params: ConversationParams) -> Result<Nothing, RpcError> {
    client.server.conversation(&params.conversation)?.intent(&Intent::Stop)?;
    Ok(Nothing {})
}

pub(super) async fn answer(client: &Arc<Client>, params: AnswerParams) -> Result<Nothing, RpcError> {
    let shared = client.server.conversation(&params.conversation)?;
    shared.answer(client.id(), params.id, params.digest.0, params.answer)?;
    Ok(Nothing {})
}

pub(super) async fn command(client: &Arc<Client>, params: CommandParams) -> Result<CommandResult, RpcError> {
    let line = params.line.trim().trim_start_matches('/');
    let (name, args) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if COMMANDS_OF_APPROVERS.contains(&name) && !args.trim().is_empty() {
        client.require(Role::Approver, &format!("`/{name}` with arguments"))?;
    }
    let shared = client.server.conversation(&params.conversation)?;
    let hosted = shared.hosted()?;
    let outcome = hosted.run_command(line).await.map_err(RpcError::failed)?;
    let result = match &outcome {
        HostedOutcome::Done => CommandResult::default(),
        HostedOutcome::Said(text) => CommandResult { said: text.clone(), ..CommandResult::default() },
        HostedOutcome::Prompt(_) => {
            client.drives(&params.conversation);
            shared.journal.unsettle();
            CommandResult { prompted: true, ..CommandResult::default() }
        }
        HostedOutcome::Reloaded(warnings) => {
            CommandResult { said: warnings.join("\n"), ..CommandResult::default() }
        }
        HostedOutcome::Quit => CommandResult { ended: true, ..CommandResult::default() },
    };
    hosted.follow(outcome, |_| ());
    Ok(result)
}

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zk_chat::{HostedConversation, HostedOutcome, OWN_COMMANDS};
use zk_view::Intent;

use crate::rpc::client::Client;
use crate::rpc::message::RpcError;
use crate::rpc::wire::attach::{Nothing, Role};
use crate::rpc::wire::conversation::{
    AnswerParams, CommandParams, CommandResult, ConversationParams, Queue, QueuedText, SteerParams,
    SubmitParams, SubmitResult, UnqueueParams,
};
use crate::rpc::wire::refusal::Refusal;

/// Commands of zk to which a driver may pass arguments. None of them allows more without asking, reaches
/// more, changes keys, or writes outside of calls.
const COMMANDS_OF_DRIVERS: [&str; 19] = [
    "back", "btw", "clear", "compact", "context", "cost", "effort", "help", "init", "label", "models", "new",
    "recap", "review", "show", "status", "thinking", "tools", "tree",
];

/// Commands that need an approver even without arguments, or that belong to another crate.
const COMMANDS_OF_APPROVERS: [&str; 5] = ["backend", "export", "login", "logout", "mcp"];

/// Most images of a prompt.
const MAX_IMAGES: usize = 20;

/// Maximum number of queued texts of a conversation.
const MAX_WAITING_TEXTS: usize = 256;

pub(super) async fn submit(client: &Arc<Client>, params: SubmitParams) -> Result<SubmitResult, RpcError> {
    let shared = client.server.conversation(&params.conversation)?;
    let hosted = shared.hosted()?;
    let wrong = |why: String| RpcError::field("images", why);
    if params.images.len() > MAX_IMAGES {
        return Err(wrong(format!("a prompt has at most {MAX_IMAGES} images, not {}", params.images.len())));
    }
    let decoded = params.images.iter().map(|image| STANDARD.decode(image));
    let images: Vec<Vec<u8>> = decoded.collect::<Result<_, _>>().map_err(|error| wrong(error.to_string()))?;
    ensure_queue_room(hosted)?;
    let mut text = params.text;
    for bytes in &images {
        let mark = hosted.attach_image(bytes).map_err(wrong)?;
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&mark);
    }
    if text.trim().is_empty() {
        return Err(RpcError::field("text", "a prompt is not empty"));
    }
    client.record_prompt_to(&params.conversation);
    Ok(SubmitResult { seq: shared.intent(&Intent::Submit { text })? })
}

pub(super) async fn steer(client: &Arc<Client>, params: SteerParams) -> Result<SubmitResult, RpcError> {
    let shared = client.server.conversation(&params.conversation)?;
    if params.text.trim().is_empty() {
        return Err(RpcError::field("text", "a text is not empty"));
    }
    ensure_queue_room(shared.hosted()?)?;
    client.record_prompt_to(&params.conversation);
    Ok(SubmitResult { seq: shared.intent(&Intent::Steer { text: params.text })? })
}

/// Fails if the queue of texts is full.
fn ensure_queue_room(hosted: &HostedConversation) -> Result<(), RpcError> {
    if hosted.view().view().queue.len() < MAX_WAITING_TEXTS {
        return Ok(());
    }
    let why = format!("{MAX_WAITING_TEXTS} texts wait for their turn: send this one again later");
    Err(RpcError::new(Refusal::TooMany, why))
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
    shared.answer(client.id(), params.id, params.digest, params.answer)?;
    Ok(Nothing {})
}

pub(super) async fn command(client: &Arc<Client>, params: CommandParams) -> Result<CommandResult, RpcError> {
    let line = &params.line;
    let shared = client.server.conversation(&params.conversation)?;
    let hosted = shared.hosted()?;
    // The permission is checked for the command that would run, however the line spells it.
    if let Some((name, args)) = hosted.find_command(line) {
        let is_own = OWN_COMMANDS.contains(&name.as_str());
        let is_free = args.trim().is_empty() || !is_own || COMMANDS_OF_DRIVERS.contains(&name.as_str());
        if !is_free || COMMANDS_OF_APPROVERS.contains(&name.as_str()) {
            client.require(Role::Approver, &format!("`/{name}`"))?;
        }
    }
    let _asking = shared.journal.begin_request();
    let outcome = hosted.run_command(line).await.map_err(RpcError::failed)?;
    let result = match &outcome {
        HostedOutcome::Done => CommandResult::default(),
        HostedOutcome::Said(text) => CommandResult { said: text.clone(), ..CommandResult::default() },
        HostedOutcome::Prompt(_) => {
            client.record_prompt_to(&params.conversation);
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

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zk_agent::{RunOptions, RunOutcome};
use zk_chat::HostedOutcome;
use zk_core::model::{AgentError, Block, ErrorKind, Image, StopReason};

use super::session::Session;
use super::wire::RpcError;

/// Most bytes of an image: more is refused by most providers.
const MAX_IMAGE_BYTES: usize = 5 << 20;

/// Media types of images that models see.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Prompt of an editor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Prompt {
    blocks: Vec<Block>,
    /// Texts alone, for commands and titles.
    text: String,
}

impl Prompt {
    /// Reads the content blocks of a prompt.
    pub(super) fn read(params: &Value) -> Result<Self, RpcError> {
        let blocks = params.get("prompt").and_then(Value::as_array);
        let blocks =
            blocks.ok_or_else(|| RpcError::params("session/prompt: `prompt` is no list of content"))?;
        let mut prompt = Self::default();
        for block in blocks {
            prompt.add(block)?;
        }
        if prompt.blocks.is_empty() {
            return Err(RpcError::params("session/prompt: the prompt is empty"));
        }
        Ok(prompt)
    }

    fn add(&mut self, block: &Value) -> Result<(), RpcError> {
        let text = |name: &str| {
            let text = block.get(name).and_then(Value::as_str);
            text.ok_or_else(|| RpcError::params(format!("a part of the prompt has no `{name}`")))
        };
        let added = match text("type")? {
            "text" => {
                let text = text("text")?;
                self.text.push_str(text);
                Block::text(text)
            }
            "image" => image(text("mimeType")?, text("data")?)?,
            "resource_link" => Block::text(format!("[{}]({})", text("name")?, path_or_uri(text("uri")?))),
            "resource" => {
                let resource = block.get("resource");
                resource_block(
                    resource.ok_or_else(|| RpcError::params("a resource of the prompt is empty"))?,
                )?
            }
            other => {
                let why =
                    format!("zk does not take `{other}` in prompts: its capabilities name what it does");
                return Err(RpcError::params(why));
            }
        };
        self.blocks.push(added);
        Ok(())
    }
}

fn image(media_type: &str, data: &str) -> Result<Block, RpcError> {
    if !IMAGE_TYPES.contains(&media_type) {
        return Err(RpcError::params(format!(
            "models see no `{media_type}`, only {}",
            IMAGE_TYPES.join(", ")
        )));
    }
    let bytes = STANDARD.decode(data).map_err(|_| RpcError::params("an image of the prompt is no base64"))?;
    if bytes.len() > MAX_IMAGE_BYTES {
        return Err(RpcError::params(format!("an image has {} bytes, and may have 5 MB", bytes.len())));
    }
    Ok(Block::Image(Image::new(media_type, data)))
}

/// Content of a resource, named before it.
fn resource_block(resource: &Value) -> Result<Block, RpcError> {
    let field = |name: &str| resource.get(name).and_then(Value::as_str);
    let uri = field("uri").ok_or_else(|| RpcError::params("a resource of the prompt has no `uri`"))?;
    match (field("text"), field("blob")) {
        (Some(text), _) => {
            let text = super::told::fenced(text, "");
            Ok(Block::text(format!("{}:\n{text}", path_or_uri(uri))))
        }
        (None, Some(blob)) => match field("mimeType") {
            Some(media_type) if IMAGE_TYPES.contains(&media_type) => image(media_type, blob),
            _ => Ok(Block::text(format!("{} (its bytes are no text)", path_or_uri(uri)))),
        },
        (None, None) => Err(RpcError::params("a resource of the prompt has neither text nor blob")),
    }
}

/// Path of a file, or any other URI unchanged.
fn path_or_uri(uri: &str) -> &str {
    uri.strip_prefix("file://").filter(|path| path.starts_with('/') && !path.contains('%')).unwrap_or(uri)
}

/// Runs a prompt to its end and returns the answer of its request. All updates about it are sent before.
pub(super) async fn run(
    session: &Arc<Session>,
    prompt: Prompt,
    stop: &CancellationToken,
) -> Result<Value, RpcError> {
    session.begin_updates();
    let title = prompt.text.clone();
    let result = run_or_command(session, prompt, stop).await;
    if result.is_ok() {
        session.send_title(&title);
    }
    session.send_choices(None).await;
    session.flush_updates().await;
    let reason = if stop.is_cancelled() { "cancelled" } else { result? };
    Ok(json!({ "stopReason": reason }))
}

async fn run_or_command(
    session: &Arc<Session>,
    prompt: Prompt,
    stop: &CancellationToken,
) -> Result<&'static str, RpcError> {
    let text = match session.command(&prompt.text).await {
        None => return run_model(session, prompt.blocks, stop).await,
        Some(Err(why)) => why,
        Some(Ok(())) => {
            let ran = stop.run_until_cancelled(session.hosted.run_command(&prompt.text)).await;
            match ran.unwrap_or(Ok(HostedOutcome::Done)) {
                Ok(HostedOutcome::Prompt(text)) => {
                    let more = prompt.blocks.into_iter().filter(|block| !matches!(block, Block::Text(_)));
                    let blocks = std::iter::once(Block::text(text)).chain(more).collect();
                    return run_model(session, blocks, stop).await;
                }
                Ok(HostedOutcome::Said(text)) => text,
                Ok(HostedOutcome::Reloaded(warnings)) => {
                    session.put_buffers()?;
                    session.send_commands().await;
                    std::iter::once("Everything was read anew.".to_owned())
                        .chain(warnings)
                        .collect::<Vec<_>>()
                        .join("\n")
                }
                Ok(HostedOutcome::Done | HostedOutcome::Quit) => String::new(),
                Err(why) => why,
            }
        }
    };
    if !text.is_empty() {
        send_message(session, &text);
    }
    Ok("end_turn")
}

/// Sends a text of zk itself as a message of the agent.
fn send_message(session: &Session, text: &str) {
    let content = json!({ "type": "text", "text": format!("{text}\n") });
    let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
    session.peer.update(&session.id, &update);
}

async fn run_model(
    session: &Arc<Session>,
    blocks: Vec<Block>,
    stop: &CancellationToken,
) -> Result<&'static str, RpcError> {
    let conversation = session.hosted.conversation();
    let run = conversation.run(RunOptions::prompt(blocks)).await;
    let run = run.map_err(|error| run_error(session, &error))?;
    let handle = run.handle();
    let mut ended = std::pin::pin!(run.wait());
    let outcome = tokio::select! {
        outcome = &mut ended => outcome,
        () = stop.cancelled() => {
            handle.abort_because("cancelled by the editor");
            ended.await
        }
    };
    stop_reason(session, outcome)
}

fn stop_reason(session: &Session, outcome: RunOutcome) -> Result<&'static str, RpcError> {
    match outcome.result {
        Ok(()) => Ok(match outcome.stop {
            Some(StopReason::MaxTokens | StopReason::ContextExceeded) => "max_tokens",
            Some(StopReason::Refusal(_)) => "refusal",
            _ => "end_turn",
        }),
        Err(AgentError::Aborted) => Ok("cancelled"),
        Err(
            error @ (AgentError::TurnLimit { .. } | AgentError::Budget { .. } | AgentError::Stuck { .. }),
        ) => {
            send_message(session, &session.hosted.factory().describe_error(&error));
            Ok("max_turn_requests")
        }
        Err(error @ AgentError::Parked { .. }) => {
            send_message(session, &session.hosted.factory().describe_error(&error));
            Ok("end_turn")
        }
        Err(error) => Err(run_error(session, &error)),
    }
}

fn run_error(session: &Session, error: &AgentError) -> RpcError {
    let code = match error {
        AgentError::Provider(error) | AgentError::ContextExceeded(error) if error.kind == ErrorKind::Auth => {
            RpcError::SIGN_IN
        }
        _ => RpcError::INTERNAL,
    };
    RpcError::new(code, session.hosted.factory().describe_error(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(prompt: &Value) -> Result<Prompt, RpcError> {
        Prompt::read(&json!({ "prompt": prompt }))
    }

    #[test]
    fn links_and_resources_of_a_prompt_are_named_by_their_paths() {
        let prompt = read(&json!([
            { "type": "text", "text": "see" },
            { "type": "resource_link", "name": "a.rs", "uri": "file:///p/a.rs" },
            { "type": "resource", "resource": { "uri": "file:///p/b.rs", "text": "fn b() {}" } },
            { "type": "resource", "resource": { "uri": "x://c", "blob": "AAAA", "mimeType": "a/b" } },
            { "type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo=" },
        ]));
        let prompt = prompt.unwrap();
        let text = |at: usize| match &prompt.blocks[at] {
            Block::Text(text) => text.text.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text(1), "[a.rs](/p/a.rs)");
        assert_eq!(text(2), "/p/b.rs:\n```\nfn b() {}\n```");
        assert_eq!(text(3), "x://c (its bytes are no text)");
        assert!(matches!(prompt.blocks[4], Block::Image(_)));
        assert_eq!(prompt.text, "see");
    }

    #[test]
    fn content_that_no_model_takes_is_refused_in_words() {
        for (prompt, why) in [
            (json!([]), "empty"),
            (json!("text"), "list"),
            (json!([{ "type": "audio", "data": "", "mimeType": "audio/wav" }]), "`audio`"),
            (json!([{ "type": "image", "data": "", "mimeType": "image/tiff" }]), "image/tiff"),
            (json!([{ "type": "image", "data": "?", "mimeType": "image/png" }]), "base64"),
            (json!([{ "type": "text" }]), "`text`"),
            (json!([{ "type": "resource", "resource": { "uri": "x" } }]), "neither"),
        ] {
            let refused = read(&prompt).unwrap_err();
            assert!(refused.code == RpcError::PARAMS && refused.message.contains(why), "{refused}");
        }
    }
}

use std::sync::Arc;

use zk_core::events::Input;
use zk_core::model::{AgentError, Block, Message, TYPED_DURING_RUN};

use crate::run::RunState;

impl RunState {
    /// Passes the prompt through handlers of `input`: returns it with the messages they added, or `None` if a
    /// handler dealt with it.
    pub(crate) async fn pass_prompt_through_input(
        &self,
        prompt: Option<Vec<Block>>,
    ) -> Result<Option<(Option<Vec<Block>>, Vec<Message>)>, AgentError> {
        let Some(blocks) = prompt else { return Ok(Some((None, Vec::new()))) };
        Ok(self.pass_blocks_through_input(blocks).await?.map(|(blocks, added)| (Some(blocks), added)))
    }

    /// Passes a person's messages through handlers of `input`, and drops messages that a handler consumed.
    /// Messages of plugins stay unchanged.
    pub(crate) async fn pass_messages_through_input(
        &self,
        messages: &[Arc<Message>],
    ) -> Result<Vec<Arc<Message>>, AgentError> {
        let mut read = Vec::with_capacity(messages.len());
        for message in messages {
            let by_person = message.injected_by.as_deref().is_none_or(|by| TYPED_DURING_RUN.contains(&by));
            if !by_person || !self.cx.bus().has_listeners::<Input>() {
                read.push(message.clone());
                continue;
            }
            if let Some((content, added)) = self.pass_blocks_through_input(message.content.clone()).await? {
                read.push(Message { content, ..Message::clone(message) }.shared());
                read.extend(added.into_iter().map(|message| message.identified().shared()));
            }
        }
        Ok(read)
    }

    /// Passes blocks through handlers of `input`: returns them with the messages they added, or `None` if a
    /// handler dealt with them.
    async fn pass_blocks_through_input(
        &self,
        blocks: Vec<Block>,
    ) -> Result<Option<(Vec<Block>, Vec<Message>)>, AgentError> {
        if !self.cx.bus().has_listeners::<Input>() {
            return Ok(Some((blocks, Vec::new())));
        }
        let mut images = Vec::new();
        let mut others = Vec::new();
        let mut text = String::new();
        for block in blocks {
            match block {
                Block::Text(part) => {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(&part.text);
                }
                Block::Image(image) => images.push(image),
                other => others.push(other),
            }
        }
        let input = self.cx.emit(Input { text, images, handled: false, added: Vec::new() }).await?;
        if input.handled {
            return Ok(None);
        }
        let mut blocks: Vec<Block> = input.images.into_iter().map(Block::Image).collect();
        if !input.text.is_empty() {
            blocks.insert(0, Block::text(input.text));
        }
        blocks.append(&mut others);
        if is_blank(&blocks) {
            return Err(AgentError::Usage("the handlers of `input` left nothing of the prompt".into()));
        }
        Ok(Some((blocks, input.added)))
    }
}

/// Whether a prompt has no content.
pub(crate) fn is_blank(blocks: &[Block]) -> bool {
    blocks.iter().all(|block| block.as_text().is_some_and(|text| text.trim().is_empty()))
}

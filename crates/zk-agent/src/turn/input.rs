use std::sync::Arc;

use zk_core::events::Input;
use zk_core::model::{AgentError, Block, Message};

use crate::run::RunState;

impl RunState {
    /// The prompt after the `input` event, if there is one, and what handlers added to it; nothing if one dealt with it.
    pub(crate) async fn read_input(
        &self,
        prompt: Option<Vec<Block>>,
    ) -> Result<Option<(Option<Vec<Block>>, Vec<Message>)>, AgentError> {
        let Some(blocks) = prompt else { return Ok(Some((None, Vec::new()))) };
        Ok(self.read_blocks(blocks).await?.map(|(blocks, added)| (Some(blocks), added)))
    }

    /// Returns what a person typed into the run, after the `input` event; without what a handler dealt with.
    /// Messages of plugins are as they were.
    pub(crate) async fn read_messages(
        &self,
        messages: &[Arc<Message>],
    ) -> Result<Vec<Arc<Message>>, AgentError> {
        let mut read = Vec::with_capacity(messages.len());
        for message in messages {
            let by_person = matches!(message.injected_by.as_deref(), None | Some("steer" | "follow-up"));
            if !by_person || !self.cx.bus().has_listeners::<Input>() {
                read.push(message.clone());
                continue;
            }
            if let Some((content, added)) = self.read_blocks(message.content.clone()).await? {
                read.push(Message { content, ..Message::clone(message) }.shared());
                read.extend(added.into_iter().map(|message| message.identified().shared()));
            }
        }
        Ok(read)
    }

    /// Returns what is left of something typed after the `input` event, and what handlers added to it;
    /// nothing if one dealt with it.
    async fn read_blocks(
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

/// Whether there is nothing in a prompt.
pub(crate) fn is_blank(blocks: &[Block]) -> bool {
    blocks.iter().all(|block| block.as_text().is_some_and(|text| text.trim().is_empty()))
}

//! Converts results of servers to blocks of zk.

use rmcp::model::{
    CallToolResult, ContentBlock, GetPromptResult, ReadResourceResult, ResourceContents, Role,
};
use serde_json::Value;
use zk_core::model::{Block, Document, Image, ToolContent, ToolOutput};

/// Image types that every provider with vision accepts.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Result of a tool call.
#[derive(Debug, PartialEq)]
pub(crate) struct CallResult {
    pub(crate) output: ToolOutput,
    /// Whether the tool reported a failure.
    pub(crate) is_error: bool,
}

impl CallResult {
    pub(crate) fn of(result: CallToolResult) -> Self {
        let mut blocks: Vec<Block> = result.content.into_iter().map(to_block).collect();
        if let Some(structured) = &result.structured_content
            && !repeats_structured_content(structured, &blocks)
        {
            blocks.push(Block::text(structured.to_string()));
        }
        let output = ToolOutput {
            content: join_text_blocks(blocks),
            display: None,
            details: result.structured_content,
        };
        Self { output, is_error: result.is_error.unwrap_or(false) }
    }
}

/// Whether a text repeats the structured content, since most servers send both.
fn repeats_structured_content(structured: &Value, blocks: &[Block]) -> bool {
    let texts = || blocks.iter().filter_map(Block::as_text);
    texts().any(|text| serde_json::from_str::<Value>(text).is_ok_and(|value| value == *structured))
        || structured.as_object().is_some_and(|object| {
            object.len() == 1 && object.values().any(|value| texts().any(|text| value.as_str() == Some(text)))
        })
}

/// Joins the blocks to one text if all are text.
fn join_text_blocks(blocks: Vec<Block>) -> ToolContent {
    let texts: Option<Vec<&str>> = blocks.iter().map(Block::as_text).collect();
    match texts {
        Some(texts) if texts.is_empty() => ToolContent::Text("(no output)".to_owned()),
        Some(texts) => ToolContent::Text(texts.join("\n")),
        None => ToolContent::Blocks(blocks),
    }
}

fn to_block(content: ContentBlock) -> Block {
    match content {
        ContentBlock::Text(text) => Block::text(text.text),
        ContentBlock::Image(image) => to_media_block(&image.mime_type, image.data, "an image"),
        ContentBlock::Audio(audio) => to_media_block(&audio.mime_type, audio.data, "audio"),
        ContentBlock::Resource(resource) => resource_block(resource.resource),
        ContentBlock::ResourceLink(link) => {
            let about = link.description.map_or(String::new(), |about| format!(": {about}"));
            Block::text(format!("[resource {} at {}{about}]", link.name, link.uri))
        }
        _ => Block::text("[content of a kind that zk does not know]"),
    }
}

/// Returns a media type without its parameters.
fn without_parameters(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether images of this type are passed to the model.
pub(super) fn is_shown_image(media_type: &str) -> bool {
    IMAGE_TYPES.contains(&without_parameters(media_type).as_str())
}

/// Converts bytes to an image or document that a model can read; otherwise to a line that names the missing
/// content.
fn to_media_block(media_type: &str, data: String, what: &str) -> Block {
    let kind = without_parameters(media_type);
    if is_shown_image(&kind) {
        Block::Image(Image::new(kind, data))
    } else if kind == "application/pdf" {
        Block::Document(Document { media_type: kind, name: None, data })
    } else {
        let bytes = data.len() / 4 * 3;
        Block::text(format!("[{what} of type {media_type}, about {bytes} bytes, which cannot be shown]"))
    }
}

fn resource_block(resource: ResourceContents) -> Block {
    match resource {
        ResourceContents::TextResourceContents { uri, text, .. } => Block::text(format!("[{uri}]\n{text}")),
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            to_media_block(&mime_type.unwrap_or_default(), blob, &format!("the content of {uri}"))
        }
        _ => Block::text("[a resource of a kind that zk does not know]"),
    }
}

/// Converts the contents of a resource to the output of a tool.
pub(crate) fn resource_output(result: ReadResourceResult) -> ToolOutput {
    let blocks = result.contents.into_iter().map(resource_block).collect();
    ToolOutput { content: join_text_blocks(blocks), display: None, details: None }
}

/// Returns a server's prompt as one text for the model.
pub(crate) fn prompt_text(result: GetPromptResult) -> String {
    let many = result.messages.len() > 1;
    let texts: Vec<String> = result
        .messages
        .into_iter()
        .map(|message| {
            let text = join_text_blocks(vec![to_block(message.content)]).to_text();
            match message.role {
                Role::Assistant if many => format!("(as an example of an answer)\n{text}"),
                _ => text,
            }
        })
        .collect();
    texts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(result: Value) -> CallResult {
        CallResult::of(serde_json::from_value(result).unwrap())
    }

    #[test]
    fn texts_become_one_text_and_images_stay_blocks() {
        let text = of(json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}));
        assert_eq!(text.output.content, ToolContent::Text("a\nb".to_owned()));
        let image = of(json!({"content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "aGk=", "mimeType": "image/PNG"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x:1", "text": "t"}},
            {"type": "resource_link", "uri": "x:2", "name": "two"},
        ]}));
        let ToolContent::Blocks(blocks) = image.output.content else { panic!() };
        assert_eq!(blocks[1], Block::Image(Image::new("image/png", "aGk=")));
        assert!(blocks[2].as_text().unwrap().contains("audio/wav"));
        assert_eq!(blocks[3].as_text(), Some("[x:1]\nt"));
        assert!(blocks[4].as_text().unwrap().contains("x:2"));
    }

    #[test]
    fn structured_content_is_shown_once() {
        let both =
            json!({"content": [{"type": "text", "text": "{\"n\": 1}"}], "structuredContent": {"n": 1}});
        assert_eq!(of(both).output.content, ToolContent::Text("{\"n\": 1}".to_owned()));
        let alone = of(json!({"content": [], "structuredContent": {"n": 1}}));
        assert_eq!(alone.output.content, ToolContent::Text("{\"n\":1}".to_owned()));
        assert_eq!(alone.output.details, Some(json!({"n": 1})));
        let other = of(json!({"content": [{"type": "text", "text": "one"}], "structuredContent": {"n": 1}}));
        assert_eq!(other.output.content, ToolContent::Text("one\n{\"n\":1}".to_owned()));
    }

    #[test]
    fn a_tool_that_says_that_it_failed_has_failed() {
        assert!(of(json!({"content": [{"type": "text", "text": "no"}], "isError": true})).is_error);
        assert_eq!(of(json!({"content": []})).output.content, ToolContent::Text("(no output)".to_owned()));
    }
}

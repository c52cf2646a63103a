//! Reading a whole response, and checking that it keeps the promises of `EventStream` on the way.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use serde_json::Value;
use zk_core::model::{Block, Message, ProviderError, StopReason, Usage, WireReady};
use zk_core::service::{EventStream, Provider, Request, StreamEvent};

/// Contents of a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) model: Option<String>,
    pub(crate) text: String,
    pub(crate) thinking: String,
    pub(crate) signatures: Vec<String>,
    pub(crate) redacted: Vec<String>,
    /// Id, name, arguments; `None` for malformed ones.
    pub(crate) calls: Vec<(String, String, Option<Value>)>,
    pub(crate) usage: Usage,
    pub(crate) stop: Option<StopReason>,
    pub(crate) blocks: Vec<Block>,
}

pub(crate) async fn collect(mut stream: EventStream) -> Result<Answer, (ProviderError, Answer)> {
    let mut answer = Answer::default();
    let mut texts = BTreeMap::<u32, String>::new();
    let mut args = BTreeMap::<u32, (String, String, String)>::new();
    while let Some(event) = stream.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                assert!(stream.next().await.is_none(), "an error ends the stream");
                return Err((error, answer));
            }
        };
        match event {
            StreamEvent::Start { model, .. } => answer.model = model,
            StreamEvent::Text { block, delta } | StreamEvent::Thinking { block, delta } => {
                assert!(!delta.is_empty(), "no empty deltas");
                texts.entry(block).or_default().push_str(&delta);
            }
            StreamEvent::ToolCall { block, id, name } => {
                args.insert(block, (id.to_string(), name, String::new()));
            }
            StreamEvent::ToolArgs { block, delta } => {
                args.get_mut(&block).expect("a call begins first").2.push_str(&delta);
            }
            StreamEvent::Block { block, content } => {
                match &content {
                    Block::Text(text) => {
                        assert_eq!(texts.get(&block), Some(&text.text), "the deltas add up");
                        answer.text.push_str(&text.text);
                    }
                    Block::Thinking(thinking) => {
                        assert!(thinking.origin.is_some(), "thinking names its model");
                        let streamed = texts.get(&block).map_or("", String::as_str);
                        assert_eq!(streamed, thinking.text, "the deltas add up");
                        answer.thinking.push_str(&thinking.text);
                        answer.signatures.extend(thinking.signature.clone());
                        answer.redacted.extend(thinking.redacted.clone());
                    }
                    Block::ToolCall(call) => {
                        let (id, name, _) = args.get(&block).expect("a call begins first");
                        assert_eq!((id.as_str(), name), (call.id.as_str(), &call.name));
                        let parsed = call.malformed.is_none().then(|| call.args.clone());
                        answer.calls.push((id.clone(), name.clone(), parsed));
                    }
                    Block::Provider(block) => assert!(block.wire.data.is_object(), "it is there whole"),
                    Block::Image(_) | Block::Document(_) | Block::ToolResult(_) | Block::Compaction(_) => {
                        panic!("a response has no {content:?}")
                    }
                }
                answer.blocks.push(content);
            }
            StreamEvent::Usage(usage) => answer.usage = usage,
            StreamEvent::Report(report) => assert!(report.is_object(), "{report}"),
            StreamEvent::Retry(notice) if notice.discards => {
                (texts, args, answer) = Default::default();
            }
            StreamEvent::Retry(_) => {}
            StreamEvent::Done { stop, usage } => {
                answer.stop = Some(stop);
                answer.usage = usage;
                assert!(stream.next().await.is_none(), "Done ends the stream");
                return Ok(answer);
            }
        }
    }
    panic!("a stream ends with Done or an error");
}

/// A request of one question.
pub(crate) fn question(provider: &dyn Provider, model: &str) -> Request {
    request(provider, model, &[Message::user_text("hello").shared()])
}

/// A request with this history.
pub(crate) fn request(provider: &dyn Provider, model: &str, history: &[std::sync::Arc<Message>]) -> Request {
    let model = provider.model(model);
    let history = WireReady::normalise(history, &provider.rules(&model));
    Request::new(model, history)
}

use std::sync::Arc;

use serde_json::Value;

use super::constrained::ConstrainedReader;
use super::fence::FenceReader;
use super::{call_info, fresh_mark};

/// Name of the registry item that reads calls from the text of answers.
///
/// ```
/// use std::sync::Arc;
/// use zk_core::kernel::Bus;
/// use zk_protocols::{CallExtractor, EXTRACT_CALLS, ProtocolSettings, ProtocolsPlugin};
///
/// let bus = Bus::new();
/// bus.install(&ProtocolsPlugin::new(ProtocolSettings::default())).unwrap();
/// // Another plugin sees each reader before the loop does, as with any registry item.
/// bus.scope("advice").decorate::<dyn CallExtractor>(EXTRACT_CALLS, |inner| inner);
/// assert!(bus.item::<dyn CallExtractor>(EXTRACT_CALLS).is_some());
/// ```
pub const EXTRACT_CALLS: &str = "extract-calls";

/// Reading of calls from the text of answers, registered as an item named [`EXTRACT_CALLS`].
pub trait CallExtractor: Send + Sync {
    /// Returns the reader of one block of text.
    fn reader(&self, format: CallFormat) -> Box<dyn CallReader>;
}

/// Form of the calls in the text of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFormat {
    /// Text with fenced calls in it.
    Fenced,
    /// One JSON object, a call or an answer, which the server holds the model to.
    Constrained,
}

/// Reader of one block of text, which arrives in pieces.
pub trait CallReader: Send {
    /// Reads more of the text; returns what is certain now.
    fn push(&mut self, delta: &str) -> Vec<CallPiece>;

    /// Reads the end of the text; `is_cut` says that the answer ended at a limit or broke off.
    fn finish(&mut self, is_cut: bool) -> Vec<CallPiece>;
}

/// Part of a text with calls, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum CallPiece {
    /// Text for the person.
    Text(String),
    /// A call.
    Call(ExtractedCall),
}

/// A call that was written as text.
#[derive(Clone, Debug, PartialEq)]
pub enum ExtractedCall {
    /// The call is complete; its arguments are not checked yet.
    Whole {
        /// Name of the tool as written.
        name: String,
        /// Arguments as written.
        arguments: Value,
    },
    /// The call is no JSON, was cut, or has text behind it: it is answered with an error and never run.
    Malformed {
        /// Name of the tool, as far as it can be told.
        name: String,
        /// Text of the call.
        text: String,
    },
}

/// Reader of fenced calls, and of constrained answers.
///
/// A call is a fence with the info string `tool_call-MARK` at the start of a line, outside of any other fence, and in it
/// one JSON object with `name` and `arguments`. Only white space and other calls stand behind it. The mark tells the
/// calls of a conversation from those that its model quotes from a file.
///
/// ```
/// use serde_json::json;
/// use zk_protocols::{CallExtractor, CallFormat, CallPiece, ExtractedCall, FencedCalls};
///
/// let mut reader = FencedCalls::new("3f9a").reader(CallFormat::Fenced);
/// let mut pieces = reader.push("Let me see.\n```tool_call-3f9a\n{\"name\": \"glob\", ");
/// pieces.extend(reader.push("\"arguments\": {\"pattern\": \"*.rs\"}}\n```\n"));
/// pieces.extend(reader.finish(false));
/// let call = ExtractedCall::Whole { name: "glob".into(), arguments: json!({"pattern": "*.rs"}) };
/// assert_eq!(pieces, [CallPiece::Text("Let me see.\n".into()), CallPiece::Call(call)]);
/// ```
#[derive(Clone, Debug)]
pub struct FencedCalls {
    /// Info string of a call.
    info: Arc<str>,
}

impl FencedCalls {
    /// Creates a reader of calls with this mark, which files that the model reads must not contain.
    #[must_use]
    pub fn new(mark: &str) -> Self {
        Self { info: call_info(mark) }
    }
}

impl Default for FencedCalls {
    /// Creates a reader with a random mark.
    fn default() -> Self {
        Self::new(&fresh_mark())
    }
}

impl CallExtractor for FencedCalls {
    fn reader(&self, format: CallFormat) -> Box<dyn CallReader> {
        match format {
            CallFormat::Fenced => Box::new(FenceReader::new(self.info.clone())),
            CallFormat::Constrained => Box::new(ConstrainedReader::new(self.info.clone())),
        }
    }
}

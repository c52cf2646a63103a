//! Assembles tool calls from deltas, for servers that agree on little but the field names.

use std::collections::{HashMap, VecDeque};

use zk_core::model::{Block, CallId};
use zk_core::service::StreamEvent;

use super::chunk::{CallPiece, Function};
use crate::encode::args;
use crate::wire::error::WireError;

/// Calls of one response, in the order they began.
#[derive(Default)]
pub(super) struct Calls {
    all: Vec<Call>,
    /// Last call of each index and of each id, since an answer may have thousands.
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
    /// Whether a delta in the current format was seen; the old format only repeats it then.
    modern: bool,
}

struct Call {
    id: String,
    name: String,
    args: String,
    /// Index of the call's block, once it was announced.
    block: Option<u32>,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn add_delta(
        &mut self,
        piece: &CallPiece<'_>,
        begun: &mut u32,
        out: &mut VecDeque<StreamEvent>,
    ) {
        self.modern = true;
        let id = piece.id.as_deref().unwrap_or_default();
        let name = piece.function.as_ref().and_then(|function| function.name.as_deref()).unwrap_or_default();
        let at = self.find(piece.index, id, name);
        self.add_call(at, piece.index, id, piece.function.as_ref(), begun, out);
    }

    /// Adds a delta in the old format: one call, without id.
    pub(super) fn add_legacy_delta(
        &mut self,
        function: &Function<'_>,
        begun: &mut u32,
        out: &mut VecDeque<StreamEvent>,
    ) {
        if !self.modern {
            let at = self.all.len().checked_sub(1);
            self.add_call(at, None, "", Some(function), begun, out);
        }
    }

    /// Returns the call that a delta belongs to. A new id begins a new call whatever its index, since some
    /// servers give every call the index 0, or none.
    fn find(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let last = self.all.len().checked_sub(1)?;
        let at = match index {
            Some(index) => self.by_index.get(&index).copied(),
            None if !id.is_empty() => self.by_id.get(id).copied(),
            None => Some(last),
        }?;
        let call = self.all.get(at)?;
        let is_other = !id.is_empty() && !call.id.is_empty() && call.id != id;
        // Without index and id, a name after complete arguments must begin the next call.
        let is_next =
            index.is_none() && id.is_empty() && !name.is_empty() && args::parse(&call.args).is_some();
        (!is_other && !is_next).then_some(at)
    }

    fn add_call(
        &mut self,
        at: Option<usize>,
        index: Option<u64>,
        id: &str,
        function: Option<&Function<'_>>,
        begun: &mut u32,
        out: &mut VecDeque<StreamEvent>,
    ) {
        let at = at.unwrap_or_else(|| {
            self.all.push(Call { id: String::new(), name: String::new(), args: String::new(), block: None });
            let at = self.all.len() - 1;
            if let Some(index) = index {
                self.by_index.insert(index, at);
            }
            at
        });
        let Some(call) = self.all.get_mut(at) else { return };
        // Set once and never appended, since some servers repeat both in every delta.
        if call.id.is_empty() {
            call.id.push_str(id);
            if !id.is_empty() {
                self.by_id.insert(id.to_owned(), at);
            }
        }
        if call.name.is_empty()
            && let Some(name) = function.and_then(|function| function.name.as_deref())
        {
            call.name.push_str(name);
        }
        let more = function.map(Function::arguments).unwrap_or_default();
        call.args.push_str(&more);
        match call.block {
            Some(block) if !more.is_empty() => {
                out.push_back(StreamEvent::ToolArgs { block, delta: more.into_owned() });
            }
            None if !call.name.is_empty() => call.announce(begun, out),
            Some(_) | None => {}
        }
    }

    /// Ends and emits the calls; `cut` says that the last one may be incomplete.
    pub(super) fn finish(
        &mut self,
        cut: bool,
        begun: &mut u32,
        out: &mut VecDeque<StreamEvent>,
    ) -> Result<(), WireError> {
        let last = self.all.len().saturating_sub(1);
        for (at, mut call) in std::mem::take(&mut self.all).into_iter().enumerate() {
            if call.name.is_empty() {
                if cut && at == last {
                    continue;
                }
                return Err(WireError::malformed("a tool call without a name")
                    .hint("Try again, or take another model: the calls of this one cannot be used"));
            }
            if call.block.is_none() {
                call.announce(begun, out);
            }
            let block = call.block.unwrap_or_default();
            let content = args::tool_call(call.id, call.name, &call.args, cut && at == last);
            out.push_back(StreamEvent::Block { block, content: Block::ToolCall(content) });
        }
        Ok(())
    }
}

impl Call {
    fn announce(&mut self, begun: &mut u32, out: &mut VecDeque<StreamEvent>) {
        let block = *begun;
        *begun += 1;
        self.block = Some(block);
        if self.id.is_empty() {
            self.id = CallId::fresh().as_str().to_owned();
        }
        out.push_back(StreamEvent::ToolCall { block, id: self.id.as_str().into(), name: self.name.clone() });
        if !self.args.is_empty() {
            out.push_back(StreamEvent::ToolArgs { block, delta: self.args.clone() });
        }
    }
}

//! Text of several parts, each of which may carry a signature that has to be sent back on that part.

use serde_json::{Value, json};
use zk_core::model::{Block, ModelRef, Text, Thinking, WireData};

/// Consecutive parts of one kind, joined to one text.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) block: u32,
    pub(super) is_thought: bool,
    text: String,
    parts: Vec<Piece>,
}

/// One part: its length in bytes, and its signature.
#[derive(Debug)]
struct Piece {
    len: usize,
    signature: Option<String>,
}

impl Run {
    pub(super) fn new(block: u32, is_thought: bool) -> Self {
        Self { block, is_thought, text: String::new(), parts: Vec::new() }
    }

    /// Whether the run has signatures but no text.
    pub(super) fn is_silent(&self) -> bool {
        self.text.is_empty()
    }

    /// Adds a part. Unsigned neighbours are joined; a signature belongs to the part it came with.
    pub(super) fn push(&mut self, text: &str, signature: Option<String>) {
        self.text.push_str(text);
        match self.parts.last_mut() {
            Some(last) if last.signature.is_none() && signature.is_none() => last.len += text.len(),
            _ => self.parts.push(Piece { len: text.len(), signature }),
        }
    }

    /// Returns the blocks of the run, the first of them with the run's own index.
    pub(super) fn close(self, origin: &ModelRef) -> Vec<Block> {
        let first = self.parts.iter().find_map(|piece| piece.signature.clone());
        let is_whole = self.parts.len() == 1;
        let pieces: Vec<Value> = self
            .parts
            .into_iter()
            .map(|piece| match piece.signature {
                Some(signature) => json!({"len": piece.len, "thoughtSignature": signature}),
                None => json!({"len": piece.len}),
            })
            .collect();
        let wire = |data| Some(WireData { origin: origin.clone(), data });
        let thinking = |text, signature, wire| {
            Block::Thinking(Thinking { text, signature, origin: Some(origin.clone()), wire, redacted: None })
        };
        if self.is_thought {
            let wire = if is_whole || first.is_none() { None } else { wire(json!({ "parts": pieces })) };
            return vec![thinking(self.text, first, wire)];
        }
        let Some(first) = first else { return vec![Block::text(self.text)] };
        if !self.text.trim().is_empty() {
            let wire = wire(json!({ "parts": pieces }));
            return vec![Block::Text(Text { text: self.text, wire })];
        }
        // A block without text is dropped before sending, which must not lose its signature.
        let carrier =
            thinking(String::new(), Some(first), wire(json!({ "parts": pieces, "text": self.text })));
        if self.text.is_empty() { vec![carrier] } else { vec![Block::text(self.text), carrier] }
    }
}

/// Splits a text into its original parts with their signatures, without copying.
pub(super) fn parts<'a>(text: &'a str, wire: Option<&'a WireData>) -> Vec<(&'a str, Option<&'a str>)> {
    let data = wire.map(|wire| &wire.data);
    let text = data.and_then(|data| data.get("text")?.as_str()).unwrap_or(text);
    let pieces = data.and_then(|data| data.get("parts")?.as_array()).map_or(&[][..], Vec::as_slice);
    let signature = |piece: &'a Value| piece.get("thoughtSignature").and_then(Value::as_str);
    let mut from = 0;
    let cut: Option<Vec<_>> = pieces
        .iter()
        .map(|piece| {
            let to = from + usize::try_from(piece.get("len")?.as_u64()?).ok()?;
            let slice = text.get(std::mem::replace(&mut from, to)..to)?;
            Some((slice, signature(piece)))
        })
        .collect();
    match cut {
        Some(cut) if !cut.is_empty() && from == text.len() => cut,
        // The text was changed, so the boundaries of its parts are lost; a signature on the whole is better
        // than none.
        Some(_) | None => vec![(text, pieces.iter().find_map(signature))],
    }
}

//! Text as Gemini gives it: in parts, any of which may carry a signature that has to come back on that part.

use serde_json::{Value, json};
use zk_core::model::{Block, ModelRef, Text, Thinking, WireData};

/// Parts of one kind that follow each other, read as one text.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) block: u32,
    pub(super) is_thought: bool,
    text: String,
    parts: Vec<Piece>,
}

/// One part: so many bytes of the text, and its signature.
#[derive(Debug)]
struct Piece {
    len: usize,
    signature: Option<String>,
}

impl Run {
    pub(super) fn new(block: u32, is_thought: bool) -> Self {
        Self { block, is_thought, text: String::new(), parts: Vec::new() }
    }

    /// Whether it has signatures and no text.
    pub(super) fn is_silent(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes a part. Unsigned neighbours are pieces of one part; a signature belongs to the part it came with.
    pub(super) fn push(&mut self, text: &str, signature: Option<String>) {
        self.text.push_str(text);
        match self.parts.last_mut() {
            Some(last) if last.signature.is_none() && signature.is_none() => last.len += text.len(),
            _ => self.parts.push(Piece { len: text.len(), signature }),
        }
    }

    /// The blocks it makes, the first of them with the run's own number.
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
        // A text that says nothing is dropped on its way to any provider; the signature must not go with it.
        let carrier =
            thinking(String::new(), Some(first), wire(json!({ "parts": pieces, "text": self.text })));
        if self.text.is_empty() { vec![carrier] } else { vec![Block::text(self.text), carrier] }
    }
}

/// The parts a block was, each with its signature; nothing of it is copied.
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
        // The text was changed on its way: its boundaries are gone, a signature is better than none.
        Some(_) | None => vec![(text, pieces.iter().find_map(signature))],
    }
}

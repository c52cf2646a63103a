use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use zk_core::model::Usage;

use super::frames;
use super::pieces::{Part, Piece, Rendering};
use crate::rules::{Dialect, Reasoning};
use crate::script::Turn;
use crate::server::reply::Act;

const WRITE: usize = 64 * 1024;

/// Large response that is rendered once and sent as fast as possible, for benchmarks.
#[derive(Debug)]
pub(crate) struct Bulk {
    deltas: usize,
    text: String,
    rendered: Mutex<HashMap<Dialect, Vec<Act>>>,
}

impl Bulk {
    pub(crate) fn new(deltas: usize, text: String) -> Self {
        Self { deltas, text, rendered: Mutex::default() }
    }

    pub(crate) fn acts(&self, dialect: Dialect, model: &str) -> Vec<Act> {
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        rendered.entry(dialect).or_insert_with(|| self.render(dialect, model)).clone()
    }

    fn render(&self, dialect: Dialect, model: &str) -> Vec<Act> {
        let usage = Usage { input: 10, output: self.deltas as u64, ..Usage::default() };
        let rendering =
            Rendering { model, number: 1, usage: Some(usage), pace: None, reasoning: Reasoning::Content };
        let mut bytes = Vec::with_capacity(self.text.len() * self.deltas * 2);
        for piece in frames::stream(dialect, &Turn::new().chunks([self.text.clone()]), rendering) {
            if let Piece::Event { bytes: event, part } = piece {
                // The frame has one delta, which is repeated.
                let times = if part == Part::Delta { self.deltas } else { 1 };
                for _ in 0..times {
                    bytes.extend_from_slice(&event);
                }
            }
        }
        let bytes = Bytes::from(bytes);
        let cuts = (0..bytes.len()).step_by(WRITE);
        cuts.map(|at| Act::Send(bytes.slice(at..bytes.len().min(at + WRITE)))).collect()
    }
}

use std::sync::OnceLock;

use bytes::Bytes;
use zk_core::model::Usage;

use super::frames::{self, Part, Piece, Telling};
use super::reply::Act;
use super::{anthropic, chat};
use crate::rules::Dialect;
use crate::script::Turn;

const WRITE: usize = 64 * 1024;

/// One large answer, rendered once and sent as fast as the socket takes it: for measuring.
#[derive(Debug)]
pub(super) struct Bulk {
    deltas: usize,
    text: String,
    rendered: [OnceLock<Vec<Act>>; 2],
}

impl Bulk {
    pub(super) fn new(deltas: usize, text: String) -> Self {
        Self { deltas, text, rendered: [OnceLock::new(), OnceLock::new()] }
    }

    pub(super) fn acts(&self, dialect: Dialect, model: &str) -> Vec<Act> {
        let [first, second] = &self.rendered;
        let slot = match dialect {
            Dialect::Anthropic => first,
            Dialect::Chat => second,
        };
        slot.get_or_init(|| self.render(dialect, model)).clone()
    }

    fn render(&self, dialect: Dialect, model: &str) -> Vec<Act> {
        let usage = Usage { input: 10, output: self.deltas as u64, ..Usage::default() };
        let telling = Telling { model, number: 1, usage: Some(usage), pace: None };
        let delta = match dialect {
            Dialect::Anthropic => anthropic::text_delta(&self.text),
            Dialect::Chat => chat::text_delta(telling, &self.text),
        };
        let mut bytes = Vec::with_capacity(delta.len() * self.deltas + 4096);
        let frame = frames::stream(dialect, &Turn::new().chunks([self.text.clone()]), telling);
        let mut told = false;
        for piece in frame {
            if let Piece::Event { bytes: event, part } = piece {
                // The one delta of the frame stands for all of them.
                if part == Part::Content && event == delta && !told {
                    told = true;
                    for _ in 0..self.deltas {
                        bytes.extend_from_slice(delta.as_bytes());
                    }
                } else {
                    bytes.extend_from_slice(&event);
                }
            }
        }
        let bytes = Bytes::from(bytes);
        let cuts = (0..bytes.len()).step_by(WRITE);
        cuts.map(|at| Act::Send(bytes.slice(at..bytes.len().min(at + WRITE)))).collect()
    }
}

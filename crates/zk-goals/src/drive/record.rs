//! Record of the model's last turns, for the supervisor.

use std::collections::VecDeque;

use zk_core::model::Message;

/// Maximum number of turns in the record.
const MAX_TURNS: usize = 12;

/// Maximum size in bytes of an answer, of a result, and of a call in the record.
const MAX_TEXT_BYTES: usize = 1_500;
const MAX_RESULT_BYTES: usize = 500;
const MAX_CALL_BYTES: usize = 300;

#[derive(Debug, Default)]
pub(super) struct WorkRecord {
    turns: VecDeque<String>,
}

impl WorkRecord {
    pub(super) fn clear(&mut self) {
        self.turns.clear();
    }

    /// Adds an answer of the model, and a line for each of its calls. Texts are redacted before they are cut,
    /// because a part of a secret is not recognised.
    pub(super) fn add_answer(&mut self, said: &str, calls: &[String], redact: &dyn Fn(&str) -> String) {
        let mut text = format!("said: {}", cut(redact(said).trim(), MAX_TEXT_BYTES));
        for call in calls {
            text.push_str(&format!("\ncalled {}", cut(&redact(call), MAX_CALL_BYTES)));
        }
        while self.turns.len() >= MAX_TURNS {
            self.turns.pop_front();
        }
        self.turns.push_back(text);
    }

    /// Adds the results of the last answer's calls, redacted before they are cut.
    pub(super) fn add_results(&mut self, results: &Message, redact: &dyn Fn(&str) -> String) {
        let Some(last) = self.turns.back_mut() else { return };
        for result in results.results() {
            let mark = if result.is_error { "failed" } else { "result" };
            let text = redact(&result.content.to_text());
            last.push_str(&format!("\n{mark}: {}", cut(text.trim(), MAX_RESULT_BYTES)));
        }
    }

    pub(super) fn text(&self) -> String {
        self.turns.iter().map(String::as_str).collect::<Vec<_>>().join("\n---\n")
    }
}

/// Returns the text, cut to at most `bytes` bytes with `…` behind.
pub(crate) fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    format!("{}…", text.get(..end).unwrap_or_default())
}

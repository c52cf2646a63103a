use super::Exchange;
use crate::marks::{Mark, MarkScanner, MarkSink, TextSource};

/// Nonce of the marks of remote hosts. It is public, so such marks are only hints.
pub(crate) const HINT_NONCE: &str = "hint";

/// Most hints that the model gets at one prompt.
pub(crate) const MAX_HINTS: usize = 30;

/// Command that a remote host claims it ran. Any output can claim so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemoteHint {
    /// Command line; `None` if the remote host did not report it for certain.
    pub(crate) command: Option<String>,
    /// Working directory of the remote shell after the command.
    pub(crate) dir: Option<String>,
    /// Exit code that the remote shell reported.
    pub(crate) code: Option<i32>,
}

impl Exchange {
    /// Hints in the captured output, oldest first.
    pub(crate) fn remote_hints(&self) -> Vec<RemoteHint> {
        let (head, tail) = self.output.parts();
        let (mut scanner, mut hints) = (MarkScanner::new(HINT_NONCE), Hints::default());
        scanner.push(&head, &mut hints);
        if self.output.dropped() > 0 {
            scanner = MarkScanner::new(HINT_NONCE);
            hints.running = None;
        }
        scanner.push(&tail, &mut hints);
        hints.ended.extend(hints.running);
        hints.ended
    }
}

#[derive(Default)]
struct Hints {
    /// Number that the history of the remote shell gives to the next command.
    next_entry: Option<u64>,
    running: Option<RemoteHint>,
    ended: Vec<RemoteHint>,
}

impl MarkSink for Hints {
    fn pass(&mut self, _: &[u8]) {}

    fn mark(&mut self, mark: Mark) {
        match mark {
            Mark::Started { text, source, entry } => {
                self.ended.extend(self.running.take());
                let is_older =
                    source == TextSource::OlderHistory || (entry.is_some() && entry != self.next_entry);
                let is_told = !is_older && !text.first().is_none_or(u8::is_ascii_whitespace);
                let command = is_told.then(|| String::from_utf8_lossy(&text).into_owned());
                self.running = Some(RemoteHint { command, ..RemoteHint::default() });
            }
            Mark::Ended { code, dir } => {
                let dir = Some(String::from_utf8_lossy(&dir).into_owned());
                self.ended.extend(self.running.take().map(|hint| RemoteHint {
                    code: Some(code),
                    dir,
                    ..hint
                }));
            }
            Mark::Ready { next_entry, .. } => self.next_entry = next_entry,
            Mark::Continued
            | Mark::LineText(_)
            | Mark::Directory(_)
            | Mark::Definitions(_)
            | Mark::Line { .. } => {}
        }
    }
}

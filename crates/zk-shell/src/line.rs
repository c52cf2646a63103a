use crate::marks::{Mark, TextSource};

/// Most typed bytes of one prompt that are kept; a longer line only counts as not empty.
const MAX_TYPED_BYTES: usize = 4096;

/// Keys that recall the previous command from the history: ↑ in both cursor modes, and Ctrl-P.
const RECALL: [&[u8]; 3] = [b"\x1b[A", b"\x1bOA", b"\x10"];

/// Activity of the shell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No mark was seen yet, or the shell has none.
    #[default]
    Unmarked,
    /// A line is being edited.
    Ready { has_keys: bool },
    /// The line goes on: the shell asks for more of it.
    Continued { has_keys: bool },
    /// A command runs.
    Busy,
}

/// State of the shell's prompt, from marks and forwarded keys: phase, typed bytes, last exit code.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) phase: Phase,
    /// Bytes forwarded since the ready mark.
    typed: Vec<u8>,
    /// Length of the line, as the shell reported it last.
    pub(crate) reported: Option<usize>,
    /// Text of the line itself, as the shell reported it last.
    pub(crate) reported_text: Option<Vec<u8>>,
    /// Command that the agent enters, from its paste to its end.
    pub(crate) agent_command: Option<String>,
    /// Whether a command has begun and not ended.
    is_running: bool,
    /// Number that the history gives to the next command, from the ready mark.
    next_entry: Option<u64>,
    /// Number of ended commands of the shell.
    pub(crate) ended: u64,
    /// Number of ready marks.
    pub(crate) prompts: u64,
    /// Exit code of the last command.
    pub(crate) code: Option<i32>,
    /// Whether the command line went on over several lines.
    is_joined: bool,
    /// Last answer of the shell about its aliases and functions.
    pub(crate) definitions: Option<Vec<u8>>,
}

/// Command that begins, with its text if that is certain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StartedCommand {
    /// Text of the command line; `None` if it is not certain.
    pub(crate) text: Option<String>,
    /// Whether the text stands in the history's form, which joins lines.
    pub(crate) is_joined: bool,
    /// Whether the person keeps the command out of every record.
    pub(crate) is_private: bool,
}

/// Effect of typed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Press {
    /// Bytes for the shell.
    Forward,
    /// Call of the agent, if the shell confirms that the line is empty.
    CallIfEmpty,
    /// Call of the agent, if a shell waits for a line although no mark says so.
    CallIfWaiting,
    /// Call of the agent.
    Call,
}

/// Keys that call the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallKeys {
    /// Character that calls at an empty line; `None` for no such character.
    pub trigger: Option<u8>,
    /// Character that calls at any prompt.
    pub chord: u8,
}

impl Default for CallKeys {
    /// `?` at an empty line, and Ctrl-].
    fn default() -> Self {
        Self { trigger: Some(b'?'), chord: 0x1d }
    }
}

impl Line {
    /// Decides whether bytes of one read call the agent.
    pub(crate) fn press(&self, bytes: &[u8], keys: CallKeys, is_full_screen: bool) -> Press {
        let [byte] = bytes else { return Press::Forward };
        // A program on the alternate screen reads, whether marks tell it or not.
        if is_full_screen {
            return Press::Forward;
        }
        match self.phase {
            Phase::Ready { .. } | Phase::Continued { .. } | Phase::Unmarked if *byte == keys.chord => {
                Press::Call
            }
            Phase::Busy if *byte == keys.chord => Press::CallIfWaiting,
            Phase::Ready { has_keys: true } if Some(*byte) == keys.trigger && self.typed.is_empty() => {
                Press::CallIfEmpty
            }
            Phase::Ready { .. } | Phase::Continued { .. } | Phase::Unmarked | Phase::Busy => Press::Forward,
        }
    }

    /// Records bytes that are forwarded to the shell.
    pub(crate) fn record_typed(&mut self, bytes: &[u8]) {
        let room = MAX_TYPED_BYTES.saturating_sub(self.typed.len());
        self.typed.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
    }

    /// Whether a prompt waits and nothing was typed at it.
    pub(crate) fn is_untouched(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. }) && self.typed.is_empty()
    }

    /// Whether no prompt came yet, and nothing was typed.
    pub(crate) fn is_unused(&self) -> bool {
        self.prompts == 0 && self.typed.is_empty()
    }

    /// Updates the state of the prompt by a mark.
    pub(crate) fn apply_mark(&mut self, mark: &Mark) {
        match mark {
            Mark::Ready { has_keys, next_entry } => {
                if self.is_running {
                    // The hook that tells the end was gone.
                    self.record_end(None);
                }
                self.phase = Phase::Ready { has_keys: *has_keys };
                self.next_entry = *next_entry;
                self.typed.clear();
                self.is_joined = false;
                self.prompts += 1;
            }
            Mark::Started { .. } => {
                self.phase = Phase::Busy;
                self.is_running = true;
            }
            Mark::Ended { code, .. } => {
                self.phase = Phase::Busy;
                self.record_end(Some(*code));
            }
            Mark::Continued => {
                let has_keys = matches!(
                    self.phase,
                    Phase::Ready { has_keys: true } | Phase::Continued { has_keys: true }
                );
                self.phase = Phase::Continued { has_keys };
                self.is_joined = true;
            }
            Mark::Line { len } => self.reported = Some(*len),
            Mark::LineText(text) => self.reported_text = Some(text.clone()),
            Mark::Definitions(text) => self.definitions = Some(text.clone()),
            Mark::Directory(_) => {}
        }
    }

    fn record_end(&mut self, code: Option<i32>) {
        self.is_running = false;
        self.ended += 1;
        self.code = code;
        self.agent_command = None;
    }

    /// Returns the command that begins, from the text of its mark, the number of the text's entry in the history, and the
    /// typed bytes.
    pub(crate) fn started_command(
        &self,
        text: &[u8],
        source: TextSource,
        entry: Option<u64>,
    ) -> StartedCommand {
        if let Some(command) = &self.agent_command {
            // Known without the history, which may have refused it.
            return StartedCommand { text: Some(command.clone()), ..StartedCommand::default() };
        }
        let plain = String::from_utf8_lossy(text).into_owned();
        let is_older = entry.is_some() && entry != self.next_entry;
        let source = if is_older { TextSource::OlderHistory } else { source };
        match source {
            TextSource::Line | TextSource::History => {
                let is_private = text.first().is_none_or(u8::is_ascii_whitespace);
                let is_joined = self.is_joined && source == TextSource::History;
                // The history has the parts of the line; what was typed has the line ends.
                let typed = self
                    .typed_text()
                    .filter(|typed| is_joined && without_joints(typed) == without_joints(&plain));
                StartedCommand {
                    is_joined: is_joined && typed.is_none(),
                    text: Some(typed.unwrap_or(plain)),
                    is_private,
                }
            }
            // The shell keeps the command out of its history: it repeats the one before, begins with a space, or the
            // person excluded it. What was typed tells a repetition; everything else stays private.
            TextSource::OlderHistory => {
                let typed = self.typed.strip_suffix(b"\r");
                let repeats = typed.is_some_and(|typed| typed == text || RECALL.contains(&typed));
                if repeats && !text.is_empty() && !text.starts_with(b" ") {
                    StartedCommand { text: Some(plain), ..StartedCommand::default() }
                } else {
                    StartedCommand { is_private: true, ..StartedCommand::default() }
                }
            }
        }
    }

    /// Text that was typed or pasted; `None` if a key edited it.
    fn typed_text(&self) -> Option<String> {
        let typed = std::str::from_utf8(self.typed.strip_suffix(b"\r")?).ok()?;
        let is_whole = self.typed.len() < MAX_TYPED_BYTES;
        let text = typed.replace("\u{1b}[200~", "").replace("\u{1b}[201~", "").replace('\r', "\n");
        // A tab completes, unless it is pasted.
        let is_pasted = typed.starts_with("\u{1b}[200~");
        let is_key = |c: char| c.is_control() && c != '\n' && !(c == '\t' && is_pasted);
        (is_whole && !text.contains(is_key)).then_some(text)
    }

    /// Whether the shell can be told to redraw its line.
    pub(crate) fn can_redraw(&self) -> bool {
        matches!(self.phase, Phase::Ready { has_keys: true } | Phase::Continued { has_keys: true })
    }
}

/// Text without the blanks and semicolons at which a history joins lines.
fn without_joints(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != ';').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Mark = Mark::Ready { has_keys: true, next_entry: Some(7) };

    fn line(steps: &[Result<Mark, &[u8]>]) -> Line {
        let mut line = Line::default();
        for step in steps {
            match step {
                Ok(mark) => line.apply_mark(mark),
                Err(bytes) => line.record_typed(bytes),
            }
        }
        line
    }

    #[test]
    fn the_trigger_acts_only_before_the_first_byte_of_a_line() {
        let keys = CallKeys::default();
        let started = Mark::Started { text: b"vi".to_vec(), source: TextSource::Line, entry: None };
        let ended = Mark::Ended { code: 0, dir: b"/".to_vec() };
        for (steps, bytes, press) in [
            (vec![], &b"?"[..], Press::Forward),
            (vec![], b"\x1d", Press::Call),
            (vec![Ok(READY)], b"?", Press::CallIfEmpty),
            (vec![Ok(Mark::Ready { has_keys: false, next_entry: None })], b"?", Press::Forward),
            (vec![Ok(READY)], b"??", Press::Forward),
            (vec![Ok(READY)], b"\x1b[200~?\x1b[201~", Press::Forward),
            (vec![Ok(READY), Err(&b"l"[..])], b"?", Press::Forward),
            (vec![Ok(READY), Err(&b"l"[..])], b"\x1d", Press::Call),
            (vec![Ok(READY), Err(&b"\x12"[..])], b"?", Press::Forward),
            (vec![Ok(READY), Err(&b"\x1b[A"[..])], b"?", Press::Forward),
            (vec![Ok(READY), Err(&b"for x\r"[..])], b"?", Press::Forward),
            // The beginning of the line was typed before the prompt.
            (vec![Ok(READY), Ok(Mark::Continued)], b"?", Press::Forward),
            (vec![Ok(READY), Ok(Mark::Continued)], b"\x1d", Press::Call),
            (vec![Ok(READY), Err(&b"vi\r"[..]), Ok(started.clone())], b"?", Press::Forward),
            // Without an end mark nobody knows whether the command goes on.
            (vec![Ok(READY), Err(&b"vi\r"[..]), Ok(started.clone())], b"\x1d", Press::CallIfWaiting),
            (vec![Ok(READY), Err(&b"vi\r"[..]), Ok(started), Ok(ended), Ok(READY)], b"?", Press::CallIfEmpty),
        ] {
            assert_eq!(line(&steps).press(bytes, keys, false), press, "{steps:?} {bytes:?}");
        }
        for line in [Line::default(), line(&[Ok(READY)])] {
            assert_eq!(line.press(b"\x1d", keys, true), Press::Forward, "a full-screen program has the keys");
        }
    }

    #[test]
    fn a_command_is_exact_or_unknown_and_one_with_a_space_before_is_private() {
        let known = |text: &str| StartedCommand { text: Some(text.to_owned()), ..StartedCommand::default() };
        let private = |text: Option<&str>| StartedCommand {
            text: text.map(str::to_owned),
            is_private: true,
            ..StartedCommand::default()
        };
        let (line, history, older) = (TextSource::Line, TextSource::History, TextSource::OlderHistory);
        for (typed, text, source, expected) in [
            (&b"ls\r"[..], "ls", line, known("ls")),
            (b"ls\r", "ls", history, known("ls")),
            (b" ls\r", " ls", line, private(Some(" ls"))),
            (b"ls\r", "ls", older, known("ls")),
            (b"\x1b[A\r", "ls -l", older, known("ls -l")),
            (b"\x10\r", "ls -l", older, known("ls -l")),
            (b" secret\r", "ls", older, private(None)),
            (b"ls\x01 \r", "ls", older, private(None)),
            (b"", "ls", older, private(None)),
        ] {
            let line = self::line(&[Ok(READY), Err(typed)]);
            assert_eq!(line.started_command(text.as_bytes(), source, None), expected, "{typed:?} {text}");
        }
        // The history joins lines; what was typed has their ends, unless keys edited it.
        for (typed, source, text, is_joined) in [
            (&b"for a in b\rdo c\rdone\r"[..], history, "for a in b\ndo c\ndone", false),
            (b"\x1b[200~for a in b\n\tdo c\ndone\x1b[201~\r", history, "for a in b\n\tdo c\ndone", false),
            (b"for a in b\rdo cc\x7f\rdone\r", history, "for a in b; do c; done", true),
            (b"for a in b\rdo c\rdo\t\r", history, "for a in b; do c; done", true),
            (b"\x1b[A\r", line, "for a in b; do c; done", false),
        ] {
            let line = self::line(&[Ok(READY), Ok(Mark::Continued), Err(typed)]);
            let command = line.started_command(b"for a in b; do c; done", source, None);
            assert_eq!((command.text.as_deref(), command.is_joined), (Some(text), is_joined), "{typed:?}");
        }
    }

    #[test]
    fn a_command_of_the_agent_is_known_although_the_history_refused_it() {
        let mut line = line(&[Ok(READY)]);
        line.agent_command = Some("make".to_owned());
        let command = line.started_command(b"ls", TextSource::History, Some(6));
        assert_eq!((command.text.as_deref(), command.is_private), (Some("make"), false));
        line.agent_command = None;
        assert!(line.started_command(b"ls", TextSource::History, Some(6)).is_private);
        assert!(!line.started_command(b"ls", TextSource::History, Some(7)).is_private);
    }

    #[test]
    fn a_prompt_ends_a_command_whose_end_was_not_told() {
        let started = Mark::Started { text: b"ls".to_vec(), source: TextSource::Line, entry: None };
        let mut line = line(&[Ok(READY), Ok(started), Ok(READY)]);
        assert_eq!((line.ended, line.code), (1, None));
        line.apply_mark(&READY);
        assert_eq!(line.ended, 1);
    }
}

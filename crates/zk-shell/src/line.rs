use crate::Mark;

/// Bytes typed at one prompt that are looked at; a longer line is only known to be one.
const MAX_TYPED_BYTES: usize = 4096;

/// Keys that recall the line before: ↑ in both cursor modes, and Ctrl-P.
const RECALL: [&[u8]; 3] = [b"\x1b[A", b"\x1bOA", b"\x10"];

/// Activity of the shell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No mark was seen yet, or the shell has none.
    #[default]
    Unmarked,
    /// A line is being edited.
    Ready { has_keys: bool },
    /// A command runs, or the line goes on.
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
    /// Whether the line was entered by the agent.
    pub(crate) is_by_agent: bool,
    /// Number of commands that ended.
    pub(crate) ended: u64,
    /// Number of ready marks.
    pub(crate) prompts: u64,
    /// Exit code of the last command.
    pub(crate) code: Option<i32>,
}

/// Effect of typed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Press {
    /// They are for the shell.
    Forward,
    /// They call the agent, if the shell confirms that the line is empty.
    CallIfEmpty,
    /// They call the agent.
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
    /// Decides on bytes that were read together.
    pub(crate) fn press(&self, bytes: &[u8], keys: CallKeys, is_full_screen: bool) -> Press {
        let [byte] = bytes else { return Press::Forward };
        match self.phase {
            Phase::Ready { .. } if *byte == keys.chord => Press::Call,
            // Without marks nobody knows whether a program reads; one on the alternate screen surely does.
            Phase::Unmarked if *byte == keys.chord && !is_full_screen => Press::Call,
            Phase::Ready { has_keys: true } if Some(*byte) == keys.trigger && self.typed.is_empty() => {
                Press::CallIfEmpty
            }
            Phase::Ready { .. } | Phase::Unmarked | Phase::Busy => Press::Forward,
        }
    }

    /// Notes bytes that are forwarded to the shell.
    pub(crate) fn forwarded(&mut self, bytes: &[u8]) {
        let room = MAX_TYPED_BYTES.saturating_sub(self.typed.len());
        self.typed.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
    }

    /// Whether nothing was forwarded since the ready mark.
    pub(crate) fn is_untouched(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. }) && self.typed.is_empty()
    }

    /// Follows a mark.
    pub(crate) fn mark(&mut self, mark: &Mark) {
        match mark {
            Mark::Ready { has_keys } => {
                self.phase = Phase::Ready { has_keys: *has_keys };
                self.typed.clear();
                self.prompts += 1;
            }
            Mark::Started { .. } => self.phase = Phase::Busy,
            Mark::Ended { code, .. } => {
                self.phase = Phase::Busy;
                self.ended += 1;
                self.code = Some(*code);
                self.is_by_agent = false;
            }
            Mark::Line { len } => self.reported = Some(*len),
            Mark::Directory(_) => {}
        }
    }

    /// Text of a command that begins: `None` if it is not certain. The second value tells whether the person
    /// keeps it out of every record.
    pub(crate) fn command(&self, text: &[u8], is_exact: bool) -> (Option<String>, bool) {
        if is_exact {
            let is_private = text.first().is_none_or(u8::is_ascii_whitespace);
            return (Some(String::from_utf8_lossy(text).into_owned()), is_private);
        }
        // The shell keeps the command out of its history: it repeats the one before, begins with a space, or the
        // person excluded it. What was typed tells a repetition; everything else stays private.
        let typed = self.typed.strip_suffix(b"\r");
        let repeats = typed.is_some_and(|typed| typed == text || RECALL.contains(&typed));
        if repeats && !text.is_empty() && !text.starts_with(b" ") {
            (Some(String::from_utf8_lossy(text).into_owned()), false)
        } else {
            (None, true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Mark = Mark::Ready { has_keys: true };

    fn line(steps: &[Result<Mark, &[u8]>]) -> Line {
        let mut line = Line::default();
        for step in steps {
            match step {
                Ok(mark) => line.mark(mark),
                Err(bytes) => line.forwarded(bytes),
            }
        }
        line
    }

    #[test]
    fn the_trigger_acts_only_before_the_first_byte_of_a_line() {
        let keys = CallKeys::default();
        let started = Mark::Started { text: b"vi".to_vec(), is_exact: true };
        let ended = Mark::Ended { code: 0, dir: b"/".to_vec() };
        for (steps, bytes, press) in [
            (vec![], &b"?"[..], Press::Forward),
            (vec![], b"\x1d", Press::Call),
            (vec![Ok(READY)], b"?", Press::CallIfEmpty),
            (vec![Ok(Mark::Ready { has_keys: false })], b"?", Press::Forward),
            (vec![Ok(READY)], b"??", Press::Forward),
            (vec![Ok(READY)], b"\x1b[200~?\x1b[201~", Press::Forward),
            (vec![Ok(READY), Err(&b"l"[..])], b"?", Press::Forward),
            (vec![Ok(READY), Err(&b"l"[..])], b"\x1d", Press::Call),
            (vec![Ok(READY), Err(&b"\x12"[..])], b"?", Press::Forward),
            (vec![Ok(READY), Err(&b"\x1b[A"[..])], b"?", Press::Forward),
            // A continuation line has no ready mark of its own.
            (vec![Ok(READY), Err(&b"for x\r"[..])], b"?", Press::Forward),
            (vec![Ok(READY), Err(&b"vi\r"[..]), Ok(started.clone())], b"?", Press::Forward),
            (vec![Ok(READY), Err(&b"vi\r"[..]), Ok(started.clone())], b"\x1d", Press::Forward),
            (vec![Ok(READY), Err(&b"vi\r"[..]), Ok(started), Ok(ended), Ok(READY)], b"?", Press::CallIfEmpty),
        ] {
            assert_eq!(line(&steps).press(bytes, keys, false), press, "{steps:?} {bytes:?}");
        }
        assert_eq!(Line::default().press(b"\x1d", keys, true), Press::Forward);
    }

    #[test]
    fn a_command_is_exact_or_unknown_and_one_with_a_space_before_is_private() {
        let known = |text: &str| (Some(text.to_owned()), false);
        for (typed, text, is_exact, expected) in [
            (&b"ls\r"[..], "ls", true, known("ls")),
            (b" ls\r", " ls", true, (Some(" ls".to_owned()), true)),
            (b"ls\r", "ls", false, known("ls")),
            (b"\x1b[A\r", "ls -l", false, known("ls -l")),
            (b"\x10\r", "ls -l", false, known("ls -l")),
            (b" secret\r", "ls", false, (None, true)),
            (b"ls\x01 \r", "ls", false, (None, true)),
            (b"", "ls", false, (None, true)),
        ] {
            let line = line(&[Ok(READY), Err(typed)]);
            assert_eq!(line.command(text.as_bytes(), is_exact), expected, "{typed:?} {text}");
        }
    }
}

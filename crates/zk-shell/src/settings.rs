use std::fmt;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::line::CallKeys;
use crate::record::{MAX_COMMANDS, MAX_OUTPUT_BYTES};

/// Shell mode: the person's own shell with an agent attached, as `zk shell` starts it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-by-projects" = false))]
pub struct ShellSettings {
    /// Character that calls the agent at an empty line, `?` by default; an empty text for none.
    pub trigger: TriggerKey,
    /// Key that calls the agent at any prompt, `ctrl-]` by default.
    pub chord: ChordKey,
    /// Whether a start script marks prompts and commands. Without it zk knows nothing of the shell, and only the chord
    /// calls the agent.
    pub init: bool,
    /// Whether commands are recorded from the start; `/shell on` and `/shell off` switch it.
    pub record: bool,
    /// Commands that are remembered; the oldest are forgotten first.
    pub max_commands: NonZeroU32,
    /// Bytes of output of all commands that are remembered; the oldest output is forgotten first.
    pub max_output_bytes: u32,
}

impl Default for ShellSettings {
    fn default() -> Self {
        Self {
            trigger: TriggerKey::default(),
            chord: ChordKey::default(),
            init: true,
            record: true,
            max_commands: MAX_COMMANDS,
            max_output_bytes: MAX_OUTPUT_BYTES,
        }
    }
}

impl ShellSettings {
    /// Keys that call the agent.
    #[must_use]
    pub fn keys(&self) -> CallKeys {
        CallKeys { trigger: self.trigger.0, chord: self.chord.0 }
    }
}

/// Character that calls the agent at an empty line.
///
/// ```
/// let trigger: zk_shell::TriggerKey = "?".parse()?;
/// assert!("??".parse::<zk_shell::TriggerKey>().is_err());
/// # let _ = trigger;
/// # Ok::<(), zk_shell::UnusableKey>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct TriggerKey(Option<u8>);

/// Key that calls the agent at any prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct ChordKey(u8);

/// No key for calling the agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableKey {
    /// The trigger is not a single printable character.
    #[error("a trigger is one character such as ?, or an empty text for none, not `{0}`")]
    Trigger(String),
    /// The key is no control character, or one that terminals or shells need.
    #[error(
        "`{0}` cannot call the agent: write ctrl- and a letter, or one of ]\\^_, except those that terminals need \
         (ctrl-c, d, h, i, j, m, q, s, z and [)"
    )]
    Chord(String),
}

impl Default for TriggerKey {
    fn default() -> Self {
        Self(CallKeys::default().trigger)
    }
}

impl Default for ChordKey {
    fn default() -> Self {
        Self(CallKeys::default().chord)
    }
}

impl fmt::Display for ChordKey {
    /// Name of the key as messages write it, such as `Ctrl-]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ctrl-{}", char::from(self.0 | 0x40))
    }
}

impl std::str::FromStr for TriggerKey {
    type Err = UnusableKey;

    fn from_str(text: &str) -> Result<Self, UnusableKey> {
        match text.as_bytes() {
            [] => Ok(Self(None)),
            [byte @ b'!'..=b'~'] => Ok(Self(Some(*byte))),
            _ => Err(UnusableKey::Trigger(text.to_owned())),
        }
    }
}

impl TryFrom<String> for TriggerKey {
    type Error = UnusableKey;

    fn try_from(text: String) -> Result<Self, UnusableKey> {
        text.parse()
    }
}

impl TryFrom<String> for ChordKey {
    type Error = UnusableKey;

    fn try_from(text: String) -> Result<Self, UnusableKey> {
        let key = text.strip_prefix("ctrl-").unwrap_or_default().as_bytes();
        match key {
            [b'c' | b'd' | b'h' | b'i' | b'j' | b'm' | b'q' | b's' | b'z'] => Err(UnusableKey::Chord(text)),
            [byte @ (b'a'..=b'z' | b'\\' | b']' | b'^' | b'_')] => Ok(Self(byte & 0x1f)),
            _ => Err(UnusableKey::Chord(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_usable_or_refused() {
        for (text, key) in [("?", Some(Some(b'?'))), ("", Some(None)), (" ", None), ("ab", None), ("é", None)]
        {
            assert_eq!(text.parse().ok(), key.map(TriggerKey), "{text:?}");
        }
        for (text, key) in [
            ("ctrl-]", Some(0x1d)),
            ("ctrl-g", Some(7)),
            ("ctrl-c", None),
            ("ctrl-[", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(ChordKey::try_from(text.to_owned()).ok(), key.map(ChordKey), "{text:?}");
        }
        assert_eq!(ShellSettings::default().keys(), CallKeys::default());
        for (text, told) in [("ctrl-]", "Ctrl-]"), ("ctrl-g", "Ctrl-G"), ("ctrl-_", "Ctrl-_")] {
            assert_eq!(ChordKey::try_from(text.to_owned()).unwrap().to_string(), told);
        }
    }
}

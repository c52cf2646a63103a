use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(JsonSchema))]
        #[serde(transparent)]
        pub struct $name(#[cfg_attr(feature = "schema", schemars(with = "String"))] Arc<str>);

        impl $name {
            /// A new id: sortable by time, unique without coordination.
            #[must_use]
            pub fn fresh() -> Self {
                Self(unique($prefix).into())
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The id as shared text.
            #[must_use]
            pub fn shared(&self) -> Arc<str> {
                self.0.clone()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
    };
}

id!(
    /// A session: one conversation kept over several runs.
    SessionId, "s"
);
id!(
    /// A run: everything one prompt caused.
    RunId, "r"
);
id!(
    /// A turn: one model response with its tool results.
    TurnId, "t"
);
id!(
    /// A message of a conversation, given when it joins one.
    MessageId, "m"
);
id!(
    /// An agent of a tree.
    AgentId, "a"
);
id!(
    /// An entry of a session's log.
    EntryId, "e"
);
id!(
    /// A tool call, with the id its provider gave it. Such ids are not unique over a session.
    CallId, "call"
);

impl CallId {
    /// Whether it is one of [`CallId::fresh`], which stands for an id that a provider did not give.
    #[must_use]
    pub fn is_made_here(&self) -> bool {
        let digits = self.0.strip_prefix("call_");
        digits
            .is_some_and(|digits| digits.len() == DIGITS_OF_ID && digits.bytes().all(|b| DIGITS.contains(&b)))
    }
}

/// The digits of an id behind its prefix.
const DIGITS_OF_ID: usize = 17;
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// `prefix_` + 9 digits of milliseconds + 8 random digits, base 32.
fn unique(prefix: &str) -> String {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64);
    let mut text = String::with_capacity(prefix.len() + 1 + DIGITS_OF_ID);
    text.push_str(prefix);
    text.push('_');
    let mut put = |value: u64, digits: u32| {
        for place in (0..digits).rev() {
            let digit = (value >> (place * 5)) & 31;
            text.push(char::from(DIGITS.get(digit as usize).copied().unwrap_or(b'0')));
        }
    };
    put(millis, 9);
    put(fastrand::u64(..), 8);
    text
}

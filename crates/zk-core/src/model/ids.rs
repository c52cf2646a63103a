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
            /// Creates a new id: sortable by time, and unique without coordination.
            #[must_use]
            pub fn fresh() -> Self {
                Self(unique_id($prefix).into())
            }

            /// Returns the id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the id as shared text.
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
    /// Id of a session: a stored conversation of several runs.
    SessionId, "s"
);
id!(
    /// Id of a run: everything that one prompt caused.
    RunId, "r"
);
id!(
    /// Id of a turn: one model response with its tool results.
    TurnId, "t"
);
id!(
    /// Id of a message, assigned when it joins a conversation.
    MessageId, "m"
);
id!(
    /// Id of an agent within a tree of agents.
    AgentId, "a"
);
id!(
    /// Id of an entry in a session's log.
    EntryId, "e"
);
id!(
    /// Id of mail in a session's mailbox, chosen by its sender: what is posted again under it is refused.
    MailId, "l"
);
id!(
    /// Id of a tool call, assigned by its provider. Such ids are not unique within a session.
    CallId, "call"
);

impl CallId {
    /// Whether zk assigned the id itself ([`CallId::fresh`]), because the provider gave none.
    #[must_use]
    pub fn is_made_here(&self) -> bool {
        let digits = self.0.strip_prefix("call_");
        digits.is_some_and(|digits| digits.len() == ID_DIGITS && digits.bytes().all(|b| DIGITS.contains(&b)))
    }
}

/// Number of digits in an id after the prefix and `_`.
const ID_DIGITS: usize = 17;
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Creates `prefix_` + 9 digits of milliseconds + 8 random digits, base 32.
fn unique_id(prefix: &str) -> String {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64);
    let mut text = String::with_capacity(prefix.len() + 1 + ID_DIGITS);
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

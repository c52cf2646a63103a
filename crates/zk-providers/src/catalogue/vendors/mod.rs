//! The services and servers zk knows by name: a table, so that a new one is a new row.

mod known_as;
mod names;
mod registry;
mod sign_in;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_core::service::Provider;

use crate::catalogue::profiles::{CompatProfile, PROFILES};
use crate::wire::connection::Connection;
use crate::wire::endpoint::SetupError;

pub(crate) use known_as::{FIRST_OFFERED, SUBSCRIPTION_SIGN_INS};
pub use names::{VENDOR_VARIABLES, VendorVariable};
pub use registry::Vendors;
pub use sign_in::subscription_sign_in;
pub use table::VENDORS;
pub(crate) use table::{ANTHROPIC, GEMINI, OLLAMA, RESPONSES, SUBSCRIPTION};

/// A service or a kind of server: where it usually is, who may use it and its dialect.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_providers::Vendor;
///
/// let groq = Vendor::named("groq").unwrap();
/// let provider = groq.provider(groq.connection().key("gsk_…"))?;
/// assert_eq!(provider.name(), "groq");
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Vendor {
    /// The name it is chosen by, which is also its provider's name.
    pub name: &'static str,
    /// Base URL of the API; nothing where that is for the user to say.
    pub base_url: Option<&'static str>,
    /// People who may use it.
    pub access: Access,
    /// The dialect it speaks.
    pub dialect: VendorDialect,
    /// The model used when none is asked for. Without one, the first that the server lists.
    pub default_model: Option<&'static str>,
}

/// People who may use a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody with a key. The variables that usually hold one, the first that is set counts.
    Key(&'static [&'static str]),
    /// Everybody who has signed in: there are no keys for it.
    SignIn,
    /// Anybody: a server on the user's own machine, which listens on this port.
    Local(u16),
    /// Anybody, wherever it is; a key is sent if there is one.
    Open,
}

/// Makes the provider of a vendor at a connection, with the `options` that the settings have for it.
pub type MakeProvider = fn(Connection, &Map<String, Value>) -> Result<Arc<dyn Provider>, SetupError>;

/// The dialect of a vendor, and what is special about it there.
#[derive(Clone, Copy, Debug)]
pub enum VendorDialect {
    /// Anthropic's Messages API.
    Anthropic,
    /// Chat Completions, with the [`CompatProfile`] of this name.
    Chat(&'static str),
    /// OpenAI's Responses API.
    Responses,
    /// The Responses API of ChatGPT subscriptions.
    Subscription,
    /// Google's Gemini API.
    Gemini,
    /// Ollama's own API.
    Ollama,
    /// One of another crate, such as a [`Dialect`](crate::wire::Dialect) in an
    /// [`HttpProvider`](crate::wire::HttpProvider).
    Own(MakeProvider),
}

impl VendorDialect {
    /// Option by which a provider compacts a conversation itself; nothing where it cannot.
    #[must_use]
    pub fn compaction(&self) -> Option<Value> {
        match self {
            Self::Anthropic => Some(json!({"edits": [{"type": "compact_20260112"}]})),
            Self::Responses => Some(json!([{"type": "compaction"}])),
            Self::Chat(_) | Self::Subscription | Self::Gemini | Self::Ollama | Self::Own(_) => None,
        }
    }
}

impl Vendor {
    /// The vendor called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        VENDORS.iter().find(|vendor| vendor.name == name)
    }

    /// The usual connection, which lacks a key where one is needed.
    #[must_use]
    pub fn connection(&self) -> Connection {
        Connection {
            default_model: self.default_model.map(str::to_owned),
            ..Connection::at(self.base_url.unwrap_or_default()).named(self.name)
        }
    }

    /// The name its models have in the table of models.
    pub(crate) fn catalogue(&self) -> &'static str {
        let profile = match self.dialect {
            VendorDialect::Chat(name) => PROFILES.iter().find(|profile| profile.name == name),
            VendorDialect::Anthropic
            | VendorDialect::Responses
            | VendorDialect::Subscription
            | VendorDialect::Gemini
            | VendorDialect::Ollama
            | VendorDialect::Own(_) => None,
        };
        profile.and_then(|profile| profile.catalogue.as_deref()).unwrap_or(self.name)
    }

    /// Returns the profile of its Chat Completions: the tolerant one for a vendor that speaks something else.
    #[must_use]
    pub fn profile(&self) -> CompatProfile {
        match self.dialect {
            VendorDialect::Chat(profile) => CompatProfile::named(profile).unwrap_or_default(),
            VendorDialect::Anthropic
            | VendorDialect::Responses
            | VendorDialect::Subscription
            | VendorDialect::Gemini
            | VendorDialect::Ollama
            | VendorDialect::Own(_) => CompatProfile::default(),
        }
    }
}

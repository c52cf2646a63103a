//! Services and servers that zk knows by name, as a table.

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

/// A service or kind of server: its usual address, access and dialect.
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
    /// Name by which the vendor is selected, also the name of its provider.
    pub name: &'static str,
    /// Base URL of the API; `None` if the person has to set one.
    pub base_url: Option<&'static str>,
    /// Form of access that requests need.
    pub access: Access,
    /// Dialect of the API.
    pub dialect: VendorDialect,
    /// Default model; `None` takes the first that the server lists.
    pub default_model: Option<&'static str>,
}

/// Form of access that a service requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// An API key. Lists the environment variables that usually hold one; the first one set counts.
    Key(&'static [&'static str]),
    /// A sign-in; the service has no keys.
    SignIn,
    /// No key: a server on the person's own machine, listening on this port.
    Local(u16),
    /// No key is required at any address; a key is sent if there is one.
    Open,
}

/// Constructor of a vendor's provider from a connection and its `options` in settings.
pub type MakeProvider = fn(Connection, &Map<String, Value>) -> Result<Arc<dyn Provider>, SetupError>;

/// Dialect of a vendor, with its variant.
#[derive(Clone, Copy, Debug)]
pub enum VendorDialect {
    /// The Messages API of Anthropic.
    Anthropic,
    /// Chat Completions with the [`CompatProfile`] of this name.
    Chat(&'static str),
    /// The Responses API of OpenAI.
    Responses,
    /// The Responses API of ChatGPT subscriptions.
    Subscription,
    /// The Gemini API of Google.
    Gemini,
    /// The native API of Ollama.
    Ollama,
    /// A dialect of another crate, such as a [`Dialect`](crate::wire::Dialect) in an
    /// [`HttpProvider`](crate::wire::HttpProvider).
    Own(MakeProvider),
}

impl VendorDialect {
    /// Returns the options with which the provider compacts a conversation itself; `None` if it cannot.
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
    /// Returns the vendor called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        VENDORS.iter().find(|vendor| vendor.name == name)
    }

    /// Returns the usual connection, without a key.
    #[must_use]
    pub fn connection(&self) -> Connection {
        Connection {
            default_model: self.default_model.map(str::to_owned),
            ..Connection::at(self.base_url.unwrap_or_default()).named(self.name)
        }
    }

    /// Returns the vendor's name in the table of models.
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

    /// Returns the profile of its Chat Completions; the tolerant profile for a vendor with another dialect.
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

//! The services and servers zk knows by name: a table, so that a new one is a new row.

mod rows;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use zk_core::service::Provider;

use crate::anthropic::{Anthropic, AnthropicOptions};
use crate::chat::{Compat, CompatProfile};
use crate::connection::Connection;
use crate::endpoint::SetupError;
use crate::gemini::Gemini;
use crate::ollama::{Ollama, OllamaOptions};
use crate::responses::{Responses, ResponsesOptions};

pub use rows::VENDORS;
pub(crate) use rows::{ANTHROPIC, CODEX, GEMINI, OLLAMA, OPENAI};

/// A service or a kind of server: where it usually is, who may use it and what it speaks.
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
    /// Where it is; nothing where that is for the user to say.
    pub base_url: Option<&'static str>,
    /// Who may use it.
    pub access: Access,
    /// What it speaks.
    pub speaks: Speaks,
    /// The model used when none is asked for. Without one, the first that the server lists.
    pub default_model: Option<&'static str>,
}

/// Who may use a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Whoever has a key. The variables that usually hold one, the first that is set counts.
    Key(&'static [&'static str]),
    /// Whoever has signed in: there are no keys for it.
    SignIn,
    /// Anybody: a server on the user's own machine, which listens on this port.
    Local(u16),
}

/// What a vendor speaks: the dialect, and what is special about it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Anthropic's Messages API.
    Anthropic,
    /// Chat Completions, with the [`CompatProfile`] of this name.
    Chat(&'static str),
    /// OpenAI's Responses API.
    Responses,
    /// The Responses API of ChatGPT subscriptions.
    Codex,
    /// Google's Gemini API.
    Gemini,
    /// Ollama's own API.
    Ollama,
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

    /// A provider of this kind at `connection`, with the usual settings of its dialect.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key, the account or a header cannot be used.
    pub fn provider(&self, connection: Connection) -> Result<Arc<dyn Provider>, SetupError> {
        Ok(match self.speaks {
            Speaks::Anthropic => Arc::new(Anthropic::new(connection, AnthropicOptions::default())?),
            Speaks::Chat(_) => Arc::new(Compat::new(connection, self.profile())?),
            // Whoever has another address has another server.
            Speaks::Responses if Some(&*connection.base_url) != self.base_url => {
                Arc::new(Responses::new(connection, ResponsesOptions::compatible())?)
            }
            Speaks::Responses => Arc::new(Responses::new(connection, ResponsesOptions::default())?),
            Speaks::Codex => Arc::new(Responses::new(connection, ResponsesOptions::codex())?),
            Speaks::Gemini => Arc::new(Gemini::new(connection)?),
            Speaks::Ollama => Arc::new(Ollama::new(connection, OllamaOptions::default())?),
        })
    }

    /// What is special about its Chat Completions: the tolerant profile for a vendor that speaks something
    /// else.
    #[must_use]
    pub fn profile(&self) -> CompatProfile {
        match self.speaks {
            Speaks::Chat(profile) => CompatProfile::named(profile).unwrap_or_default(),
            Speaks::Anthropic | Speaks::Responses | Speaks::Codex | Speaks::Gemini | Speaks::Ollama => {
                CompatProfile::default()
            }
        }
    }
}

//! The services and servers zk knows by name: a table, so that a new one is a new row.

mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use zk_core::model::Model;
use zk_core::service::Provider;

use crate::dialects::anthropic::{Anthropic, AnthropicOptions};
use crate::dialects::chat::Compat;
use crate::dialects::gemini::Gemini;
use crate::dialects::ollama::{Ollama, OllamaOptions};
use crate::dialects::responses::{Responses, ResponsesOptions};
use crate::facts::profiles::{CompatProfile, PROFILES};
use crate::wire::connection::Connection;
use crate::wire::endpoint::SetupError;

pub use table::VENDORS;
pub(crate) use table::{ANTHROPIC, CODEX, GEMINI, OLLAMA, OPENAI};

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
    pub dialect: VendorDialect,
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

/// What a vendor dialect: the dialect, and what is special about it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VendorDialect {
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
        self.provider_with(connection, &Map::new())
    }

    /// The same with `options`: fields of the dialect's settings ([`AnthropicOptions`], [`CompatProfile`],
    /// [`ResponsesOptions`] or [`OllamaOptions`]) that are not as usual. Rules in `echo_models` go before those
    /// the vendor has.
    ///
    /// ```
    /// use zk_providers::{Connection, Vendor};
    ///
    /// let any = Vendor::named("openai_compat").unwrap();
    /// let options = serde_json::json!({"vision": false, "echo": {"in": "reasoning_content"}});
    /// let lab = Connection::at("http://127.0.0.1:8080/v1").named("lab");
    /// let lab = any.provider_with(lab, options.as_object().unwrap())?;
    /// assert!(!lab.model("m").capabilities.vision);
    /// # Ok::<(), zk_providers::SetupError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Vendor::provider`], and when there is no such option or it cannot have this value.
    pub fn provider_with(
        &self,
        connection: Connection,
        options: &Map<String, Value>,
    ) -> Result<Arc<dyn Provider>, SetupError> {
        let name = connection.name.clone();
        let wrong = |reason: String| SetupError::Options { name, reason };
        Ok(match self.dialect {
            VendorDialect::Anthropic => {
                let options = over(AnthropicOptions::default(), options).map_err(wrong)?;
                Arc::new(Anthropic::new(connection, options)?)
            }
            VendorDialect::Chat(_) => {
                let usual = self.profile();
                let built_in = usual.echo_models.clone();
                let mut profile = over(usual, options).map_err(wrong)?;
                // The first rule that fits counts: what is known of the other models stays known.
                if options.contains_key("echo_models") {
                    profile.echo_models.to_mut().extend(built_in.into_owned());
                }
                Arc::new(Compat::new(connection, profile)?)
            }
            VendorDialect::Responses | VendorDialect::Codex => {
                let usual = match self.dialect {
                    VendorDialect::Codex => ResponsesOptions::codex(),
                    // Whoever has another address has another server.
                    _ if Some(&*connection.base_url) != self.base_url => ResponsesOptions::compatible(),
                    _ => ResponsesOptions::default(),
                };
                Arc::new(Responses::new(connection, over(usual, options).map_err(wrong)?)?)
            }
            VendorDialect::Gemini if !options.is_empty() => return Err(wrong("there are none".to_owned())),
            VendorDialect::Gemini => Arc::new(Gemini::new(connection)?),
            VendorDialect::Ollama => {
                Arc::new(Ollama::new(connection, over(OllamaOptions::default(), options).map_err(wrong)?)?)
            }
        })
    }

    /// What its dialect makes of the model `id` at its own address, without asking anybody.
    pub(crate) fn knows(&self, id: &str) -> Option<Model> {
        let connection = Connection { account: Some("-".to_owned()), ..self.connection().key("-") };
        Some(self.provider(connection).ok()?.model(id))
    }

    /// The name its models have in the table of models.
    pub(crate) fn catalogue(&self) -> &'static str {
        let profile = match self.dialect {
            VendorDialect::Chat(name) => PROFILES.iter().find(|profile| profile.name == name),
            VendorDialect::Anthropic
            | VendorDialect::Responses
            | VendorDialect::Codex
            | VendorDialect::Gemini
            | VendorDialect::Ollama => None,
        };
        profile.and_then(|profile| profile.catalogue.as_deref()).unwrap_or(self.name)
    }

    /// What is special about its Chat Completions: the tolerant profile for a vendor that speaks something
    /// else.
    #[must_use]
    pub fn profile(&self) -> CompatProfile {
        match self.dialect {
            VendorDialect::Chat(profile) => CompatProfile::named(profile).unwrap_or_default(),
            VendorDialect::Anthropic
            | VendorDialect::Responses
            | VendorDialect::Codex
            | VendorDialect::Gemini
            | VendorDialect::Ollama => CompatProfile::default(),
        }
    }
}

/// `usual` with some of its fields replaced.
fn over<T: Serialize + DeserializeOwned>(usual: T, options: &Map<String, Value>) -> Result<T, String> {
    if options.is_empty() {
        return Ok(usual);
    }
    let Value::Object(usual) = serde_json::to_value(usual).map_err(|error| error.to_string())? else {
        return Err("there are none".to_owned());
    };
    let with = |options: &Map<String, Value>| {
        let mut all = usual.clone();
        all.extend(options.clone());
        serde_json::from_value(Value::Object(all)).map_err(|error| error.to_string())
    };
    with(options).map_err(|reason: String| {
        // The error of a value does not say where the value stands.
        let wrong = options.iter().find_map(|(name, value)| {
            let alone = Map::from_iter([(name.clone(), value.clone())]);
            let reason: String = with(&alone).err()?;
            Some(if usual.contains_key(name) { format!("`{name}`: {reason}") } else { reason })
        });
        wrong.unwrap_or(reason)
    })
}

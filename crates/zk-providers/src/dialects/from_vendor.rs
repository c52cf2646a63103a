//! Creates the provider of a vendor.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use zk_core::model::Model;
use zk_core::service::Provider;

use crate::catalogue::vendors::{Vendor, VendorDialect};
use crate::dialects::anthropic::{Anthropic, AnthropicOptions};
use crate::dialects::chat::Compat;
use crate::dialects::gemini::Gemini;
use crate::dialects::ollama::{Ollama, OllamaOptions};
use crate::dialects::responses::{Responses, ResponsesOptions};
use crate::wire::connection::Connection;
use crate::wire::endpoint::SetupError;

impl Vendor {
    /// Creates a provider of this vendor at `connection`, with the default options of its dialect.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key, the account or a header cannot be used.
    pub fn provider(&self, connection: Connection) -> Result<Arc<dyn Provider>, SetupError> {
        self.provider_with(connection, &Map::new())
    }

    /// Creates a provider of this vendor with `options`, which override fields of the dialect's options
    /// ([`AnthropicOptions`], [`CompatProfile`](crate::CompatProfile), [`ResponsesOptions`] or
    /// [`OllamaOptions`]). Rules in `echo_models` take precedence over the vendor's.
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
    /// The errors of [`Vendor::provider`], and an unknown option or invalid value.
    pub fn provider_with(
        &self,
        connection: Connection,
        options: &Map<String, Value>,
    ) -> Result<Arc<dyn Provider>, SetupError> {
        let name = connection.name.clone();
        let wrong = |reason: String| SetupError::Options { name, reason };
        Ok(match self.dialect {
            VendorDialect::Anthropic => {
                let options = with_options(AnthropicOptions::default(), options).map_err(wrong)?;
                Arc::new(Anthropic::new(connection, options)?)
            }
            VendorDialect::Chat(_) => {
                let usual = self.profile();
                let built_in = usual.echo_models.clone();
                let mut profile = with_options(usual, options).map_err(wrong)?;
                // The first matching rule counts, so the built-in rules still apply to other models.
                if options.contains_key("echo_models") {
                    profile.echo_models.to_mut().extend(built_in.into_owned());
                }
                Arc::new(Compat::new(connection, profile)?)
            }
            VendorDialect::Responses | VendorDialect::Subscription => {
                let usual = match self.dialect {
                    VendorDialect::Subscription => ResponsesOptions::subscription(),
                    // Another address means another server.
                    _ if Some(&*connection.base_url) != self.base_url => ResponsesOptions::compatible(),
                    _ => ResponsesOptions::default(),
                };
                Arc::new(Responses::new(connection, with_options(usual, options).map_err(wrong)?)?)
            }
            VendorDialect::Own(make) => make(connection, options)?,
            VendorDialect::Gemini if !options.is_empty() => return Err(wrong("there are none".to_owned())),
            VendorDialect::Gemini => Arc::new(Gemini::new(connection)?),
            VendorDialect::Ollama => Arc::new(Ollama::new(
                connection,
                with_options(OllamaOptions::default(), options).map_err(wrong)?,
            )?),
        })
    }

    /// Describes the model `id` as the vendor's dialect does at the usual address, without a request.
    pub(crate) fn describe_known(&self, id: &str) -> Option<Model> {
        let connection = Connection { account: Some("-".to_owned()), ..self.connection().key("-") };
        Some(self.provider(connection).ok()?.model(id))
    }
}

/// Overrides fields of `usual` with `options`.
fn with_options<T: Serialize + DeserializeOwned>(
    usual: T,
    options: &Map<String, Value>,
) -> Result<T, String> {
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
        // The deserialisation error does not name the invalid option.
        let wrong = options.iter().find_map(|(name, value)| {
            let alone = Map::from_iter([(name.clone(), value.clone())]);
            let reason: String = with(&alone).err()?;
            Some(if usual.contains_key(name) { format!("`{name}`: {reason}") } else { reason })
        });
        wrong.unwrap_or(reason)
    })
}

//! The contract of a dialect: what differs between the protocols of model services.

use async_trait::async_trait;
use serde_json::Value;
use zk_core::kernel::Cx;
use zk_core::model::{Model, ProviderError, WireRules};
use zk_core::service::Request;

use crate::wire::client::ApiClient;
use crate::wire::endpoint::BaseUrl;
use crate::wire::error::WireError;
use crate::wire::request::{Headers, WireRequest};
use crate::wire::response::decode::Decode;

/// One attempt at a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The first one.
    First,
    /// The one more that [`Dialect::resend_reason`] asked for. There is no third.
    Second,
}

/// A request that counts tokens.
#[derive(Clone, Debug)]
pub struct CountRequest {
    /// Request to send.
    pub request: WireRequest,
    /// The field of the answer that holds the count.
    pub field: &'static str,
}

/// Place of a server's list of models.
#[derive(Clone, Copy, Debug)]
pub struct ModelList {
    /// The path below the base URL, with a query if there is one.
    pub path: &'static str,
    /// The field of the answer that holds the list. Without such a field, the answer itself is the list.
    pub field: &'static str,
}

/// A protocol that model services speak, with the settings of one provider.
///
/// [`HttpProvider`](super::HttpProvider) makes a provider of it: HTTP, keys, time-outs, redaction, the events that
/// announce requests and the classes of errors are the same for every dialect.
#[async_trait]
pub trait Dialect: Send + Sync + 'static {
    /// Shape of its base URLs.
    const BASE_URL: BaseUrl;

    /// The header that carries an API key; without one it is sent as a bearer token.
    const KEY_HEADER: Option<&'static str> = None;

    /// Describes a model as far as it is known without asking anybody.
    fn model(&self, client: &ApiClient, id: &str) -> Model;

    /// Returns the rules for histories that it takes for `model`: what reaches the other methods has been
    /// made to fit.
    fn rules(&self, model: &Model) -> WireRules;

    /// Whether answers of `model` can be held to `schema`, as
    /// [`Provider::native_output`](zk_core::service::Provider::native_output) says it.
    fn native_output(&self, model: &Model, schema: &Value, with_tools: bool) -> bool {
        let _ = (model, schema, with_tools);
        false
    }

    /// Whether thinking breaks the prefix:
    /// [`Provider::thinking_breaks_prefix`](zk_core::service::Provider::thinking_breaks_prefix).
    fn thinking_breaks_prefix(&self, model: &Model) -> bool {
        let _ = model;
        false
    }

    /// Changes what the protocol cannot express, before each attempt and before tokens are counted.
    fn prepare(&self, request: Request) -> Request {
        request
    }

    /// Writes the request for an answer.
    ///
    /// # Errors
    /// [`WireError`] when it cannot be written, or would surely fail.
    fn request(&self, client: &ApiClient, request: &Request) -> Result<WireRequest, WireError>;

    /// The decoder for the answer to `request`.
    fn decoder(&self, client: &ApiClient, request: &Request, attempt: Attempt) -> Box<dyn Decode>;

    /// Returns the reason for which a failed request is prepared and sent once more, in words for a person;
    /// nothing where it is not. This is for what another attempt changes, not for what passes by itself,
    /// which a retrying decorator waits for. The error must be one that comes before any part of an answer.
    fn resend_reason(&self, error: &ProviderError, request: &Request) -> Option<String> {
        let _ = (error, request);
        None
    }

    /// Adds to an error what only the dialect knows, such as what to do about it.
    fn explain(&self, error: ProviderError, request: &Request) -> ProviderError {
        let _ = request;
        error
    }

    /// Writes the request that counts the input tokens of another; nothing where there is none.
    ///
    /// # Errors
    /// [`WireError`] when it cannot be written.
    fn count_request(
        &self,
        client: &ApiClient,
        request: &Request,
    ) -> Result<Option<CountRequest>, WireError> {
        let _ = (client, request);
        Ok(None)
    }

    /// Returns the place of the list of models; nothing where there is none.
    fn model_list(&self) -> Option<ModelList> {
        None
    }

    /// The headers of requests that are not for an answer.
    fn headers(&self) -> Headers {
        Headers::new()
    }

    /// Parses one entry of the model listing; `None` for an entry that is no chat model.
    fn listed_model(&self, client: &ApiClient, entry: &Value) -> Option<Model> {
        let _ = (client, entry);
        None
    }

    /// Lists the models of the server, as [`Provider::list_models`](zk_core::service::Provider::list_models) says
    /// it.
    ///
    /// # Errors
    /// [`ProviderError`] when the call fails.
    async fn list_models(&self, client: &ApiClient, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        let Some(list) = self.model_list() else { return Ok(None) };
        let answer = client.fetch("*", WireRequest::get(list.path).with_headers(self.headers()), cx).await?;
        let entries = answer.get(list.field).unwrap_or(&answer).as_array();
        let model = |entry: &Value| Some(client.overrides().correct(self.listed_model(client, entry)?));
        Ok(entries.map(|entries| entries.iter().filter_map(model).collect()))
    }

    /// Describes a model once the server was asked, as
    /// [`Provider::describe_model`](zk_core::service::Provider::describe_model) says it.
    async fn describe_model(&self, client: &ApiClient, id: &str, cx: &Cx) -> Model {
        let known = self.model(client, id);
        if known.window.is_some() {
            return known;
        }
        let listed = self.list_models(client, cx).await.ok().flatten().unwrap_or_default();
        listed.into_iter().find(|model| model.id == id).unwrap_or(known)
    }
}

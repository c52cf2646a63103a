//! Interface of a dialect: the differences between the protocols of model services.

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

/// Number of the attempt at a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The first attempt.
    First,
    /// The second and last attempt, requested by [`Dialect::resend_reason`].
    Second,
}

/// A request that counts input tokens.
#[derive(Clone, Debug)]
pub struct CountRequest {
    /// Request to send.
    pub request: WireRequest,
    /// Name of the response field with the count.
    pub field: &'static str,
}

/// Location of a server's model list.
#[derive(Clone, Copy, Debug)]
pub struct ModelList {
    /// Path below the base URL, with a query if necessary.
    pub path: &'static str,
    /// Name of the response field with the list. Without such a field, the response itself is the list.
    pub field: &'static str,
}

/// A protocol of model services, with the settings of one provider.
///
/// [`HttpProvider`](super::HttpProvider) makes a provider of it. HTTP, keys, time-outs, redaction, events and
/// error classes are shared by all dialects.
#[async_trait]
pub trait Dialect: Send + Sync + 'static {
    /// Form of its base URLs.
    const BASE_URL: BaseUrl;

    /// Header for an API key; `None` to send keys as bearer tokens.
    const KEY_HEADER: Option<&'static str> = None;

    /// Describes a model without a request.
    fn model(&self, client: &ApiClient, id: &str) -> Model;

    /// Returns the requirements of `model` on a history. Histories passed to the other methods are normalised
    /// accordingly.
    fn rules(&self, model: &Model) -> WireRules;

    /// Whether answers of `model` can follow `schema`; see
    /// [`Provider::native_output`](zk_core::service::Provider::native_output).
    fn native_output(&self, model: &Model, schema: &Value, with_tools: bool) -> bool {
        let _ = (model, schema, with_tools);
        false
    }

    /// Whether changed thinking invalidates the cached prefix; see
    /// [`Provider::thinking_breaks_prefix`](zk_core::service::Provider::thinking_breaks_prefix).
    fn thinking_breaks_prefix(&self, model: &Model) -> bool {
        let _ = model;
        false
    }

    /// Adapts a request to the limits of the protocol, before each attempt and before tokens are counted.
    fn prepare(&self, request: Request) -> Request {
        request
    }

    /// Writes the request for an answer.
    ///
    /// # Errors
    /// [`WireError`] when the request cannot be written, or would certainly fail.
    fn request(&self, client: &ApiClient, request: &Request) -> Result<WireRequest, WireError>;

    /// Creates the decoder for the response to `request`.
    fn decoder(&self, client: &ApiClient, request: &Request, attempt: Attempt) -> Box<dyn Decode>;

    /// Returns the reason, in words for a person, for which a failed request is sent once more after
    /// [`prepare`](Self::prepare); `None` to give up. Only for errors that a changed request avoids:
    /// temporary failures are left to a retrying decorator. The error must have come before any part of an
    /// answer.
    fn resend_reason(&self, error: &ProviderError, request: &Request) -> Option<String> {
        let _ = (error, request);
        None
    }

    /// Adds details to an error that only the dialect knows, such as a hint.
    fn explain(&self, error: ProviderError, request: &Request) -> ProviderError {
        let _ = request;
        error
    }

    /// Writes the request that counts the input tokens of another; `None` if the API has no such call.
    ///
    /// # Errors
    /// [`WireError`] when the request cannot be written.
    fn count_request(
        &self,
        client: &ApiClient,
        request: &Request,
    ) -> Result<Option<CountRequest>, WireError> {
        let _ = (client, request);
        Ok(None)
    }

    /// Returns the path of embeddings in OpenAI's form; `None` if the API has none.
    fn embeddings_path(&self) -> Option<&'static str> {
        None
    }

    /// Returns the location of the model list; `None` if the API has none.
    fn model_list(&self) -> Option<ModelList> {
        None
    }

    /// Returns the headers of requests other than for an answer.
    fn headers(&self) -> Headers {
        Headers::new()
    }

    /// Parses one entry of the model listing; `None` for an entry that is no chat model.
    fn listed_model(&self, client: &ApiClient, entry: &Value) -> Option<Model> {
        let _ = (client, entry);
        None
    }

    /// Lists the models of the server; see
    /// [`Provider::list_models`](zk_core::service::Provider::list_models).
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

    /// Describes a model after asking the server; see
    /// [`Provider::describe_model`](zk_core::service::Provider::describe_model).
    async fn describe_model(&self, client: &ApiClient, id: &str, cx: &Cx) -> Model {
        let known = self.model(client, id);
        if known.window.is_some() {
            return known;
        }
        let listed = self.list_models(client, cx).await.ok().flatten().unwrap_or_default();
        listed.into_iter().find(|model| model.id == id).unwrap_or(known)
    }
}

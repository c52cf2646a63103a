use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::timeout;
use zk_core::service::EngineName;
use zk_engine::Runs;

use super::access::{FleetAccess, FleetTokens};
use super::error::FleetError;
use super::events::stream_events;
use super::requests::Client;
use crate::http::{Body, LoopbackListener, bearer_token, serve_connections};

/// Maximum size of the body of a request, in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Time limit for the body of a request.
const BODY_LIMIT: Duration = Duration::from_secs(30);

/// Server of the runs of an engine and their sessions.
///
/// ```no_run
/// # async fn serve(runs: zk_engine::Runs) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_serve::LoopbackListener;
/// use zk_serve::fleet::{FleetServer, FleetTokens};
///
/// let tokens = FleetTokens::parse("* a long random token")?;
/// let listener = LoopbackListener::bind("127.0.0.1:0".parse()?).await?;
/// println!("{}", listener.url());
/// FleetServer::new(runs, tokens, "/project".into()).serve(&listener).await?;
/// # Ok(())
/// # }
/// ```
pub struct FleetServer {
    runs: Runs,
    /// Handles to the runs by tenant, each with database connections of its own.
    of_tenants: Mutex<BTreeMap<EngineName, Runs>>,
    tokens: RwLock<Arc<FleetTokens>>,
    cwd: PathBuf,
}

impl fmt::Debug for FleetServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetServer").finish_non_exhaustive()
    }
}

impl FleetServer {
    /// Creates a server for the clients with these tokens. Runs that they submit work in `cwd`, unless they name a workspace
    /// of a worker.
    #[must_use]
    pub fn new(runs: Runs, tokens: FleetTokens, cwd: PathBuf) -> Arc<Self> {
        Arc::new(Self { runs, of_tenants: Mutex::default(), tokens: RwLock::new(Arc::new(tokens)), cwd })
    }

    /// Replaces the tokens of the clients. Requests and open streams of events with other tokens end from now on.
    pub fn replace_tokens(&self, tokens: FleetTokens) {
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
    }

    fn access_of(&self, token: &str) -> Option<FleetAccess> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner).clone();
        tokens.access_of(token)
    }

    /// Returns the runs that requests with this access go to.
    fn runs_for(&self, access: &FleetAccess) -> Runs {
        let FleetAccess::Tenant(tenant) = access else { return self.runs.clone() };
        let mut known = self.of_tenants.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(tenant.clone()).or_insert_with(|| self.runs.of_tenant(tenant)).clone()
    }

    /// Serves clients until an error of the listener.
    ///
    /// # Errors
    /// When no more connections can be accepted.
    pub async fn serve(self: &Arc<Self>, listener: &LoopbackListener) -> io::Result<()> {
        let server = self.clone();
        serve_connections(listener, move |request| {
            let server = server.clone();
            async move { server.answer(request).await.unwrap_or_else(|error| refuse(&error)) }
        })
        .await
    }

    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, FleetError> {
        let token = bearer_token(request.headers()).ok_or(FleetError::Unauthorised)?.to_owned();
        let access = self.access_of(&token).ok_or(FleetError::Unauthorised)?;
        let runs = self.runs_for(&access);
        let client = Client { runs: &runs, access: &access };
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let query = request.uri().query().unwrap_or_default().to_owned();
        let header =
            |name| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (last, key) = (header("last-event-id"), header("idempotency-key"));
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (method, parts.as_slice()) {
            (Method::GET, ["v1", "runs"]) => answer_with(StatusCode::OK, &client.list(&query).await?),
            (Method::POST, ["v1", "runs"]) => {
                let job = client.submit(read_body(request).await?, &self.cwd).await?;
                answer_with(StatusCode::CREATED, &job)
            }
            (Method::GET, ["v1", "runs", id]) => answer_with(StatusCode::OK, &client.show(id).await?),
            (Method::GET, ["v1", "runs", id, "events"]) => {
                let run = client.find(id).await?;
                let (server, last) = (self.clone(), last.map(|last| last.as_str().into()));
                let is_allowed = move || server.access_of(&token).as_ref() == Some(&access);
                let body = stream_events(runs.clone(), run, last, is_allowed);
                Ok(response(StatusCode::OK, "text/event-stream", body))
            }
            (Method::POST, ["v1", "runs", id, "steer"]) => {
                answer_with(StatusCode::ACCEPTED, &client.steer(id, read_body(request).await?).await?)
            }
            (Method::POST, ["v1", "runs", id, "abort"]) => {
                answer_with(StatusCode::ACCEPTED, &client.abort(id).await?)
            }
            (Method::POST, ["v1", "runs", id, "approve"]) => {
                answer_with(StatusCode::ACCEPTED, &client.approve(id, read_body(request).await?).await?)
            }
            (Method::POST, ["v1", "runs", id, "answer"]) => {
                answer_with(StatusCode::ACCEPTED, &client.answer(id, read_body(request).await?).await?)
            }
            (Method::POST, ["v1", "hooks", name]) => {
                answer_with(StatusCode::CREATED, &client.hook(name, key.as_deref()).await?)
            }
            _ => Err(FleetError::NoPath),
        }
    }
}

async fn read_body<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, FleetError> {
    let body = timeout(BODY_LIMIT, Limited::new(request.into_body(), MAX_BODY_BYTES).collect()).await;
    let invalid = |why: String| FleetError::Invalid(why);
    let body = body.map_err(|_| invalid("it does not end".to_owned()))?;
    let refused = |error: Box<dyn std::error::Error + Send + Sync>| match error.is::<LengthLimitError>() {
        true => FleetError::TooLarge { most: MAX_BODY_BYTES },
        false => invalid(error.to_string()),
    };
    let body = body.map_err(refused)?.to_bytes();
    serde_json::from_slice(&body).map_err(|error| invalid(error.to_string()))
}

fn answer_with(status: StatusCode, value: &impl Serialize) -> Result<Response<Body>, FleetError> {
    let bytes = serde_json::to_vec(value).map_err(|error| FleetError::Invalid(error.to_string()))?;
    Ok(response(status, "application/json", full(bytes)))
}

fn refuse(error: &FleetError) -> Response<Body> {
    let bytes = serde_json::to_vec(&json!({"error": error.to_string()})).unwrap_or_default();
    response(error.status(), "application/json", full(bytes))
}

fn full(bytes: Vec<u8>) -> Body {
    Full::new(Bytes::from(bytes)).boxed_unsync()
}

fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

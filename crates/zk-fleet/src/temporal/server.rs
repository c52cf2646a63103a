//! Calls to a Temporal server.

use std::collections::HashMap;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::request_extensions::RetryConfigForCall;
use temporalio_client::tonic::{Code, Request, Status};
use temporalio_client::{Connection, ConnectionOptions, GrpcCompression, RetryOptions, TlsOptions};
use temporalio_common::protos::temporal::api::common::v1::{
    ActivityType, Memo, Payload, Payloads, WorkflowExecution, WorkflowType,
};
use temporalio_common::protos::temporal::api::enums::v1::TaskQueueKind;
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflowservice::v1::GetSystemInfoRequest;
use zk_core::service::EngineError;

use super::location::TemporalLocation;

/// Longest time for the connection to a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Identity of a process that does not serve.
const CLIENT_IDENTITY: &str = "zk";

/// Location of an engine, with the key for it.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) location: TemporalLocation,
    pub(super) api_key: Option<SecretString>,
}

/// Connection to the namespace of an engine.
#[derive(Clone)]
pub(super) struct Server {
    connection: Connection,
    target: Target,
    identity: String,
}

impl Server {
    /// Connects to the server of `target`, as a worker or as a mere client.
    pub(super) async fn connect(target: &Target, worker: Option<&str>) -> Result<Self, EngineError> {
        let failed = |why: String| EngineError::Failed {
            doing: "connect to Temporal",
            why: format!("{}: {why}; is the server running?", target.location),
        };
        let identity = worker.unwrap_or(CLIENT_IDENTITY).to_owned();
        let url = target.location.server().map_err(|error| failed(error.to_string()))?;
        let options = ConnectionOptions::new(url)
            .identity(identity.clone())
            .connect_timeout(CONNECT_TIMEOUT)
            .grpc_compression(GrpcCompression::None)
            .dns_load_balancing(None)
            .maybe_api_key(target.api_key.as_ref().map(|key| key.expose_secret().to_owned()))
            .maybe_tls_options(target.location.has_tls().then(TlsOptions::default))
            .build();
        let connection = Connection::connect(options).await.map_err(|error| failed(chain(&error)))?;
        Ok(Self { connection, target: target.clone(), identity })
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Service whose calls are repeated for some seconds while the server cannot be reached.
    pub(super) fn calls(&self) -> Box<dyn WorkflowService> {
        Box::new(self.connection.clone())
    }

    pub(super) fn namespace(&self) -> String {
        self.target.location.namespace().to_owned()
    }

    pub(super) fn identity(&self) -> String {
        self.identity.clone()
    }

    /// Checks that the server answers.
    pub(super) async fn check_reachable(&self, limit: Duration) -> Result<(), EngineError> {
        let asked = self.calls().get_system_info(request_once(GetSystemInfoRequest::default(), limit)).await;
        asked.map(drop).map_err(|status| self.error("look at the server", &status))
    }

    /// Error of a call.
    pub(super) fn error(&self, doing: &'static str, status: &Status) -> EngineError {
        let location = &self.target.location;
        let why = match status.code() {
            Code::NotFound if status.message().to_lowercase().contains("namespace") => format!(
                "{location}: the server has no such namespace; create it: temporal operator namespace create -n {}",
                location.namespace()
            ),
            Code::Unavailable => format!("{location}: the server cannot be reached ({})", status.message()),
            code => format!("{location}: {} ({code:?})", status.message()),
        };
        EngineError::Failed { doing, why }
    }
}

/// Request that ends within `limit` and is not repeated.
pub(super) fn request_once<T>(message: T, limit: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    request.extensions_mut().insert(RetryConfigForCall(RetryOptions::no_retries()));
    request
}

/// Text of an error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(found) = cause {
        let more = found.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = found.source();
    }
    text
}

pub(super) fn to_payload<T: Serialize>(value: &T) -> Result<Payload, EngineError> {
    let data = serde_json::to_vec(value).map_err(|error| EngineError::Failed {
        doing: "write an engine's payload",
        why: error.to_string(),
    })?;
    let metadata = HashMap::from([("encoding".to_owned(), b"json/plain".to_vec())]);
    Ok(Payload { metadata, data, ..Payload::default() })
}

pub(super) fn to_payloads<T: Serialize>(value: &T) -> Result<Option<Payloads>, EngineError> {
    Ok(Some(Payloads { payloads: vec![to_payload(value)?] }))
}

/// Reads a value that this engine wrote; `None` for another program's, or a newer zk's.
pub(super) fn from_payload<T: DeserializeOwned>(payload: &Payload) -> Option<T> {
    serde_json::from_slice(&payload.data).ok()
}

pub(super) fn from_payloads<T: DeserializeOwned>(payloads: Option<&Payloads>) -> Option<T> {
    from_payload(payloads?.payloads.first()?)
}

pub(super) fn from_memo<T: DeserializeOwned>(memo: Option<&Memo>, key: &str) -> Option<T> {
    from_payload(memo?.fields.get(key)?)
}

pub(super) fn execution(workflow_id: String) -> Option<WorkflowExecution> {
    Some(WorkflowExecution { workflow_id, run_id: String::new() })
}

pub(super) fn named_queue(name: &str) -> Option<TaskQueue> {
    Some(TaskQueue { name: name.to_owned(), kind: TaskQueueKind::Normal.into(), ..TaskQueue::default() })
}

pub(super) fn workflow_type(name: &str) -> Option<WorkflowType> {
    Some(WorkflowType { name: name.to_owned() })
}

pub(super) fn activity_type(name: &str) -> Option<ActivityType> {
    Some(ActivityType { name: name.to_owned() })
}

/// Reads a time span or date of the wire; the default when it is absent or out of range.
pub(super) fn from_wire<T, W: TryInto<T>>(value: Option<W>, default: T) -> T {
    value.and_then(|value| value.try_into().ok()).unwrap_or(default)
}

/// Id that makes a repeated call count once.
pub(super) fn fresh_id() -> String {
    format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}

/// Whether a call failed because there is no such thing.
pub(super) fn is_missing(code: Code) -> bool {
    matches!(code, Code::NotFound)
}

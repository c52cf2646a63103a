//! Requests that may take long: calls, prompts and resources.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::model::{
    CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientRequest, ErrorCode,
    GetPromptRequestParams, GetPromptResult, InputRequest, InputRequests, InputRequiredResult,
    InputResponses, ReadResourceRequestParams, ReadResourceResult, Request, RequestId, RequestMetaObject,
    ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use zk_core::kernel::Cx;
use zk_core::service::TraceContext;

use super::connect::{Connection, root_cause};
use super::result::CallResult;
use super::waiting::OnProgress;

/// Time limit of a request, regardless of its progress.
pub(super) const MAX_CALL_TIME: Duration = Duration::from_secs(3600);
/// Maximum number of rounds of a request, in each of which the server asks for input before it answers.
const MAX_ROUNDS: usize = 10;
/// Time limit for requests sent before the server lost the session, most of which it still answers.
const SETTLING_TIME: Duration = Duration::from_secs(3);

/// Call of a tool by its name on the server.
pub(crate) struct CallRequest<'a> {
    pub(crate) tool: &'a str,
    pub(crate) args: Map<String, Value>,
    /// Longest time without an answer or progress.
    pub(crate) idle: Duration,
    pub(crate) progress: OnProgress,
    /// Context of the call, with its stop token.
    pub(crate) cx: &'a Cx,
}

/// Returns the place of a call in its trace; `None` if no traces are made.
fn trace_meta(cx: &Cx) -> Option<RequestMetaObject> {
    let headers = cx.service::<dyn TraceContext>()?.headers(cx);
    let mut meta = RequestMetaObject::default();
    meta.0.0.extend(headers.into_iter().map(|(name, value)| (name.to_owned(), value.into())));
    Some(meta)
}

/// Reason for which a request has no result.
#[derive(Debug)]
pub(crate) enum CallEnd {
    /// The server rejected the request.
    Refused(String),
    /// The server gave no answer and no progress in time.
    TimedOut(Duration),
    /// The request was stopped.
    Stopped,
    /// The connection ended, perhaps after the request was carried out.
    Closed(String),
    /// The server was not reached, so the request was not carried out.
    Unreached(String),
    /// The server had lost the session, so the request was not carried out.
    SessionEnded,
    /// The server lost the session before it answered, perhaps after the request was carried out.
    Interrupted,
    /// The answer is invalid.
    Strange(String),
    /// A list has no end, or is too long.
    List(String),
    /// The server requires a sign-in, or a token with more scopes.
    SignIn,
    /// The request's headers do not match the server's current list of tools.
    Headers(String),
}

impl fmt::Display for CallEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) | Self::Headers(why) | Self::List(why) => f.write_str(why),
            Self::TimedOut(idle) => {
                write!(f, "no answer and no progress for {} s", idle.as_secs_f64())
            }
            Self::Stopped => f.write_str("stopped"),
            Self::Closed(why) | Self::Unreached(why) => write!(f, "the connection is gone: {why}"),
            Self::SessionEnded => f.write_str("it does not know the session any more"),
            Self::Interrupted => f.write_str("it forgot the session before it answered"),
            Self::Strange(what) => write!(f, "it answered something that is no answer: {what}"),
            Self::SignIn => f.write_str("it wants a person to sign in for this"),
        }
    }
}

impl Connection {
    /// Describes the cause of a failed request.
    pub(crate) fn explain(&self, error: &ServiceError) -> String {
        self.call_end(error).to_string()
    }

    pub(super) fn call_end(&self, error: &ServiceError) -> CallEnd {
        match error {
            ServiceError::McpError(error) if error.code == ErrorCode::HEADER_MISMATCH => {
                CallEnd::Headers(error.message.to_string())
            }
            ServiceError::McpError(error) => CallEnd::Refused(error.message.to_string()),
            ServiceError::Timeout { timeout } => CallEnd::TimedOut(*timeout),
            ServiceError::Cancelled { .. } => CallEnd::Stopped,
            ServiceError::TransportClosed => self.unanswered(),
            ServiceError::TransportSend(error) if wants_sign_in(&*error.error) => CallEnd::SignIn,
            ServiceError::TransportSend(error) => match loss(&*error.error) {
                Some(Loss::Session) => {
                    self.mark_lost("it does not know the session any more".to_owned(), true);
                    CallEnd::SessionEnded
                }
                Some(Loss::Server { is_sent }) => {
                    let why = root_cause(&*error.error);
                    self.mark_lost(why.clone(), false);
                    if is_sent { CallEnd::Closed(why) } else { CallEnd::Unreached(why) }
                }
                None => CallEnd::Closed(root_cause(&*error.error)),
            },
            other => CallEnd::Strange(other.to_string()),
        }
    }

    /// Returns the end of a request whose connection ended before the answer.
    fn unanswered(&self) -> CallEnd {
        if self.has_lost_session() { CallEnd::Interrupted } else { CallEnd::Closed(self.fault()) }
    }

    /// Waits until no answers arrive any more.
    async fn wait_for_silence(&self) {
        self.ended.cancelled().await;
        if self.has_lost_session() {
            tokio::time::sleep(SETTLING_TIME).await;
        }
    }

    /// Waits for requests that were sent before the server lost the session.
    pub(crate) async fn wait_for_settling(&self) {
        self.in_flight.close();
        let _ = tokio::time::timeout(SETTLING_TIME, self.in_flight.wait()).await;
    }

    /// Calls a tool, and answers the server's requests during the call.
    pub(crate) async fn call(&self, call: CallRequest<'_>) -> Result<CallResult, CallEnd> {
        let mut params = CallToolRequestParams::new(call.tool.to_owned()).with_arguments(call.args);
        params.meta = trace_meta(call.cx);
        let _calling = self.handler.callers.enter(call.cx);
        let stop = call.cx.stop_token();
        for round in 0..MAX_ROUNDS {
            let request = ClientRequest::CallToolRequest(Request::new(params.clone()));
            let answered = self.request(request, call.idle, Some(call.progress.clone()), stop).await;
            match answered.map_err(|end| if round > 0 { self.forbid_retry(end) } else { end })? {
                ServerResult::CallToolResult(result) => return Ok(CallResult::of(result)),
                ServerResult::InputRequiredResult(more) => {
                    (params.input_responses, params.request_state) = self.answer(more, call.cx).await?;
                }
                ServerResult::CreateTaskResult(created) => {
                    let followed = self.poll_task(created.task, call.idle, &call.progress, call.cx).await;
                    return followed.map_err(|end| self.forbid_retry(end));
                }
                other => return parse_result(&other),
            }
        }
        Err(CallEnd::Strange(format!("it asked for more {MAX_ROUNDS} times")))
    }

    /// Returns the end of a call that the server answered partially, which must never be repeated.
    fn forbid_retry(&self, end: CallEnd) -> CallEnd {
        match end {
            CallEnd::SessionEnded | CallEnd::Interrupted | CallEnd::Headers(_) => {
                CallEnd::Closed(self.fault())
            }
            CallEnd::Unreached(why) => CallEnd::Closed(why),
            end => end,
        }
    }

    /// Requests a prompt with its arguments filled in.
    pub(crate) async fn prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        idle: Duration,
        cx: &Cx,
    ) -> Result<GetPromptResult, CallEnd> {
        let mut params = GetPromptRequestParams::new(name.to_owned()).with_arguments(arguments);
        let _calling = self.handler.callers.enter(cx);
        let stop = cx.stop_token();
        for _ in 0..MAX_ROUNDS {
            let request = ClientRequest::GetPromptRequest(Request::new(params.clone()));
            match self.request(request, idle, None, stop).await? {
                ServerResult::GetPromptResult(result) => return Ok(result),
                ServerResult::InputRequiredResult(more) => {
                    (params.input_responses, params.request_state) = self.answer(more, cx).await?;
                }
                _ => return Err(CallEnd::Strange("no prompt".to_owned())),
            }
        }
        Err(CallEnd::Strange(format!("it asked for more {MAX_ROUNDS} times")))
    }

    /// Reads the content of a resource.
    pub(crate) async fn read_resource(
        &self,
        uri: &str,
        idle: Duration,
        cx: &Cx,
    ) -> Result<ReadResourceResult, CallEnd> {
        let mut params = ReadResourceRequestParams::new(uri.to_owned());
        let _calling = self.handler.callers.enter(cx);
        let stop = cx.stop_token();
        for _ in 0..MAX_ROUNDS {
            let request = ClientRequest::ReadResourceRequest(Request::new(params.clone()));
            match self.request(request, idle, None, stop).await? {
                ServerResult::ReadResourceResult(result) => return Ok(result),
                ServerResult::InputRequiredResult(more) => {
                    (params.input_responses, params.request_state) = self.answer(more, cx).await?;
                }
                _ => return Err(CallEnd::Strange("no resource".to_owned())),
            }
        }
        Err(CallEnd::Strange(format!("it asked for more {MAX_ROUNDS} times")))
    }

    /// Sends a request and waits for its answer. Boxed, so that the compiler proves the library's future to
    /// be `Send` once, not for each caller.
    pub(super) fn request<'a>(
        &'a self,
        request: ClientRequest,
        idle: Duration,
        progress: Option<OnProgress>,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ServerResult, CallEnd>> {
        Box::pin(async move {
            if self.ended.is_cancelled() && self.has_lost_session() {
                // The request was not sent, so it may be repeated.
                return Err(CallEnd::SessionEnded);
            }
            let _in_flight = self.in_flight.token();
            // The library's own time-out would continue while a person is asked.
            let options = PeerRequestOptions::no_options();
            let sent = self.peer().send_cancellable_request(request, options).await;
            let handle = sent.map_err(|error| match self.call_end(&error) {
                CallEnd::Interrupted => CallEnd::SessionEnded,
                end => end,
            })?;
            let watching = self.handler.watched.watch(handle.progress_token.clone(), progress);
            let mut cancel = CancelOnDrop { peer: Some(self.peer().clone()), id: handle.id.clone() };
            let silence =
                self.handler.questions.wait_for_idle(idle, MAX_CALL_TIME.max(idle), &watching.heard);
            let answer = tokio::select! {
                // An answer that has arrived counts, even if the request was stopped.
                biased;
                answer = handle.await_response() => answer.map_err(|error| self.call_end(&error)),
                () = self.wait_for_silence() => Err(self.unanswered()),
                () = stop.cancelled() => return Err(CallEnd::Stopped),
                limit = silence => return Err(CallEnd::TimedOut(limit)),
            };
            // The server has finished the request, so it need not be cancelled.
            cancel.peer = None;
            answer
        })
    }

    /// Answers a server's requests for input; returns the responses and the state to send back.
    async fn answer(
        &self,
        more: InputRequiredResult,
        cx: &Cx,
    ) -> Result<(Option<InputResponses>, Option<String>), CallEnd> {
        let requests = more.input_requests.unwrap_or_default();
        if requests.is_empty() && more.request_state.is_none() {
            return Err(CallEnd::Strange("it asks for more without saying what".to_owned()));
        }
        let responses = self.responses(requests, cx).await?;
        Ok(((!responses.is_empty()).then_some(responses), more.request_state))
    }

    /// Returns the responses to a server's requests for input during the request of `cx`, unless that ends or
    /// is stopped.
    pub(super) async fn responses(
        &self,
        requests: InputRequests,
        cx: &Cx,
    ) -> Result<InputResponses, CallEnd> {
        tokio::select! {
            responses = self.answer_requests(requests, cx) => responses,
            () = self.ended.cancelled() => Err(CallEnd::Closed(self.fault())),
            () = cx.stop_token().cancelled() => Err(CallEnd::Stopped),
        }
    }

    async fn answer_requests(&self, requests: InputRequests, cx: &Cx) -> Result<InputResponses, CallEnd> {
        let mut responses = InputResponses::new();
        for (key, request) in requests {
            let response = match request {
                InputRequest::Elicitation(request) => {
                    serde_json::to_value(self.handler.elicit(request.params, Some(cx)).await)
                }
                InputRequest::ListRoots(_) => serde_json::to_value(self.handler.roots()),
                InputRequest::CreateMessage(request) => {
                    let refused =
                        |why| CallEnd::Refused(format!("it asked the model, which did not answer: {why}"));
                    serde_json::to_value(self.handler.sample(request.params).await.map_err(refused)?)
                }
                _ => {
                    let what = "it asks for something that zk does not know";
                    return Err(CallEnd::Refused(what.to_owned()));
                }
            };
            responses.insert(key, response.map_err(|error| CallEnd::Strange(error.to_string()))?);
        }
        Ok(responses)
    }
}

/// Whether the server answered with an authentication challenge.
pub(super) fn wants_sign_in(error: &(dyn std::error::Error + 'static)) -> bool {
    causes(error).any(is_challenge)
}

/// Reason for which a connection cannot be used any more.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only servers by HTTP are lost like this"))]
enum Loss {
    /// The server does not know the session.
    Session,
    /// The server is disconnected; `is_sent` tells whether the request was sent before.
    Server { is_sent: bool },
}

fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

#[cfg(feature = "http")]
fn loss(error: &(dyn std::error::Error + 'static)) -> Option<Loss> {
    use rmcp::transport::streamable_http_client::StreamableHttpError;
    causes(error).find_map(|error| {
        match error.downcast_ref::<crate::transport::post::RequestFailure>()? {
            StreamableHttpError::SessionExpired => Some(Loss::Session),
            // The server was not reached, or went away before it answered; the next one at the address may be
            // another.
            StreamableHttpError::Client(error) if error.is_request() && !error.is_timeout() => {
                Some(Loss::Server { is_sent: !error.is_connect() })
            }
            _ => None,
        }
    })
}

#[cfg(not(feature = "http"))]
fn loss(_: &(dyn std::error::Error + 'static)) -> Option<Loss> {
    None
}

#[cfg(feature = "http")]
fn is_challenge(error: &(dyn std::error::Error + 'static)) -> bool {
    use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
    error.is::<AuthRequiredError>() || error.is::<InsufficientScopeError>()
}

#[cfg(not(feature = "http"))]
fn is_challenge(_: &(dyn std::error::Error + 'static)) -> bool {
    false
}

/// Parses the result of a call, tolerant of deviations.
fn parse_result(result: &ServerResult) -> Result<CallResult, CallEnd> {
    match serde_json::to_value(result).and_then(serde_json::from_value) {
        Ok(result) => Ok(CallResult::of(result)),
        Err(error) => Err(CallEnd::Strange(error.to_string())),
    }
}

/// Guard that cancels a request at the server when its caller stops waiting.
struct CancelOnDrop {
    peer: Option<Peer<RoleClient>>,
    id: RequestId,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some(peer), Ok(runtime)) = (self.peer.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let why = Some("nobody waits for it any more".to_owned());
        let params = CancelledNotificationParam::new(Some(self.id.clone()), why);
        runtime.spawn(async move {
            let _ = peer.send_notification(CancelledNotification::new(params).into()).await;
        });
    }
}

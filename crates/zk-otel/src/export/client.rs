use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use zk_auth::Http;

/// Maximum size of a collector's answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// HTTP client for the exporter's threads. They have no runtime, so each request creates its own.
#[derive(Clone)]
pub(super) struct CollectorClient {
    http: Http,
    timeout: Duration,
    notice: Arc<Notice>,
}

/// Notice that is shown at most once.
struct Notice {
    was_told: AtomicBool,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectorClient").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl CollectorClient {
    pub(super) fn new(http: Http, notice: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let notice = Notice { was_told: AtomicBool::new(false), tell: Box::new(notice) };
        Self { http, timeout: Duration::from_secs(10), notice: Arc::new(notice) }
    }

    pub(super) fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let client = self.http.client(request.url())?;
        let mut answer = client.execute(request).await.map_err(reqwest::Error::without_url)?;
        let mut response = Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            *headers = std::mem::take(answer.headers_mut());
        }
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
            body.extend_from_slice(&piece);
            if body.len() > MAX_ANSWER_BYTES {
                return Err("the answer is too long".into());
            }
        }
        Ok(response.body(body.into())?)
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let place =
            request.uri().authority().map(|authority| authority.host().to_owned()).unwrap_or_default();
        let port = request.uri().port_u16().map(|port| format!(":{port}")).unwrap_or_default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let sent = runtime.block_on(async { tokio::time::timeout(self.timeout, self.send(request)).await });
        let sent = sent.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.timeout).into()));
        let problem = match &sent {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("status {}", answer.status().as_u16())),
            Err(error) => Some(root_cause(&**error)),
        };
        if let Some(problem) = problem
            && !self.notice.was_told.swap(true, Ordering::Relaxed)
        {
            let what = "traces and metrics are lost while this lasts; check the collector, or set OTEL_SDK_DISABLED=true";
            (self.notice.tell)(&format!("OpenTelemetry: {place}{port} takes nothing ({problem}): {what}"));
        }
        sent
    }
}

fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

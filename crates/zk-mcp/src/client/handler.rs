//! Handles requests and notifications of a server.
#![expect(
    deprecated,
    reason = "servers of earlier revisions ask for roots and the model, and tell by log messages"
)]

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode, ErrorData, FormElicitationCapability,
    Implementation, ListRootsResult, LoggingMessageNotificationParam, ProgressNotificationParam, Root,
    RootsCapabilities, SKILLS_EXTENSION_ID, SamplingCapability, TASKS_EXTENSION_ID,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use zk_core::kernel::Cx;

use super::sampling::{Callers, Sampled, Sampling};
use super::waiting::{OpenQuestions, Watched};
use crate::config::server_config::ServerPermission;
use crate::transport::stdio::LogSink;

/// Provider of answers to a server's requests in the middle of a call.
#[async_trait]
pub(crate) trait Answers: Send + Sync {
    /// Asks a person to fill in a form; declined if the person declines or is absent. Cancelled with the call
    /// of `cx`, if the form belongs to one.
    async fn form(&self, server: &str, message: &str, schema: &Value, cx: Option<&Cx>) -> Form;

    /// Asks the model of the run of `cx` for an answer, if the policy or a person allows it; returns the
    /// reason otherwise.
    async fn sample(
        &self,
        server: &str,
        policy: ServerPermission,
        asked: Sampling,
        cx: &Cx,
    ) -> Result<Sampled, String>;
}

/// Result of a form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    Filled(Map<String, Value>),
    Declined,
    Cancelled,
}

/// Counters of the server's notifications about changed lists.
#[derive(Debug, Default)]
pub(crate) struct ListChanged {
    tools: std::sync::atomic::AtomicU64,
    others: std::sync::atomic::AtomicU64,
    told: Notify,
}

impl ListChanged {
    pub(crate) fn record_tools_changed(&self) {
        self.tools.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        self.told.notify_one();
    }

    pub(crate) fn record_others_changed(&self) {
        self.others.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
        self.told.notify_one();
    }

    /// Returns the number of notifications about the list of tools.
    pub(crate) fn count_tool_changes(&self) -> u64 {
        self.tools.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Returns the number of notifications about lists other than that of tools.
    pub(crate) fn count_other_changes(&self) -> u64 {
        self.others.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Waits for a new notification.
    pub(crate) async fn wait_for_change(&self) {
        self.told.notified().await;
    }
}

/// Client-side handler of one connection.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) server: String,
    pub(crate) roots: Arc<[PathBuf]>,
    pub(crate) sampling: ServerPermission,
    pub(crate) callers: Callers,
    pub(crate) changed: Arc<ListChanged>,
    pub(crate) watched: Watched,
    pub(crate) questions: OpenQuestions,
    pub(crate) answers: Option<Arc<dyn Answers>>,
    pub(crate) log: Option<LogSink>,
}

impl Handler {
    /// Answers a form for the call of `cx`, or else for the call that began last.
    pub(crate) async fn elicit(&self, request: ElicitRequestParams, cx: Option<&Cx>) -> ElicitResult {
        let decline = ElicitResult::new(ElicitationAction::Decline);
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request else {
            return decline;
        };
        let (Some(answers), Ok(schema)) = (&self.answers, serde_json::to_value(&requested_schema)) else {
            return decline;
        };
        let _open = self.questions.open();
        let caller = cx.cloned().or_else(|| self.callers.last());
        match answers.form(&self.server, &message, &schema, caller.as_ref()).await {
            Form::Filled(fields) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(fields))
            }
            Form::Declined => decline,
            Form::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
        }
    }

    /// Returns the directories of the conversation.
    pub(crate) fn roots(&self) -> ListRootsResult {
        let roots = self.roots.iter().map(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let root = Root::new(format!("file://{}", encode_path(&path.to_string_lossy())));
            match name {
                Some(name) => root.with_name(name),
                None => root,
            }
        });
        ListRootsResult::new(roots.collect())
    }

    /// Returns the model's answer to a server's request, or the reason for a refusal.
    pub(crate) async fn sample(
        &self,
        request: CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, String> {
        let answers = self.answers.as_ref().ok_or("zk asks no model for servers here")?;
        let cx = self.callers.last().ok_or("the model answers only in the middle of a call")?;
        let asked = Sampling::read(request)?;
        let _open = self.questions.open();
        let sampled = answers.sample(&self.server, self.sampling, asked, &cx).await?;
        Ok(sampled.into_result())
    }
}

/// Percent-encodes a path for a URL.
fn encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        if self.answers.is_some() {
            let mut elicitation = ElicitationCapability::default();
            elicitation.form = Some(FormElicitationCapability::default());
            capabilities.elicitation = Some(elicitation);
            if self.sampling != ServerPermission::Deny {
                capabilities.sampling = Some(SamplingCapability::default());
            }
        }
        let extensions = [TASKS_EXTENSION_ID, SKILLS_EXTENSION_ID];
        let extensions = extensions.map(|id| (id.to_owned(), Map::new()));
        capabilities.extensions = Some(extensions.into_iter().collect());
        let zk = Implementation::new("zk", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, zk)
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(self.roots())
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        // The protocol's code for a person who declines.
        self.sample(request).await.map_err(|why| ErrorData::new(ErrorCode(-1), why, None))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(tokio::select! {
            answer = self.elicit(request, None) => answer,
            // The server cancelled the request.
            () = context.ct.cancelled() => ElicitResult::new(ElicitationAction::Cancel),
        })
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.watched.record_progress(&progress.progress_token, || progress_line(&progress));
    }

    async fn on_logging_message(
        &self,
        message: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let (Some(log), Ok(text)) = (&self.log, serde_json::to_string(&message)) {
            log(format!("{text}\n").as_bytes());
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.record_tools_changed();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.record_others_changed();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.record_others_changed();
    }
}

/// Formats progress in one line: `3/10 reading`.
fn progress_line(progress: &ProgressNotificationParam) -> String {
    let count = match progress.total {
        Some(total) => format!("{}/{total}", progress.progress),
        None => progress.progress.to_string(),
    };
    match &progress.message {
        Some(message) => format!("{count} {message}\n"),
        None => format!("{count}\n"),
    }
}

use zk_chat::ChatError;
use zk_core::kernel::BoxError;
use zk_core::service::StoreError;

/// Error in the answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(in crate::acp) struct RpcError {
    pub(in crate::acp) code: i64,
    pub(in crate::acp) message: String,
}

impl RpcError {
    pub(in crate::acp) const PARSE: i64 = -32700;
    pub(in crate::acp) const REQUEST: i64 = -32600;
    pub(in crate::acp) const METHOD: i64 = -32601;
    pub(in crate::acp) const PARAMS: i64 = -32602;
    pub(in crate::acp) const INTERNAL: i64 = -32603;
    pub(in crate::acp) const SIGN_IN: i64 = -32000;
    pub(in crate::acp) const NOT_FOUND: i64 = -32002;
    pub(in crate::acp) const CANCELLED: i64 = -32800;

    /// An error in one line.
    pub(in crate::acp) fn new(code: i64, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let message = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
        Self { code, message: message.join("; ") }
    }

    pub(in crate::acp) fn params(message: impl Into<String>) -> Self {
        Self::new(Self::PARAMS, message)
    }

    pub(in crate::acp) fn internal(message: impl Into<String>) -> Self {
        Self::new(Self::INTERNAL, message)
    }

    pub(in crate::acp) fn busy() -> Self {
        Self::new(Self::REQUEST, "a prompt of this session runs: cancel it, or wait for its end")
    }

    pub(in crate::acp) fn cancelled() -> Self {
        Self::new(Self::CANCELLED, "cancelled")
    }

    pub(in crate::acp) fn unknown_session(id: &str) -> Self {
        Self::new(Self::NOT_FOUND, format!("there is no session `{id}`; session/list names those there are"))
    }

    pub(in crate::acp) fn unknown_method(method: &str) -> Self {
        Self::new(Self::METHOD, format!("zk has no method `{method}`"))
    }
}

impl From<StoreError> for RpcError {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::NotFound { .. } => Self::NOT_FOUND,
            _ => Self::INTERNAL,
        };
        Self::new(code, error.to_string())
    }
}

impl From<ChatError> for RpcError {
    fn from(error: ChatError) -> Self {
        match error {
            ChatError::NoAccess(error) => Self::new(Self::SIGN_IN, error.to_string()),
            other => Self::internal(other.to_string()),
        }
    }
}

impl From<BoxError> for RpcError {
    fn from(error: BoxError) -> Self {
        Self::internal(error.to_string())
    }
}

/// Reason for which a request is answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The line is no JSON.
    Parse,
    /// The message is no request.
    InvalidRequest,
    /// There is no such method.
    UnknownMethod,
    /// Params are missing, or cannot be used.
    InvalidParams,
    /// The first request is not `initialize`, or comes twice.
    NotInitialized,
    /// The role of the client, or its token, does not go that far.
    NotAllowed,
    /// There is no such conversation here.
    UnknownConversation,
    /// Too many requests wait for their answers.
    TooMany,
    /// The act was tried, and failed.
    Failed,
    /// The question takes no such answer.
    AnswerRefused,
    /// The message is longer than allowed.
    TooLong,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Parse,
        Self::InvalidRequest,
        Self::UnknownMethod,
        Self::InvalidParams,
        Self::NotInitialized,
        Self::NotAllowed,
        Self::UnknownConversation,
        Self::TooMany,
        Self::Failed,
        Self::AnswerRefused,
        Self::TooLong,
    ];

    /// Name of the reason.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::InvalidRequest => "invalid_request",
            Self::UnknownMethod => "unknown_method",
            Self::InvalidParams => "invalid_params",
            Self::NotInitialized => "not_initialized",
            Self::NotAllowed => "not_allowed",
            Self::UnknownConversation => "unknown_conversation",
            Self::TooMany => "too_many",
            Self::Failed => "failed",
            Self::AnswerRefused => "answer_refused",
            Self::TooLong => "too_long",
        }
    }

    /// Code of the error.
    #[must_use]
    pub fn code(self) -> i64 {
        match self {
            Self::Parse => -32700,
            Self::InvalidRequest => -32600,
            Self::UnknownMethod => -32601,
            Self::InvalidParams => -32602,
            Self::NotInitialized => -32000,
            Self::NotAllowed => -32001,
            Self::UnknownConversation => -32002,
            Self::TooMany => -32003,
            Self::Failed => -32004,
            Self::AnswerRefused => -32005,
            Self::TooLong => -32006,
        }
    }
}

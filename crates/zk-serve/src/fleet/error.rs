use http::StatusCode;
use zk_core::service::{EngineError, StoreError};
use zk_engine::RunsError;

/// Error of a request about runs.
#[derive(Debug, thiserror::Error)]
pub(super) enum FleetError {
    #[error("the token is missing or invalid: send `Authorization: Bearer TOKEN`")]
    Unauthorised,
    #[error("this token gives no access to that")]
    Forbidden,
    #[error("there is no run `{0}`")]
    NoRun(String),
    #[error("there is no schedule `{0}`")]
    NoSchedule(String),
    #[error("there is no such path or method; see the documentation of `zk fleet serve`")]
    NoPath,
    #[error("the request cannot be read: {0}")]
    Invalid(String),
    #[error("the body of the request is over {most} bytes")]
    TooLarge { most: usize },
    #[error("run `{0}` waits for no answer")]
    NoQuestion(String),
    #[error("the digest of the call is {0}, so another call waits than the one that was read")]
    OtherDigest(String),
    #[error(transparent)]
    Runs(#[from] RunsError),
}

impl From<EngineError> for FleetError {
    fn from(error: EngineError) -> Self {
        Self::Runs(error.into())
    }
}

impl From<StoreError> for FleetError {
    fn from(error: StoreError) -> Self {
        Self::Runs(error.into())
    }
}

impl FleetError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Unauthorised => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NoRun(_) | Self::NoSchedule(_) | Self::NoPath => StatusCode::NOT_FOUND,
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoQuestion(_) | Self::OtherDigest(_) => StatusCode::CONFLICT,
            Self::Runs(error) => match error {
                RunsError::Unknown(_) => StatusCode::NOT_FOUND,
                RunsError::NoPrompt | RunsError::Ambiguous { .. } => StatusCode::BAD_REQUEST,
                RunsError::NotParked { .. }
                | RunsError::NotFailed { .. }
                | RunsError::Answer(_)
                | RunsError::NothingToDo(_) => StatusCode::CONFLICT,
                RunsError::Engine(error) => of_engine(error),
                RunsError::Store(StoreError::Refused(_)) => StatusCode::PAYLOAD_TOO_LARGE,
                RunsError::Store(StoreError::NotFound { .. }) => StatusCode::NOT_FOUND,
                RunsError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            },
        }
    }
}

fn of_engine(error: &EngineError) -> StatusCode {
    match error {
        EngineError::InvalidName { .. } => StatusCode::BAD_REQUEST,
        EngineError::UnknownRun(_) => StatusCode::NOT_FOUND,
        EngineError::OtherJob(_)
        | EngineError::Finished { .. }
        | EngineError::SessionTaken { .. }
        | EngineError::NameTaken(_) => StatusCode::CONFLICT,
        EngineError::TooNew { .. }
        | EngineError::Full { .. }
        | EngineError::Lost { .. }
        | EngineError::Damaged { .. }
        | EngineError::Failed { .. } => StatusCode::SERVICE_UNAVAILABLE,
    }
}

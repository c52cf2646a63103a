use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::OnceCell;
use zk_core::events::{PartKind, PartLeftOut};
use zk_core::kernel::{BoxError, Cx};
use zk_core::model::{AgentError, Model};
use zk_core::service::{PartFallback, PartModel, PartModels, part_fallback};

use super::Backoff;
use crate::lock::lock;

/// Source of the events about parts.
const SOURCE: &str = "parts";

/// Opener of the models that are set for parts.
#[async_trait]
pub trait PartOpener: Send + Sync {
    /// Returns the model that is set for a part, with its provider registered on the bus; `None` if none is set.
    ///
    /// # Errors
    /// The reason for which the part's model cannot be used, such as a missing key.
    async fn open(&self, part: &str) -> Result<Option<Model>, BoxError>;

    /// Whether text may be sent to the opened model of a part now, checked for each request. Otherwise the run's
    /// model does the work of the part.
    fn is_allowed(&self, _part: &str, _model: &Model) -> bool {
        true
    }

    /// Shows a notice to the person.
    fn notice(&self, text: &str);
}

/// Models of parts by settings.
///
/// A part whose model cannot be used has its [`fallback`](part_fallback): the run's model, or nothing. A notice
/// says so once. The part's own model is tried again after a wait: for failures that may pass, two seconds, doubled
/// with each up to a minute, and a minute for any other.
///
/// ```
/// # use std::sync::Arc;
/// # use async_trait::async_trait;
/// # use zk_agent::{ConfiguredParts, PartOpener};
/// # use zk_core::kernel::{BoxError, Bus};
/// # use zk_core::model::Model;
/// # use zk_core::service::{PartModel, PartModels};
/// struct Settings;
///
/// #[async_trait]
/// impl PartOpener for Settings {
///     async fn open(&self, part: &str) -> Result<Option<Model>, BoxError> {
///         Ok((part == "title").then(|| Model::unknown("ollama", "qwen3:0.6b")))
///     }
///
///     fn notice(&self, text: &str) {
///         eprintln!("{text}");
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let parts = ConfiguredParts::new(Arc::new(Settings));
/// let bus = Bus::new();
/// assert!(matches!(parts.choose("title", &bus.cx()).await, PartModel::Own(_)));
/// assert_eq!(parts.choose("summary", &bus.cx()).await, PartModel::OfRun);
/// bus.scope("parts").provide_service::<dyn PartModels>(Arc::new(parts));
/// # }
/// ```
pub struct ConfiguredParts {
    opener: Arc<dyn PartOpener>,
    /// Opened models by part; `None` for a part without a model of its own.
    opened: Mutex<BTreeMap<String, Arc<OnceCell<Option<Model>>>>>,
    /// Back-off of parts after failures of their models.
    backoff: Backoff,
    /// Parts whose failure was announced.
    told: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for ConfiguredParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfiguredParts").finish_non_exhaustive()
    }
}

impl ConfiguredParts {
    /// Creates the service from an opener of models.
    #[must_use]
    pub fn new(opener: Arc<dyn PartOpener>) -> Self {
        let (opened, backoff, told) = (Mutex::default(), Backoff::default(), Mutex::default());
        Self { opener, opened, backoff, told }
    }

    /// Opens the model of a part; concurrent calls for the same part wait for the first.
    async fn open_model(&self, part: &str) -> Result<Option<Model>, BoxError> {
        let cell = lock(&self.opened).entry(part.to_owned()).or_default().clone();
        cell.get_or_try_init(|| self.opener.open(part)).await.cloned()
    }

    /// Records the failure of a part's model, and announces the first one. Returns the fallback.
    async fn fall_back(&self, part: &str, error: &AgentError, cx: &Cx) -> PartModel {
        self.backoff.record_failure(part, error);
        let fallback = fallback_of(part, &error.to_string());
        if lock(&self.told).insert(part.to_owned()) {
            let next = match fallback {
                PartModel::LeftOut(_) => "it is left out meanwhile",
                PartModel::OfRun | PartModel::Own(_) => "the conversation's model does its work meanwhile",
            };
            self.opener
                .notice(&format!("warning: the model of the part `{part}` cannot be used: {error}; {next}"));
            let (kind, name, source) = (PartKind::Model, part.to_owned(), SOURCE.to_owned());
            // A failing observer does not affect the part.
            let _ = cx.emit(PartLeftOut { kind, name, source, error: error.to_string() }).await;
        }
        fallback
    }
}

fn fallback_of(part: &str, error: &str) -> PartModel {
    match part_fallback(part) {
        PartFallback::RunModel => PartModel::OfRun,
        PartFallback::LeaveOut => {
            PartModel::LeftOut(format!("the part `{part}` is left out, because its model failed: {error}"))
        }
    }
}

#[async_trait]
impl PartModels for ConfiguredParts {
    async fn choose(&self, part: &str, cx: &Cx) -> PartModel {
        if let Some(error) = self.backoff.last_error_in_wait(part) {
            return fallback_of(part, &error);
        }
        match self.open_model(part).await {
            Ok(Some(model)) if !self.opener.is_allowed(part, &model) => PartModel::OfRun,
            Ok(Some(model)) => PartModel::Own(Box::new(model)),
            Ok(None) => PartModel::OfRun,
            Err(error) => self.fall_back(part, &AgentError::Usage(error.to_string()), cx).await,
        }
    }

    async fn replace(&self, part: &str, _: &Model, error: &AgentError, cx: &Cx) -> PartModel {
        self.fall_back(part, error, cx).await
    }
}

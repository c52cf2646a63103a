use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures_util::stream::unfold;
use zk_core::kernel::{Cx, Scope};
use zk_core::model::{Model, WireRules};
use zk_core::service::{Backend, EventStream, Provider, Request, Ui, visible_line};

use super::backend_turn::Turn;
use crate::extension::Shared;
use crate::protocol::BackendRegistration;

/// Longest name, in characters.
const MAX_NAME_CHARS: usize = 32;
/// Most models of one backend.
const MAX_MODELS: usize = 200;
/// Model of a backend that names none.
const DEFAULT_MODEL: &str = "default";

/// Agent of an extension.
#[derive(Clone)]
pub(crate) struct ExtensionBackend {
    shared: Arc<Shared>,
    backend: Arc<BackendRegistration>,
    has_told: Arc<AtomicBool>,
}

impl ExtensionBackend {
    pub(crate) fn provide(
        scope: &Scope,
        shared: &Arc<Shared>,
        mut backend: BackendRegistration,
    ) -> Result<(), String> {
        let name = backend.name.clone();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.chars().count() > MAX_NAME_CHARS || !name.chars().all(is_plain) {
            return Err(format!(
                "the name of a backend has 1 to {MAX_NAME_CHARS} letters, digits, `-` and `_`"
            ));
        }
        if shared.is_reserved(&name) {
            return Err("zk has a provider of this name; choose another one".to_owned());
        }
        if backend.models.len() > MAX_MODELS {
            return Err(format!("a backend has at most {MAX_MODELS} models"));
        }
        if let Some(wrong) =
            backend.models.iter().find(|id| id.is_empty() || id.chars().any(char::is_control))
        {
            return Err(format!("`{}` is no id of a model", visible_line(wrong)));
        }
        if backend.models.is_empty() {
            backend.models.push(DEFAULT_MODEL.to_owned());
        }
        backend.description = visible_line(&backend.description);
        let item =
            Arc::new(Self { shared: shared.clone(), backend: Arc::new(backend), has_told: Arc::default() });
        scope.provide::<dyn Provider>(&name, item.clone()).map_err(|error| error.to_string())?;
        scope.provide::<dyn Backend>(&name, item).map_err(|error| error.to_string())
    }

    fn unenforced_lines(&self) -> Vec<String> {
        let extension = self.shared.name();
        let walls = if self.shared.config.origin.is_project {
            "in the sandbox"
        } else {
            "as you, with all your files and the network"
        };
        vec![format!(
            "calls of zk's tools pass zk's permissions; what extension `{extension}` does itself, {walls}, does not"
        )]
    }

    /// Shows the person once the limits that zk cannot enforce.
    fn show_unenforced(&self, cx: &Cx) {
        if self.has_told.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(ui) = cx.service::<dyn Ui>() {
            self.unenforced_lines()
                .iter()
                .for_each(|line| ui.notify(&format!("{}: {line}", self.backend.name)));
        }
    }
}

#[async_trait]
impl Backend for ExtensionBackend {
    fn name(&self) -> &str {
        &self.backend.name
    }

    fn describe(&self) -> String {
        let extension = format!("extension `{}`", self.shared.name());
        match self.backend.description.as_str() {
            "" => extension,
            description => format!("{description} ({extension})"),
        }
    }

    fn provider(&self) -> Option<Arc<dyn Provider>> {
        Some(Arc::new(self.clone()))
    }

    fn has_own_permissions(&self) -> bool {
        false
    }

    fn unenforced(&self) -> Vec<String> {
        // The caller shows these limits.
        self.has_told.store(true, Ordering::Relaxed);
        self.unenforced_lines()
    }

    fn walls(&self) -> &str {
        if self.shared.config.origin.is_project { "sandbox" } else { "" }
    }
}

/// Turns of the extension as responses of a model.
#[async_trait]
impl Provider for ExtensionBackend {
    fn name(&self) -> &str {
        &self.backend.name
    }

    fn model(&self, id: &str) -> Model {
        Model::unknown(&*self.backend.name, id)
    }

    fn default_model(&self) -> Option<String> {
        self.backend.models.first().cloned()
    }

    fn known_models(&self) -> Vec<Model> {
        self.backend.models.iter().map(|id| self.model(id)).collect()
    }

    fn is_retrying(&self) -> bool {
        // A failed turn may have had effects, so the prompt is not sent again automatically.
        true
    }

    fn rules(&self, model: &Model) -> WireRules {
        WireRules::tolerant(model.reference())
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        self.show_unenforced(cx);
        let turn = Turn::begin(self.shared.clone(), self.backend.name.clone(), request, cx.clone());
        Box::pin(unfold(turn, |mut turn| async move { Some((turn.next().await?, turn)) }))
    }

    async fn describe_model(&self, id: &str, _: &Cx) -> Model {
        self.model(id)
    }
}

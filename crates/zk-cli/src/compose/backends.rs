//! Choice between a provider's models and a backend, which is an agent of another program.

use std::sync::Arc;

use zk_backends::{AcpBackend, AgentExecs, BackendDefinition, BackendsPlugin};
use zk_core::kernel::Bus;
use zk_core::model::Model;
use zk_core::service::{BUILT_IN_BACKEND, Backend, Exec, Provider, visible_line};
use zk_exec::Environment;
use zk_tui::plain::Notices;

use super::extensions;
use crate::app::{AppContext, Workplace};
use crate::exit::{Failure, Outcome};
use crate::sandbox;
use crate::sessions::Session;
use crate::settings::{Layer, Settings};
use zk_providers::select::SelectedEndpoint;

/// Source of answers in a conversation.
pub(crate) enum Answering {
    Provider(Arc<dyn Provider>),
    /// The backend of this name; its plugin provides the provider.
    Backend(String),
}

impl Answering {
    /// Returns the backend that was `used` last or is configured, or else the provider at an endpoint.
    pub(crate) async fn find(
        app: &AppContext,
        used: Option<&str>,
        endpoint: impl Future<Output = Outcome<SelectedEndpoint>>,
    ) -> Outcome<Self> {
        if let Some(name) = initial_backend(&app.settings, used)? {
            return Ok(Self::Backend(name));
        }
        let provider =
            super::provider(&app.work.machine, &app.settings, &app.shared, &endpoint.await?).await?;
        Ok(Self::Provider(provider))
    }

    /// Returns the provider. For a backend of an extension, waits until the extension runs.
    pub(crate) async fn provider(&self, bus: &Bus, settings: &Settings) -> Outcome<Arc<dyn Provider>> {
        match self {
            Self::Provider(provider) => Ok(provider.clone()),
            Self::Backend(name) if settings.backends.contains_key(name) => {
                bus.item::<dyn Provider>(name).ok_or_else(|| {
                    Failure::usage(format!("the backend {name} cannot be used; `zk doctor` says why"))
                })
            }
            Self::Backend(name) => {
                extensions::wait_for_extensions(bus).await;
                bus.item::<dyn Backend>(name).and_then(|backend| backend.provider()).ok_or_else(|| {
                    Failure::usage(format!(
                        "no extension provides the backend {name}, and there is no [backends.{name}]; `zk ext test \
                         EXTENSION` prints what one registers, and --provider NAME goes on with zk's own agent"
                    ))
                })
            }
        }
    }

    /// Shows the limits that zk cannot enforce on a backend, for runs without a person.
    pub(crate) fn tell_unenforced(&self, bus: &Bus, notices: &Notices) {
        let Self::Backend(name) = self else { return };
        let Some(backend) = bus.item::<dyn Backend>(name) else { return };
        let own = if backend.has_own_permissions() { " has its own permissions" } else { "" };
        notices.show(&visible_line(&format!("{name}{own}: {}", backend.unenforced().join("; "))));
    }

    /// Returns the initial model of a conversation.
    pub(crate) async fn model(
        &self,
        app: &AppContext,
        provider: &dyn Provider,
        session: &Session,
        is_attended: bool,
    ) -> Outcome<Model> {
        let before = session.loaded.model.as_ref().filter(|model| *model.provider == *provider.name());
        match self {
            Self::Provider(_) => {
                super::model(&app.work.machine, &app.settings, provider, session, is_attended).await
            }
            Self::Backend(_) => {
                let usual = provider.default_model().unwrap_or_default();
                Ok(provider.model(before.map_or(&usual, |model| &model.model)))
            }
        }
    }
}

/// Returns the initial backend's name; `None` for the built-in agent.
pub(crate) fn initial_backend(settings: &Settings, used: Option<&str>) -> Outcome<Option<String>> {
    // A model or a provider on the command line selects the built-in agent.
    let is_said = |key| settings.origin(key).is_some_and(|origin| matches!(origin.layer, Layer::CommandLine));
    let is_own = is_said("model") || is_said("provider");
    // Backends of extensions are only known once the extensions run.
    let is_of_extension = |name: &str| {
        !is_own && settings.extensions().iter().any(|one| one.enabled) && name != BUILT_IN_BACKEND
    };
    let is_provider = |name: &str| settings.known_providers().find(name).is_ok();
    if let Some(name) = used {
        let is_backend =
            settings.backends.contains_key(name) || (is_of_extension(name) && !is_provider(name));
        return Ok(is_backend.then(|| name.to_owned()));
    }
    match settings.backend.default.as_deref().filter(|_| !is_own) {
        Some(name) if settings.backends.contains_key(name) || is_of_extension(name) => {
            Ok(Some(name.to_owned()))
        }
        Some(name) if name != BUILT_IN_BACKEND => Err(Failure::usage(format!(
            "backend.default: there is no [backends.{name}]; `{BUILT_IN_BACKEND}` is the built-in agent"
        ))),
        Some(_) | None => Ok(None),
    }
}

/// Returns the plugin of all backends. `plain` runs agents outside of the sandbox.
pub(super) fn plugin(work: &Workplace, settings: &Settings, plain: Arc<dyn Exec>) -> BackendsPlugin {
    BackendsPlugin::new(all(work, settings, plain))
}

/// Returns the configured backends, and shows a warning for each invalid one.
pub(crate) fn all(work: &Workplace, settings: &Settings, plain: Arc<dyn Exec>) -> Vec<Arc<AcpBackend>> {
    let lookup = |name: &str| work.machine.env.text(name).map(str::to_owned);
    let (definitions, wrong) = BackendDefinition::read_all(&settings.backends, &lookup);
    for error in wrong {
        work.machine.notices.show(&visible_line(&format!("warning: {error}")));
    }
    for definition in &definitions {
        definition.secrets().for_each(|secret| work.machine.redactor.learn(secret));
    }
    let environment = Environment::filtered(work.machine.env.without_secrets());
    let is_held = definitions.iter().any(|definition| definition.is_sandboxed);
    // Without a sandbox, each backend reports that it runs unsandboxed.
    let sandbox = is_held.then(|| sandbox::start(work, settings, environment).ok()).flatten();
    let execs = AgentExecs { plain, sandbox: sandbox.map(|exec| Arc::new(exec) as Arc<dyn Exec>) };
    definitions.into_iter().map(|one| Arc::new(AcpBackend::new(one, execs.clone()))).collect()
}

//! Models and providers by the names that a person types.

use std::sync::Arc;

use zk_agent::Agent;
use zk_core::model::Model;
use zk_core::service::Provider;
use zk_exec::ContextName;
use zk_permission::ModeSwitch;
use zk_providers::select::{SelectedEndpoint, lists_model, split_thinking_level};

use crate::app::AppContext;
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;
use crate::{compose, credentials, select};
use zk_chat::NamedModel;

/// Finds a model by its name: as printed in lists, an id or a family.
pub(super) async fn find_model(app: &AppContext, name: &str, agent: &Agent) -> Outcome<NamedModel> {
    let provider = provider_of(app, name, agent).await?;
    let id = app.settings.known_providers().model_id(provider.name(), name);
    let model = compose::describe_model(&*provider, &id).await;
    Ok(NamedModel { model, thinking: split_thinking_level(name).1 })
}

/// Returns the provider that a model name tells; otherwise the current one.
async fn provider_of(app: &AppContext, name: &str, agent: &Agent) -> Outcome<Arc<dyn Provider>> {
    let current = agent.model().provider;
    let gone = || Failure::failed(format!("{current} is not there any more"));
    let here = registered_provider(agent, &current).ok_or_else(gone)?;
    let prefix = name.split_once('/').map(|(first, _)| first).filter(|first| *first != &*current);
    if let Some(provider) = prefix.and_then(|prefix| registered_provider(agent, prefix)) {
        return Ok(provider);
    }
    let other = app.settings.known_providers().other_provider(Some(&current), name);
    let Some(other) = other else { return Ok(here) };
    if let Some(provider) = registered_provider(agent, &other.name) {
        return Ok(provider);
    }
    match open(app, &other.name, agent).await {
        Ok(provider) => Ok(provider),
        // At a custom address, a name with a slash may be an id.
        Err(_) if !other.is_explicit || lists_model(&*here, name).await => Ok(here),
        Err(failure) => Err(failure),
    }
}

/// Returns a model of the provider `name`; its default model if none is named.
pub(super) async fn find_provider(
    app: &AppContext,
    name: &str,
    model: Option<&str>,
    agent: &Agent,
) -> Outcome<Model> {
    let provider = match registered_provider(agent, name) {
        Some(provider) => provider,
        None => open(app, name, agent).await?,
    };
    match model {
        Some(name) => {
            let id = app.settings.known_providers().model_id(provider.name(), name);
            Ok(compose::describe_model(&*provider, &id).await)
        }
        None => compose::default_model_of(&app.settings, &*provider).await,
    }
}

/// The model of the provider that the built-in agent begins with.
pub(super) async fn own_model(app: &AppContext, agent: &Agent) -> Outcome<Model> {
    let endpoint = app.endpoint().await?;
    let provider = match registered_provider(agent, &endpoint.provider.name) {
        Some(provider) => provider,
        None => open_at(app, &endpoint, agent).await?,
    };
    match &app.settings.program.model {
        Some(name) => {
            let id = app.settings.known_providers().model_id(provider.name(), name);
            Ok(compose::describe_model(&*provider, &id).await)
        }
        None => compose::default_model_of(&app.settings, &*provider).await,
    }
}

/// Returns the models of all providers with a credential, from the catalogue and the settings.
pub(super) async fn known_models(app: &AppContext) -> Vec<Model> {
    let stored = credentials::all_stored(&app.work.machine).await;
    let known = app.settings.known_providers();
    let mut models = Vec::new();
    for provider in known.names().into_iter().filter_map(|name| known.find(&name).ok()) {
        // The models at a custom address are unknown.
        let has_key = app.credential(&provider, &stored).is_some();
        if has_key && app.endpoint_of(&provider.name).await.is_ok_and(|endpoint| endpoint.is_usual()) {
            models.extend(app.settings.models(&provider.name).models_of(&provider.name));
        }
    }
    models
}

/// Describes the place where commands run, for a person.
pub(super) fn describe_place(settings: &Settings, agent: &Agent) -> String {
    let is_held = agent.bus().service::<ModeSwitch>().is_some_and(|modes| modes.is_contained());
    match settings.context() {
        ContextName::Sandbox => "in a sandbox: they write to the project alone".to_owned(),
        ContextName::Process if is_held => {
            "in a sandbox: they write to the project alone, and have no network".to_owned()
        }
        ContextName::Process => "as you, on this machine, without a sandbox".to_owned(),
        ContextName::Docker(_) | ContextName::Remote(_) | ContextName::Ssh(_) => {
            format!("in {}", settings.context_text().unwrap_or("another place"))
        }
    }
}

/// Returns a remark on a model that zk does not know.
pub(super) fn remark_on(settings: &Settings, model: &Model) -> Option<String> {
    settings.known_providers().unknown_model(model).map(|unknown| select::unlisted_model_note(&unknown))
}

async fn open(app: &AppContext, name: &str, agent: &Agent) -> Outcome<Arc<dyn Provider>> {
    open_at(app, &app.endpoint_of(name).await?, agent).await
}

async fn open_at(app: &AppContext, endpoint: &SelectedEndpoint, agent: &Agent) -> Outcome<Arc<dyn Provider>> {
    let provider = compose::provider(&app.work.machine, &app.settings, &app.shared, endpoint).await?;
    let scope = agent.bus().scope("provider");
    scope.provide::<dyn Provider>(provider.name(), provider.clone()).map_err(Failure::failed)?;
    Ok(provider)
}

fn registered_provider(agent: &Agent, name: &str) -> Option<Arc<dyn Provider>> {
    agent.bus().item::<dyn Provider>(name)
}

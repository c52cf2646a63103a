//! Models and providers by the names that a person types.

use std::sync::Arc;

use zk_agent::Agent;
use zk_core::model::Model;
use zk_core::service::Provider;
use zk_providers::select::{lists_model, split_thinking_level};

use crate::app::AppContext;
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;
use crate::{compose, select};
use zk_chat::NamedModel;

/// The model that `name` means: as a list of models prints it, an id or a family.
pub(super) async fn find_model(app: &AppContext, name: &str, agent: &Agent) -> Outcome<NamedModel> {
    let provider = provider_of(app, name, agent).await?;
    let id = app.settings.known_providers().model_id(provider.name(), name);
    let model = compose::describe_model(&*provider, &id).await;
    Ok(NamedModel { model, thinking: split_thinking_level(name).1 })
}

/// The provider whose model `name` is. The current one where nothing says another.
async fn provider_of(app: &AppContext, name: &str, agent: &Agent) -> Outcome<Arc<dyn Provider>> {
    let current = agent.model().provider;
    let gone = || Failure::failed(format!("{current} is not there any more"));
    let here = registered(agent, &current).ok_or_else(gone)?;
    let prefix = name.split_once('/').map(|(first, _)| first).filter(|first| *first != &*current);
    if let Some(provider) = prefix.and_then(|prefix| registered(agent, prefix)) {
        return Ok(provider);
    }
    let other = app.settings.known_providers().other_provider(Some(&current), name);
    let Some(other) = other else { return Ok(here) };
    if let Some(provider) = registered(agent, &other.name) {
        return Ok(provider);
    }
    match open(app, &other.name, agent).await {
        Ok(provider) => Ok(provider),
        // At an address of one's own, a name with a slash may be an id.
        Err(_) if !other.is_explicit || lists_model(&*here, name).await => Ok(here),
        Err(failure) => Err(failure),
    }
}

/// A model of the provider `name`: its default where none is named.
pub(super) async fn find_provider(
    app: &AppContext,
    name: &str,
    model: Option<&str>,
    agent: &Agent,
) -> Outcome<Model> {
    let provider = match registered(agent, name) {
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

/// A remark on a model that zk does not know.
pub(super) fn remark_on(settings: &Settings, model: &Model) -> Option<String> {
    settings.known_providers().unknown_model(model).map(|unknown| select::note(&unknown))
}

async fn open(app: &AppContext, name: &str, agent: &Agent) -> Outcome<Arc<dyn Provider>> {
    let endpoint = app.endpoint_of(name).await?;
    let provider = compose::provider(&app.work.machine, &app.settings, &app.shared, &endpoint).await?;
    let scope = agent.bus().scope("provider");
    scope.provide::<dyn Provider>(provider.name(), provider.clone()).map_err(Failure::failed)?;
    Ok(provider)
}

fn registered(agent: &Agent, name: &str) -> Option<Arc<dyn Provider>> {
    agent.bus().item::<dyn Provider>(name)
}

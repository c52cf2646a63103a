//! Models of parts of zk, such as sub-agents: their choice by settings, their permission, and their provider.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use zk_agent::{ConfiguredParts, PartOpener};
use zk_core::events::ModelSelect;
use zk_core::kernel::{BoxError, Bus, Cx, Reach, Scope};
use zk_core::model::Model;
use zk_core::service::{EMBEDDINGS_PART, KNOWN_PARTS, PartModels, Provider, visible_line};
use zk_providers::known_models;
use zk_settings::suggest::did_you_mean;

use crate::app::AppContext;
use crate::compose;
use crate::exit::{Failure, Outcome};
use crate::settings::{Layer, Settings};

/// Model chosen for a part.
#[derive(Clone, Debug)]
pub(crate) struct NamedPart {
    /// Name of the model, as written in the settings or the agent's file.
    pub(crate) model: String,
    /// Place where the model is named, for messages.
    pub(crate) origin: String,
    /// Whether the person named the model, not a file of the project or of a plugin.
    pub(crate) is_of_person: bool,
}

/// Models of parts, by part; the settings override the files of agents.
pub(crate) type NamedParts = BTreeMap<String, NamedPart>;

/// Adds the models of the settings to those of agents, which they override. Warns of a name that is neither a part nor
/// in `agents`.
pub(crate) fn named_parts(app: &AppContext, mut of_agents: NamedParts, agents: &[&str]) -> NamedParts {
    for (part, model) in app.settings.parts.iter() {
        let named = of_setting(&app.settings, &format!("parts.{part}"), model);
        let origin = &named.origin;
        if KNOWN_PARTS.iter().all(|known| known.name != part) && !agents.contains(&part) {
            let names = KNOWN_PARTS.iter().map(|known| known.name).chain(agents.iter().copied());
            app.work.machine.notices.show(&visible_line(&format!(
                "warning: {origin}: `parts.{part}` is no part of zk and no sub-agent{}",
                did_you_mean(part, names)
            )));
        }
        of_agents.insert(part.to_owned(), named);
    }
    if let Some(model) = &app.settings.memory.embeddings {
        of_agents.insert(EMBEDDINGS_PART.to_owned(), of_setting(&app.settings, EMBEDDINGS_PART, model));
    }
    of_agents
}

/// Model of a part as the setting `key` names it.
fn of_setting(settings: &Settings, key: &str, model: &str) -> NamedPart {
    let origin = settings.origin(key);
    let is_of_person = origin.is_some_and(|origin| !origin.layer.is_project());
    let origin = origin.map(|origin| origin.place.clone()).unwrap_or_default();
    NamedPart { model: model.to_owned(), origin, is_of_person }
}

/// Provides the models of parts on a bus. `own` is the provider of the conversation.
pub(crate) fn install(app: &AppContext, bus: &Bus, own: Arc<dyn Provider>, named: NamedParts) {
    if named.is_empty() {
        return;
    }
    let scope = bus.scope("parts");
    let opener = Opener::new(app, own, scope.clone(), named);
    let present = opener.present.clone();
    scope.on_sync_at(Reach::Own, move |select: &ModelSelect, _: &Cx| {
        let mut present = present.lock().unwrap_or_else(PoisonError::into_inner);
        present.clone_from(&select.to.provider);
    });
    scope.provide_service::<dyn PartModels>(Arc::new(ConfiguredParts::new(Arc::new(opener))));
}

/// Opens the model of each part, for a check.
pub(crate) async fn open_all(
    app: &AppContext,
    own: Arc<dyn Provider>,
    named: NamedParts,
) -> Vec<(String, Result<Model, BoxError>)> {
    let bus = Bus::new();
    let opener = Opener::new(app, own, bus.scope("parts"), named);
    let mut opened = Vec::new();
    for part in opener.named.keys() {
        if let Some(result) = opener.open(part).await.transpose() {
            opened.push((part.clone(), result));
        }
    }
    bus.close().await;
    opened
}

/// Opener of the parts' providers, which works like the `/provider` command.
struct Opener {
    app: AppContext,
    own: Arc<dyn Provider>,
    scope: Scope,
    named: NamedParts,
    /// Name of the provider that the conversation uses now.
    present: Arc<Mutex<String>>,
}

#[async_trait]
impl PartOpener for Opener {
    async fn open(&self, part: &str) -> Result<Option<Model>, BoxError> {
        let Some(named) = self.named.get(part) else { return Ok(None) };
        let provider = self.provider(part, named).await?;
        let known = self.app.settings.known_providers();
        let id = known.model_id(provider.name(), &named.model);
        let model = compose::describe_model(&*provider, &id).await;
        // Model ids of gateways have slashes; at any other provider, an unknown prefix names a missing provider.
        let has_slashes = known_models(provider.name()).any(|id| id.contains('/'));
        if let Some((prefix, _)) = named.model.split_once('/').filter(|_| !has_slashes)
            && prefix != provider.name()
            && known.unknown_model(&model).is_some()
        {
            known.find(prefix).map_err(Failure::from)?;
        }
        Ok(Some(model))
    }

    fn is_allowed(&self, part: &str, model: &Model) -> bool {
        let is_of_person = self.named.get(part).is_some_and(|named| named.is_of_person);
        let is_present = model.provider == *self.present.lock().unwrap_or_else(PoisonError::into_inner);
        is_of_person || is_present || is_named_by_person(&self.app.settings, &model.provider)
    }

    fn notice(&self, text: &str) {
        self.app.work.machine.notices.show(&visible_line(text));
    }
}

impl Opener {
    fn new(app: &AppContext, own: Arc<dyn Provider>, scope: Scope, named: NamedParts) -> Self {
        let present = Arc::new(Mutex::new(own.name().to_owned()));
        Self { app: app.clone(), own, scope, named, present }
    }

    async fn provider(&self, part: &str, named: &NamedPart) -> Outcome<Arc<dyn Provider>> {
        let settings = &self.app.settings;
        let other = settings.known_providers().other_provider(Some(self.own.name()), &named.model);
        let Some(other) = other else { return Ok(self.own.clone()) };
        if !named.is_of_person && !is_named_by_person(settings, &other.name) {
            return Err(Failure::usage(format!(
                "{} sends the text of `{part}` to {}, which your own settings do not name; `{part} = \"{}\"` below \
                 [parts] of your settings allows it",
                named.origin, other.name, named.model
            )));
        }
        let registered = || self.scope.bus().and_then(|bus| bus.item::<dyn Provider>(&other.name));
        if let Some(provider) = registered() {
            return Ok(provider);
        }
        let endpoint = self.app.endpoint_of(&other.name).await?;
        let machine = &self.app.work.machine;
        let provider = compose::provider(machine, settings, &self.app.shared, &endpoint).await?;
        match self.scope.provide::<dyn Provider>(provider.name(), provider.clone()) {
            Ok(()) => Ok(provider),
            // Registered meanwhile, such as by `/provider`.
            Err(taken) => registered().ok_or_else(|| Failure::failed(taken)),
        }
    }
}

/// Whether the person's own settings, not the project's or the environment, name a provider.
pub(crate) fn is_named_by_person(settings: &Settings, provider: &str) -> bool {
    settings.iter().any(|(path, entry)| {
        let is_of_person = match entry.origin.layer {
            Layer::User | Layer::Kept | Layer::Preset | Layer::CommandLine | Layer::Managed => true,
            Layer::Default
            | Layer::Environment
            | Layer::Project
            | Layer::ProjectLocal
            | Layer::ProjectPreset => false,
        };
        let names = |text: &str| text.split_once('/').is_some_and(|(named, _)| named == provider);
        is_of_person
            && match path {
                [key] if key == "provider" => entry.text() == Some(provider),
                [key] if key == "model" => entry.text().is_some_and(names),
                [table, _] if table == "parts" => entry.text().is_some_and(names),
                [table, name, ..] if table == "providers" => name == provider,
                _ => false,
            }
    })
}

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use zk_core::events::{ListingFailed, ModelsCause, ModelsChanged, ModelsQuery, ModelsReply};
use zk_core::kernel::{Answer, Cx, Handler, ItemChange, Scope, Stage};
use zk_core::model::{ErrorKind, Model, ModelRef};
use zk_core::service::Provider;

use super::inner::AgentInner;

/// Time limit of a request for an endpoint's model list.
const LISTING_TIME_LIMIT: Duration = Duration::from_secs(10);

/// Registers handlers that answer `models:query` for `agent`, and announce changes of its models.
pub(crate) fn register_handlers(agent: &Arc<AgentInner>, scope: &Scope) {
    let agent = Arc::downgrade(agent);
    // Early, so that later handlers with better data override this answer.
    scope.handle_at::<ModelsQuery, _>(Stage::Early, Arc::new(Answers(agent.clone())));
    scope.on_items::<dyn Provider>(move |change| {
        if let Some(agent) = agent.upgrade() {
            agent.handle_provider_change(change);
        }
    });
}

struct Answers(Weak<AgentInner>);

impl Handler<ModelsQuery> for Answers {
    async fn call(&self, ev: &ModelsQuery, cx: &Cx) -> Answer<ModelsQuery> {
        let Some(agent) = self.0.upgrade() else { return Ok(None) };
        let mut providers = agent.providers();
        providers.retain(|provider| ev.provider.as_ref().is_none_or(|name| name == provider.name()));
        let mut reply = ModelsReply::default();
        if ev.refresh {
            let asked = providers.iter().map(|provider| agent.request_list(&**provider, cx));
            reply.failed.extend(join_all(asked).await.into_iter().flatten());
        }
        reply.models.extend(providers.iter().flat_map(|provider| agent.models_of(&**provider)));
        Ok(Some(reply))
    }
}

impl AgentInner {
    /// Returns the agent's own provider and all other registered providers.
    fn providers(&self) -> Vec<Arc<dyn Provider>> {
        let registered = self.bus.items::<dyn Provider>().into_iter().map(|item| item.value);
        let others = registered.filter(|provider| provider.name() != self.provider.name());
        self.own_provider().into_iter().chain(others).collect()
    }

    /// Returns a provider's listed models, followed by the other models it knows.
    fn models_of(&self, provider: &dyn Provider) -> Vec<Model> {
        let mut models = self.state().listed.get(provider.name()).cloned().unwrap_or_default();
        let listed: HashSet<String> = models.iter().map(|model| model.id.clone()).collect();
        models.extend(provider.known_models().into_iter().filter(|known| !listed.contains(&known.id)));
        models
    }

    /// Finds a model by its id or a part of it, such as `sonnet`. Without a match, `PROVIDER/ID` may
    /// name a model of another provider.
    pub(crate) fn known_model(&self, asked: &ModelRef) -> Option<Model> {
        let at = |provider: &str, name: &str| {
            let provider = self.providers().into_iter().find(|known| known.name() == provider)?;
            let models = self.models_of(&*provider);
            let is_part = |part: &str| part.eq_ignore_ascii_case(name);
            let exact = models.iter().find(|model| model.id == name);
            exact
                .or_else(|| models.iter().find(|model| model.id.split(['-', '/', ':']).any(is_part)))
                .cloned()
        };
        let elsewhere = || at(asked.model.split_once('/')?.0, asked.model.split_once('/')?.1);
        at(&asked.provider, &asked.model).or_else(elsewhere)
    }

    /// Requests a provider's model list and caches it; returns the failure, if any.
    async fn request_list(&self, provider: &dyn Provider, cx: &Cx) -> Option<ListingFailed> {
        let name = provider.name();
        let failed = |error| Some(ListingFailed { provider: name.to_owned(), error });
        let listed = match tokio::time::timeout(LISTING_TIME_LIMIT, provider.list_models(cx)).await {
            Ok(Ok(Some(models))) => models,
            Ok(Ok(None)) => return failed(None),
            Ok(Err(error)) => return failed(Some(error.kind)),
            Err(_) => return failed(Some(ErrorKind::Stalled)),
        };
        let before = self.models_of(provider);
        self.state().listed.insert(name.to_owned(), listed);
        if !has_same_models(&before, &self.models_of(provider)) {
            let changed = || ModelsChanged { provider: name.to_owned(), cause: ModelsCause::Listed };
            // A failing observer does not affect the list.
            let _ = cx.emit_with(changed).await;
        }
        None
    }

    /// Handles a provider that was registered or removed. Its cached model list may be another endpoint's, so
    /// it is dropped.
    fn handle_provider_change(&self, change: &ItemChange) {
        let provider = change.name.to_string();
        self.state().listed.remove(&provider);
        self.update_chosen_model(&provider);
        let cause = if change.owner.is_some() { ModelsCause::Registered } else { ModelsCause::Removed };
        let cx = self.bus.cx();
        // Without a runtime the change is not announced; queries return the new models anyway.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { cx.emit_with(|| ModelsChanged { provider, cause }).await });
        }
    }

    /// Updates the chosen model with the facts of its provider, if that was registered after the choice.
    fn update_chosen_model(&self, provider: &str) {
        let chosen = self.state().model.clone();
        if chosen.provider != provider || chosen.window.is_some() {
            return;
        }
        let Some(known) = self.bus.item::<dyn Provider>(provider) else { return };
        let known = known.model(&chosen.id);
        let mut state = self.state();
        if state.model == chosen {
            state.model = known;
        }
    }
}

fn has_same_models(before: &[Model], after: &[Model]) -> bool {
    before.len() == after.len() && after.iter().all(|model| before.contains(model))
}

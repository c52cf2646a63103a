use std::collections::HashMap;
use std::ops::ControlFlow;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::notify;
use crate::kernel::{Absorb, Event, Fold, Source};
use crate::model::{ErrorKind, Model, ModelRef};

/// Query for the known models. Handlers add the models they know; of two with the same provider and id the
/// later is used. An agent adds the models of its own provider and of all registered providers.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ModelsQuery {
    /// Provider whose models are asked for; `None` asks for the models of all providers.
    pub provider: Option<String>,
    /// Whether to request fresh lists from the endpoints, which takes as long as they need to answer.
    /// Otherwise the cached lists and the built-in catalogue count.
    pub refresh: bool,
    /// Models collected so far.
    pub models: Vec<Model>,
    /// Providers whose model list could not be read, collected so far.
    pub failed: Vec<ListingFailed>,
}

/// A provider whose endpoint gave no list of models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ListingFailed {
    /// Name of the provider.
    pub provider: String,
    /// Class of the error; `None` if the provider's API has no model list.
    pub error: Option<ErrorKind>,
}

/// Answer to [`ModelsQuery`].
///
/// ```
/// use zk_core::events::{ModelsQuery, ModelsReply};
/// use zk_core::kernel::Bus;
/// use zk_core::model::Model;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let bus = Bus::new();
/// bus.scope("lab").on_sync(|_: &ModelsQuery, _| Some(ModelsReply::from(vec![Model::unknown("lab", "lab-1")])));
/// let known = bus.cx().emit(ModelsQuery::default()).await.unwrap();
/// assert_eq!(known.models[0].reference().to_string(), "lab/lab-1");
/// # });
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelsReply {
    /// Models to add, in display order.
    pub models: Vec<Model>,
    /// Providers whose model list could not be read.
    pub failed: Vec<ListingFailed>,
}

impl From<Vec<Model>> for ModelsReply {
    fn from(models: Vec<Model>) -> Self {
        Self { models, failed: Vec::new() }
    }
}

impl Event for ModelsQuery {
    const NAME: &'static str = "models:query";
    type Reply = ModelsReply;
    type Mode = Fold;
}

impl Absorb for ModelsQuery {
    fn absorb(&mut self, reply: ModelsReply, _: &Source) -> ControlFlow<()> {
        let known = self.models.iter().map(Model::reference).zip(0..);
        let mut places: HashMap<ModelRef, usize> = known.collect();
        for model in reply.models {
            match places.get(&model.reference()).and_then(|at| self.models.get_mut(*at)) {
                Some(known) => *known = model,
                None => {
                    places.insert(model.reference(), self.models.len());
                    self.models.push(model);
                }
            }
        }
        self.failed.extend(reply.failed);
        ControlFlow::Continue(())
    }
}

/// Cause of a change of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelsCause {
    /// The provider was registered.
    Registered,
    /// The provider was unregistered.
    Removed,
    /// The endpoint's model list changed.
    Listed,
}

/// The models of a provider changed; [`ModelsQuery`] returns the new list.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ModelsChanged {
    /// Name of the provider.
    pub provider: String,
    /// Cause of the change.
    pub cause: ModelsCause,
}
notify!(ModelsChanged, "models:changed", CANCELLABLE = false);

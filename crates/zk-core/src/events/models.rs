use std::collections::HashMap;
use std::ops::ControlFlow;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::notify;
use crate::kernel::{Absorb, Event, Fold, Source};
use crate::model::{ErrorKind, Model, ModelRef};

/// Which models are there? Handlers add those they know; of two with the same provider and id the later one
/// counts. An agent adds the models of its own provider and of the registered ones.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ModelsQuery {
    /// The name of the provider whose models are asked for; nothing asks for those of all.
    pub provider: Option<String>,
    /// Whether the endpoints are asked for their lists, which takes as long as they take to answer. Otherwise
    /// the lists they gave before count, and what is known without asking.
    pub refresh: bool,
    /// The models so far.
    pub models: Vec<Model>,
    /// The providers so far that were asked and did not give a list.
    pub failed: Vec<ListingFailed>,
}

/// A provider that did not say which models it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ListingFailed {
    /// Name of the provider.
    pub provider: String,
    /// Error that kept the provider from it; nothing if its API has no such list.
    pub error: Option<ErrorKind>,
}

/// An answer to [`ModelsQuery`].
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
    /// The models, in the order in which to show them.
    pub models: Vec<Model>,
    /// The providers that were asked and did not give a list.
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
    /// The provider is not registered any more.
    Removed,
    /// The provider's endpoint listed other models than before.
    Listed,
}

/// A provider has other models than before: `models:query` tells them.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ModelsChanged {
    /// The provider.
    pub provider: String,
    /// Cause of the change.
    pub cause: ModelsCause,
}
notify!(ModelsChanged, "models:changed", CANCELLABLE = false);

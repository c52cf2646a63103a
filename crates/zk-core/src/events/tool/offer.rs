use std::collections::BTreeMap;
use std::ops::ControlFlow;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernel::{Absorb, Event, Fold, Source};
use crate::model::{Disclosure, Model};

/// Tools that the next request to a model offers. A handler answers with the tools whose offer it changes, by
/// canonical name; names that the run does not have are ignored. Asked at the start of a run and of each turn,
/// so an answer should depend on the model and the settings only: another answer changes the tool list, and
/// the provider's prompt cache misses. Not announced without handlers.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolsOffer {
    /// Model that the request goes to, unless a handler of `provider:request` changes it.
    pub model: Model,
    /// Offer of each tool of the run so far.
    pub tools: BTreeMap<String, Offer>,
}

/// Whether and when a model is offered a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// Every request offers the tool.
    Always,
    /// Requests offer the tool once the run asked for it; until then a call is refused.
    Lazy,
    /// The run does not have the tool. No later handler gives it back.
    Never,
}

impl From<Disclosure> for Offer {
    fn from(disclosure: Disclosure) -> Self {
        match disclosure {
            Disclosure::Always => Self::Always,
            Disclosure::Lazy => Self::Lazy,
        }
    }
}

impl Event for ToolsOffer {
    const NAME: &'static str = "tools:offer";
    type Reply = BTreeMap<String, Offer>;
    type Mode = Fold;
}

impl Absorb for ToolsOffer {
    fn absorb(&mut self, reply: BTreeMap<String, Offer>, _: &Source) -> ControlFlow<()> {
        for (name, offer) in reply {
            if let Some(known) = self.tools.get_mut(&name).filter(|known| **known != Offer::Never) {
                *known = offer;
            }
        }
        ControlFlow::Continue(())
    }
}
